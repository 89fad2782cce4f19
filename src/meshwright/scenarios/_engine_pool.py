"""An engine, how it is started and a layout go in; what its pool leaves for KV, in blocks and tokens, comes out.

available KV = the engine's `pool` of utilization, memory of the device, weights and its own reserve, on the rank with
               least: utilization x memory - weights - reserve where the share is of the whole device (vLLM)
KV blocks    = available KV // bytes of a block, on the stage with fewest
KV tokens    = KV blocks // groups of layers x block_size x cp, as every rank of cp has a block of its own
concurrency  = KV blocks / blocks of one request of max_model_len

Any of weights, available KV and blocks may be stated instead, as a start log does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from meshwright.base.errors import EngineError
from meshwright.base.numbers import maximum, where
from meshwright.base.result import Basis, Excluded
from meshwright.base.traced import cell, opaque
from meshwright.base.units import Bytes, Share, show_bytes
from meshwright.cost.memory import token_columns
from meshwright.cost.memory_even import Shards, sharded_ledger
from meshwright.cost.reserve import ReserveRule
from meshwright.layout.layouts import table
from meshwright.scenarios._engine import serving_engine
from meshwright.scenarios._engine_blocks import alike_layers, least_bytes_per_token, paging
from meshwright.scenarios._shared import computed_reserve

if TYPE_CHECKING:
    from meshwright.cost.reserve import Reserve
    from meshwright.layout.layout import Layout
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.scenarios._engine_blocks import Paging
    from meshwright.system.engine import Engine, Pool
    from meshwright.system.system import System

_RULE: Final = ReserveRule()
_HUNDREDTHS: Final = 100
_TEN_THOUSANDTHS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How an engine is started.

    name: registry name.   gpu_memory_utilization: its share of a device, by whatever flag it has; None takes its
    default.   kv_cache_memory: bytes for KV on a rank, in place of what the share leaves.   kv_blocks: so many blocks.
    block_size: None takes the engine's.   weights: of the rank that has most, as a start log states them, in place of
    those of the shapes.   reserve: bytes it keeps beside weights and KV (non-torch memory and the activation peak);
    None computes them by `rule` (assumed).
    """

    name: str
    gpu_memory_utilization: Share | None = None
    kv_cache_memory: Bytes | None = None
    kv_blocks: int | None = None
    block_size: int | None = None
    weights: Bytes | None = None
    reserve: Bytes | None = None
    rule: ReserveRule = _RULE


def engine_block(  # noqa: PLR0917 - the nouns, and what was asked of them
    model: Model, system: System, layout: Layout, options: EngineOptions, shards: Shards, context: int
) -> dict[str, Any]:
    """The `engine` of fit's memory. Raises ENG001 (unknown engine), ENG002 (an option out of range).

    Numbers of tokens are null where the engine's rule for the model's layers is not known; `max_model_len` is the
    context, or the longest that the config claims, and one request of it needs `least_gpu_memory_utilization`.
    """
    engine, pool = serving_engine(options.name)
    share, block = started(engine, pool, options)
    turn = block * layout.cp  # a block on each rank of cp
    layouts, capacity = table([layout]), system.accelerator.memory
    own = cast("int", cell(_reserved(model, layouts, options), 0))
    weights = _weights(model, layouts, options, shards, turn)
    available = pool_bytes(pool, share, capacity, weights, own)
    available = available if options.kv_cache_memory is None else options.kv_cache_memory
    longest = context or model.max_positions
    pages = paging(pool, model, layouts, shards, turn, options.rule.max_batched_tokens)
    if pages is None and options.kv_blocks is not None:
        raise _of_unknown_size(engine, model)
    counted = _UNKNOWN if pages is None else _counted(pages, options, available, longest, turn)
    wanted, taken = counted["wanted"], available if options.kv_blocks is None else counted["taken"]
    return {
        "id": engine.id,
        "name": engine.name,
        "versions": engine.versions,
        "gpu_memory_utilization": share,
        "block_size": block,
        "budget_bytes": pool_bytes(pool, share, capacity, 0, 0),
        "weights_bytes": weights,
        "weights_basis": Basis.FORMULA.value if options.weights is None else "stated",
        "before_bytes": pool.before,
        "outside_low_bytes": _outside(pool, 0),
        "outside_high_bytes": _outside(pool, 1),
        "free_outside_bytes": capacity - pool.before - weights - own - taken,
        "graphs_low_bytes": pool.graphs[0],
        "graphs_high_bytes": pool.graphs[1],
        "graphs_within": pool.graphs_within,
        "reserve_bytes": own,
        "activations_bytes": _activations(model, layouts, options),
        "reserve_basis": Basis.ASSUMED.value if options.reserve is None else "stated",
        "available_kv_bytes": available,
        "loading_gpu_memory_utilization": _least(pool, 0, capacity, weights, own),
        "least_gpu_memory_utilization": None if wanted is None else _least(pool, wanted, capacity, weights, own),
        "largest_safe_gpu_memory_utilization": _safe(pool, capacity, weights, own),
        "least_kv_bytes_per_token": least_bytes_per_token(model, layouts, shards),
        "max_model_len": longest,
        **{name: value for name, value in counted.items() if name not in {"wanted", "taken"}},
    }


def _counted(pages: Paging, options: EngineOptions, available: Any, longest: int | None, block: int) -> dict[str, Any]:
    """Blocks and tokens of so many bytes; and bytes of one longest request (`wanted`) and of all blocks (`taken`)."""
    blocks = pages.fitting(maximum(available, 0)) if options.kv_blocks is None else options.kv_blocks
    per_request = None if longest is None else pages.of_request(longest)
    return {
        "request_blocks": per_request,
        "kv_block_bytes": pages.block_bytes,
        "layer_groups": pages.groups,
        "kv_bytes_per_token": pages.groups * pages.block_bytes / block,
        "kv_blocks": blocks,
        "kv_tokens": blocks // pages.groups * block,
        "max_concurrency": blocks / per_request if per_request else None,
        "wanted": pages.block_bytes * (per_request or 1),
        "taken": pages.block_bytes * blocks,
    }


_UNKNOWN: Final[Mapping[str, Any]] = dict.fromkeys(
    (
        "kv_block_bytes",
        "layer_groups",
        "kv_bytes_per_token",
        "kv_blocks",
        "kv_tokens",
        "request_blocks",
        "max_concurrency",
        "wanted",
        "taken",
    )
)


def started(engine: Engine, pool: Pool, options: EngineOptions) -> tuple[float, int]:
    """The share and the block size that an engine is started with. Raises ENG002 for one out of range."""
    share = pool.utilization if options.gpu_memory_utilization is None else options.gpu_memory_utilization
    block = pool.block_size if options.block_size is None else options.block_size
    if not 0 < share <= 1:
        raise EngineError(2, f"--gpu-memory-utilization is {share:g}", "give a share above 0 and up to 1, as in 0.9")
    if block not in pool.block_sizes:
        listed = ", ".join(str(size) for size in pool.block_sizes)
        near = min(pool.block_sizes, key=lambda size: abs(size - block))
        raise EngineError(2, f"--block-size is {block}: {engine.titled} has {listed}", f"--block-size {near}")
    if options.kv_blocks is not None and not 0 < options.kv_blocks <= _MOST_BLOCKS:
        raise EngineError(2, f"--kv-blocks is {options.kv_blocks}", f"give between 1 and {_MOST_BLOCKS}")
    if options.kv_cache_memory is not None and options.kv_cache_memory <= 0:
        raise EngineError(2, f"--kv-cache-memory is {options.kv_cache_memory} B", "give bytes above 0, as in 20GiB")
    return share, block


_MOST_BLOCKS: Final = 2**30


class _Times:
    """A share of a device: times whole bytes it is exact, in whole bytes."""

    def __init__(self, share: float) -> None:
        self.share = share

    def __mul__(self, capacity: Any) -> Any:
        return budget_bytes(self.share, capacity)


@opaque
def budget_bytes(share: float, capacity: Any) -> Any:
    """What an engine may use of so many bytes (or a column): utilization x memory, exactly, in whole bytes."""
    exact = Fraction(str(share))
    if isinstance(capacity, np.ndarray):  # whole numbers of Python, as a share of many digits leaves no room in 64 bits
        whole: Any = cast("Any", capacity).astype(object)
        return (whole * exact.numerator // exact.denominator).astype(np.int64)
    return floor(exact * capacity)


def pool_bytes(pool: Pool, share: float, capacity: Any, weights: Any, reserve: Any) -> Any:
    """What an engine leaves for KV, by its own rule; below zero where weights and reserve take more."""
    names = {"utilization": _Times(share), "capacity": capacity, "weights": weights, "reserve": reserve}
    return pool.rule().of(names | {"before": pool.before})


def kept_columns(model: Model, layouts: Layouts, options: EngineOptions, weights: Any, capacity: Any) -> Any:
    """What an engine leaves neither to weights nor to KV, one row a layout: a ledger's workspace.

    weights: of the fullest rank of each row. A row whose share leaves too little for what the engine does not count
    has no room at all. Raises as `started`.
    """
    engine, pool = serving_engine(options.name)
    share, block = started(engine, pool, options)
    held = weights if options.weights is None else options.weights
    own = _reserved(model, layouts, options)
    left = pool_bytes(pool, share, capacity, held, own)
    if options.kv_cache_memory is not None:
        left = left * 0 + options.kv_cache_memory
    if options.kv_blocks is not None:
        if not alike_layers(model):
            raise _of_unknown_size(engine, model)
        left = token_columns(model, layouts) * (block * options.kv_blocks)
    crowded = capacity - pool.before - held - own - left < _outside(pool, 0)
    return where(crowded, capacity + 0 * left, capacity - weights - left)


def _of_unknown_size(engine: Engine, model: Model) -> EngineError:
    cause = f"--kv-blocks: what a block of {engine.titled} holds of {model.name}, whose layers differ, is not known"
    return EngineError(2, cause, "--kv-cache-memory, the bytes of these blocks on a device")


def _weights(model: Model, layouts: Layouts, options: EngineOptions, shards: Shards, block: int) -> int:
    if options.weights is not None:
        return options.weights
    none = np.zeros(1, dtype=np.int64)
    held = sharded_ledger(
        model, layouts, shards=shards, sessions=none, tokens=block, workspace_bytes=0, capacity_bytes=0
    )
    return cast("int", cell(held.parameters, 0))


def _reserved(model: Model, layouts: Layouts, options: EngineOptions) -> Any:
    """The stated reserve, or the computed one without its padding, which lies in the KV pages and the weights."""
    none = np.zeros(len(layouts), dtype=np.int64)
    return none + options.reserve if options.reserve is not None else _computed(model, layouts, options).outside_pool


def _activations(model: Model, layouts: Layouts, options: EngineOptions) -> Any:
    """Of a computed reserve, those of its largest step."""
    return None if options.reserve is not None else cell(_computed(model, layouts, options).activations, 0)


def _computed(model: Model, layouts: Layouts, options: EngineOptions) -> Reserve:
    return computed_reserve(model, layouts, options.rule, np.zeros(len(layouts), dtype=np.int64))


def _outside(pool: Pool, end: int) -> int:
    """What it takes beside all that it counts, at one end of its interval: graphs, where they lie there, included."""
    return pool.outside[end] + (0 if pool.graphs_within else pool.graphs[end])


def _least(pool: Pool, wanted: Any, capacity: Any, weights: Any, reserve: Any) -> Any:
    """The share at which so many bytes are left for KV: the rule is linear in it. None where more of it leaves less."""
    whole, none = (pool_bytes(pool, share, capacity, weights, reserve) for share in (1.0, 0.0))
    return (wanted - none) / (whole - none) if whole > none else None


def _safe(pool: Pool, capacity: Any, weights: Any, reserve: Any) -> Any:
    """The largest share, in hundredths, that leaves the most that is taken beside it; 0 where none does."""
    room = capacity - pool.before - _outside(pool, 1) - weights - reserve
    share = _least(pool, room, capacity, weights, reserve)
    return 0.0 if share is None else hundredths(share)


@opaque
def hundredths(share: float) -> float:
    """A share rounded down to hundredths, between 0 and 1: as one writes it for an engine."""
    return max(min(floor(share * _HUNDREDTHS), _HUNDREDTHS), 0) / _HUNDREDTHS


def engine_notes(model: Model, block: Mapping[str, Any]) -> tuple[str, ...]:
    """Which versions the rule holds for, what was assumed, and why tokens are not answered."""
    engine, pool = serving_engine(block["id"])
    low, high = (show_bytes(float(size)) for size in pool.graphs)
    found = [f"{engine.titled}: KV is {pool.pool}, of the rank that has least"]
    place = "inside" if pool.graphs_within else "outside"
    found.append(f"{engine.titled} captures graphs of {low} to {high}, {place} what {pool.flag} shares out")
    found += [f"{engine.titled}: {pool.note}"] if pool.note else []
    if block["reserve_basis"] == Basis.ASSUMED.value:
        found.append(
            f"--engine-reserve is not given: {block['reserve_bytes']} bytes are computed from shapes (assumed); a "
            "start log states non-torch memory and the activation peak, which add up to it"
        )
        found.append(
            f"{show_bytes(float(block['activations_bytes']))} of the reserve are activations of a step: fewer rows of "
            "--max-batched-tokens leave more for KV"
        )
    if block["kv_tokens"] is None:
        found.append(
            f"the layers of {model.name} keep states of several kinds, or windows: how {block['name']} counts tokens "
            "then is not known here, so kv_tokens is null"
        )
    elif block["layer_groups"] > 1:
        found.append(
            f"{engine.titled}: layers of several kinds share blocks in {block['layer_groups']} groups, so that a token "
            f"of its count takes {block['kv_bytes_per_token']:,.0f} bytes, as if no layer had a window (which is what "
            f"earlier versions keep); layers that keep every position need {block['least_kv_bytes_per_token']:,.0f}"
        )
    return tuple(found)


def engine_exclusion(block: Mapping[str, Any], options: EngineOptions) -> Excluded | None:
    """Why the engine refuses to start, or fails at its start.

    Weights beyond its budget, too little left for what it does not count, or no room for one longest request. Where
    bytes or blocks of KV are stated the share decides neither of the last two, and the nearest is so many of them.
    """
    least = block["least_gpu_memory_utilization"] or block["loading_gpu_memory_utilization"]
    nearest = f"gpu-memory-utilization={_rounded_up(least):.4f}" if least is not None and least <= 1 else None
    if block["available_kv_bytes"] <= 0:
        over = show_bytes(float(-block["available_kv_bytes"]))
        reason = f"{block['name']}: weights and reserve take {over} more than its budget"
        return Excluded(code="ENG003", reason=reason, nearest=nearest, limit="engine budget")
    if block["free_outside_bytes"] < block["outside_low_bytes"]:
        return _crowded(block, options)
    tokens, longest = block["kv_tokens"], block["max_model_len"]
    if block["max_concurrency"] is None or block["max_concurrency"] >= 1:
        return None
    reason = f"{block['name']} has room for {tokens} KV tokens, and one request may take {longest}"
    if _taken(block, options) is not None:
        nearest = _stated_as(options, block["request_blocks"] * block["kv_block_bytes"], block)
    return Excluded(code="ENG004", reason=reason, nearest=nearest or f"context={tokens}", limit="engine budget")


def _crowded(block: Mapping[str, Any], options: EngineOptions) -> Excluded:
    """A share, or stated KV, that leaves less than the least that the engine takes without counting it."""
    low, high = (show_bytes(float(block[f"outside_{end}_bytes"])) for end in ("low", "high"))
    left, taken = block["free_outside_bytes"], _taken(block, options)
    room = f"leaves {show_bytes(float(left))}" if left >= 0 else f"takes {show_bytes(float(-left))} too much"
    if taken is None:
        asked, safe = f"at {block['gpu_memory_utilization']:g}", block["largest_safe_gpu_memory_utilization"]
        nearest = f"gpu-memory-utilization={safe:g}" if safe > 0 else None
    else:
        asked = f"with {show_bytes(float(taken))} for KV"
        nearest = _stated_as(options, taken + left - block["outside_high_bytes"], block)
    reason = f"{block['name']} {asked} {room}, and {low} to {high} are taken outside what it counts"
    return Excluded(code="ENG027", reason=reason, nearest=nearest, limit="engine budget")


def _taken(block: Mapping[str, Any], options: EngineOptions) -> Any:
    """Bytes for KV as they are stated, by themselves or as blocks; None where the share decides."""
    if options.kv_blocks is not None:
        return options.kv_blocks * block["kv_block_bytes"]
    return options.kv_cache_memory


def _stated_as(options: EngineOptions, size: Any, block: Mapping[str, Any]) -> str | None:
    """So many bytes for KV, as they were stated; None where there are none."""
    if options.kv_blocks is None:
        return f"kv-cache-memory={size}B" if size > 0 else None
    blocks = size // block["kv_block_bytes"]
    return f"kv-blocks={blocks}" if blocks > 0 else None


def _rounded_up(share: float) -> float:
    return ceil(share * _TEN_THOUSANDTHS) / _TEN_THOUSANDTHS
