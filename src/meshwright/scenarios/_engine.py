"""An engine's budget rule and one layout go in; what it leaves for KV, in bytes, tokens and requests, comes out.

available KV = utilization x memory of the device - weights - the engine's own reserve, on the rank with least
KV blocks    = available KV // bytes of a block, on the stage with fewest
KV tokens    = KV blocks x block_size
concurrency  = KV blocks / blocks of one request of max_model_len
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from meshwright.base.errors import EngineError
from meshwright.base.numbers import divide_up
from meshwright.base.result import Basis, Excluded
from meshwright.base.traced import cell, opaque
from meshwright.base.units import Bytes, Share, show_bytes
from meshwright.cost.memory_even import Shards, sharded_cached, sharded_ledger
from meshwright.cost.reserve import ReserveRule
from meshwright.layout.layouts import table
from meshwright.layout.ownership import sample_ways
from meshwright.model.mixers.told import ALL
from meshwright.scenarios._shared import computed_reserve
from meshwright.system.engine import read_engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.layout.layout import Layout
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.system.system import System

_MOST_BLOCK: Final = 2**20
_RULE: Final = ReserveRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How an engine is started.

    name: registry name.   gpu_memory_utilization, block_size: None takes the engine's default.   reserve: bytes it
    keeps beside weights and KV (non-torch memory and the activation peak); None computes them by `rule` (assumed).
    """

    name: str
    gpu_memory_utilization: Share | None = None
    block_size: int | None = None
    reserve: Bytes | None = None
    rule: ReserveRule = _RULE


def engine_block(  # noqa: PLR0917 - the nouns, and what was asked of them
    model: Model, system: System, layout: Layout, options: EngineOptions, shards: Shards, context: int
) -> dict[str, Any]:
    """The `engine` of fit's memory. Raises ENG001 (unknown engine), ENG002 (utilization or block size out of range).

    Numbers of tokens are null where the engine's rule for the model's layers is not known; `max_model_len` is the
    context, or the longest that the config claims, and one request of it needs `least_gpu_memory_utilization`.
    """
    engine = read_engine(options.name)
    share = engine.gpu_memory_utilization if options.gpu_memory_utilization is None else options.gpu_memory_utilization
    block = engine.block_size if options.block_size is None else options.block_size
    _check(share, block)
    layouts, none = table([layout]), np.zeros(1, dtype=np.int64)
    capacity = system.accelerator.memory
    budget = budget_bytes(share, capacity)
    own = _reserved(model, layouts, options)
    ledger = sharded_ledger(
        model, layouts, shards=shards, sessions=none, tokens=block, workspace_bytes=own, capacity_bytes=budget
    )
    longest = context or model.max_positions
    known = not engine.uniform_layers or _uniform(model)
    blocks = cell(ledger.max_sessions, 0) // cell(sample_ways(layouts), 0)
    per_request = None if longest is None else divide_up(longest, block)
    each = cell(sharded_cached(model, layouts, block, shards), 0)
    weights = cell(ledger.parameters, 0)
    least = own + weights + each * (per_request or 1)
    return {
        "name": engine.name,
        "versions": engine.versions,
        "gpu_memory_utilization": share,
        "block_size": block,
        "budget_bytes": budget,
        "reserve_bytes": own,
        "reserve_basis": Basis.ASSUMED.value if options.reserve is None else "stated",
        "available_kv_bytes": budget - own - weights,
        "least_gpu_memory_utilization": least / capacity if known else None,
        "kv_block_bytes": each if known else None,
        "kv_blocks": blocks if known else None,
        "kv_tokens": blocks * block if known else None,
        "max_model_len": longest,
        "max_concurrency": blocks / per_request if known and per_request else None,
    }


@opaque
def budget_bytes(share: float, capacity: int) -> int:
    """What an engine may use of a device: utilization x memory, exactly, in whole bytes."""
    return int(Fraction(str(share)) * capacity)


def engine_notes(model: Model, block: Mapping[str, Any]) -> tuple[str, ...]:
    """Which versions the rule holds for, what was assumed, and why tokens are not answered."""
    found = [f"{block['name']} {block['versions']}: KV is what utilization x memory leaves beside weights and reserve"]
    if block["reserve_basis"] == Basis.ASSUMED.value:
        found.append(
            f"--engine-reserve is not given: {block['reserve_bytes']} bytes are computed from shapes (assumed); a "
            "start log states non-torch memory and the activation peak, which add up to it"
        )
    if block["kv_tokens"] is None:
        found.append(
            f"the layers of {model.name} keep states of several kinds, or windows: how {block['name']} counts tokens "
            "then is not known here, so kv_tokens is null"
        )
    return tuple(found)


def engine_exclusion(block: Mapping[str, Any]) -> Excluded | None:
    """Why the engine refuses to start, if it does: weights beyond its budget, or no room for one longest request."""
    least = block["least_gpu_memory_utilization"]
    nearest = f"gpu-memory-utilization={least:.4f}" if least is not None and least <= 1 else None
    if block["available_kv_bytes"] <= 0:
        over = show_bytes(float(-block["available_kv_bytes"]))
        reason = f"{block['name']}: weights and reserve take {over} more than its budget"
        return Excluded(code="ENG003", reason=reason, nearest=nearest, limit="engine budget")
    tokens, longest = block["kv_tokens"], block["max_model_len"]
    if tokens is None or longest is None or tokens >= longest:
        return None
    reason = f"{block['name']} has room for {tokens} KV tokens, and one request may take {longest}"
    return Excluded(code="ENG004", reason=reason, nearest=nearest or f"context={tokens}", limit="engine budget")


def _reserved(model: Model, layouts: Layouts, options: EngineOptions) -> int:
    """The stated reserve, or the computed one without its padding, which lies in the KV pages and the weights."""
    if options.reserve is not None:
        return options.reserve
    computed = computed_reserve(model, layouts, options.rule, np.zeros(1, dtype=np.int64))
    return cast("int", cell(computed.outside_pool, 0))


def _check(share: float, block: int) -> None:
    if not 0 < share <= 1:
        raise EngineError(2, f"--gpu-memory-utilization is {share:g}", "give a share above 0 and up to 1, as in 0.9")
    if not 1 <= block <= _MOST_BLOCK:
        raise EngineError(2, f"--block-size is {block}", f"give a block from 1 to {_MOST_BLOCK} positions, as in 16")


def _uniform(model: Model) -> bool:
    """Whether every layer keeps the same state of every position, and nothing else."""
    states = {(block.mixer.token_state(), block.mixer.session_state()) for block in model.kinds}
    whole = all(item.span == ALL for kept, _ in states for item in kept)
    return len(states) == 1 and whole and not any(fixed for _, fixed in states)
