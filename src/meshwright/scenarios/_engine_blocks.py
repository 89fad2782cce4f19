"""A model on a layout goes in; the blocks in which an engine's pool hands out its KV come out.

Where all layers keep the same state, a block is so many positions of all of them. Where they are of several kinds with
equally large pages (full and windowed attention of the same heads), a pool of `groups` shares blocks: layers of a kind
make groups of equally many layers, a block holds the positions of one group, and a request takes blocks of each.

    layers a group = layers of the rarest kind, or of the commonest where that is less than 1.25 as many
    groups         = layers of a kind / layers a group, rounded up, over all kinds
    tokens         = blocks // groups x block_size

Source: vLLM 0.11, v1/core/kv_cache_utils.py (get_kv_cache_groups, get_kv_cache_config_from_groups, and the log lines of
_report_kv_cache_config), v1/kv_cache_interface.py (max_memory_usage_bytes of each kind).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from meshwright.base.numbers import divide_up
from meshwright.base.traced import cell
from meshwright.cost.memory_even import sharded_cached, sharded_ledger
from meshwright.layout.ownership import sample_ways
from meshwright.model.mixers.told import ALL
from meshwright.model.model import group_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.cost.memory_even import Shards
    from meshwright.layout.layouts import Layouts
    from meshwright.model.mixers.told import PositionState, Span
    from meshwright.model.model import Block, Model
    from meshwright.system.engine import Pool

_FEWER: Final = 1.25
_FAR: Final = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """block_bytes: of a block on a rank.   groups: of layers that each take blocks of their own.

    fitting: blocks of so many bytes.   of_request: blocks of a request of so many positions.
    """

    block_bytes: int
    groups: int
    fitting: Callable[[Any], Any]
    of_request: Callable[[int], int]


def paging(  # noqa: PLR0917 - a model, where it lies and how the engine is started
    pool: Pool, model: Model, layouts: Layouts, shards: Shards, block: int, rows: int
) -> Paging | None:
    """The blocks of one layout; None where the engine's rule for these layers is not known here.

    block: positions, over all ranks of cp.   rows: of the largest step, which a window keeps beside itself while it is
    taken.
    """
    if alike_layers(model):
        return _of_all_layers(model, layouts, shards, block)
    kinds = _kinds(model, layouts, shards)
    if pool.layers != "groups" or kinds is None or int((layouts.degree("pp") * layouts.degree("cp"))[0]) > 1:
        return None
    counts = [count for _, count, _ in kinds]
    size = max(counts) if max(counts) < _FEWER * min(counts) else min(counts)
    groups = [(span, divide_up(count, size)) for span, count, _ in kinds]
    each = kinds[0][2] * block * size
    return Paging(
        block_bytes=each,
        groups=sum(count for _, count in groups),
        fitting=lambda available: available // each,
        of_request=lambda length: sum(count * _blocks(span, length, block, rows) for span, count in groups),
    )


def least_bytes_per_token(model: Model, layouts: Layouts, shards: Shards) -> float:
    """Bytes that a position adds where every window is full: what the shapes ask for, whatever an engine keeps."""
    spans = [item.span for kind in model.kinds for item in kind.mixer.token_state()]
    filled = max((bound for span in spans for bound in (span.window, span.chunk) if bound is not None), default=0)
    far, near = (cell(sharded_cached(model, layouts, filled + at, shards), 0) for at in (2 * _FAR, _FAR))
    return cast("float", (far - near) / _FAR)


def _of_all_layers(model: Model, layouts: Layouts, shards: Shards, block: int) -> Paging:
    """Every layer keeps all positions: a block is of all layers of a stage, and the stage with fewest decides."""

    def fitting(available: Any) -> Any:
        none = np.zeros(1, dtype=np.int64)
        held = sharded_ledger(
            model, layouts, shards=shards, sessions=none, tokens=block, workspace_bytes=0, capacity_bytes=0
        )
        weights = cell(held.parameters, 0)
        ledger = sharded_ledger(
            model,
            layouts,
            shards=shards,
            sessions=none,
            tokens=block,
            workspace_bytes=0,
            capacity_bytes=available + weights,
        )
        return cell(ledger.max_sessions, 0) // cell(sample_ways(layouts), 0)

    each = cell(sharded_cached(model, layouts, block, shards), 0)
    return Paging(
        block_bytes=cast("int", each), groups=1, fitting=fitting, of_request=lambda length: divide_up(length, block)
    )


def _kinds(model: Model, layouts: Layouts, shards: Shards) -> list[tuple[Span, int, int]] | None:
    """Span, layers and bytes of a position of each kind; None where pages differ, or state is no row a position."""
    found: dict[tuple[PositionState, ...], tuple[Block, int]] = {}
    for block, count in zip(model.kinds, model.kind_counts, strict=True):
        state = block.mixer.token_state()
        if block.mixer.session_state() or len({item.span for item in state}) > 1:
            return None
        if state:
            found[state] = (block, count + found.get(state, (block, 0))[1])
    rows: list[tuple[Span, int, int]] = []
    for state, (block, count) in found.items():
        span = state[0].span
        if span.stride > 1 or span.top is not None:
            return None
        alone = replace(model, groups=group_blocks([block]))
        rows.append((span, count, cast("int", cell(sharded_cached(alone, layouts, 1, shards), 0))))
    return rows if rows and len({size for _, _, size in rows}) == 1 else None


def _blocks(span: Span, length: int, block: int, rows: int) -> int:
    """Blocks that a request of so many positions takes of one group while a step of so many rows is taken."""
    if span.window is not None:
        return divide_up(min(span.window - 1 + rows, length), block) + 1
    if span.chunk is not None:
        return divide_up(min(span.chunk + rows, length), block)
    return divide_up(length, block)


def alike_layers(model: Model) -> bool:
    """Whether every layer keeps the same state of every position, and nothing else."""
    states = {(block.mixer.token_state(), block.mixer.session_state()) for block in model.kinds}
    states -= {((), ())}  # blocks that keep nothing, or share what another keeps
    whole = all(item.span == ALL for kept, _ in states for item in kept)
    return len(states) == 1 and whole and not any(fixed for _, fixed in states)
