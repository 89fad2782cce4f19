"""An engine and one layout go in; whether it refuses it, and what its pool leaves for KV, come out.

available KV = the engine's `pool` of utilization, memory of the device, weights and its own reserve, on the rank with
               least: utilization x memory - weights - reserve where the share is of the whole device (vLLM)
KV blocks    = available KV // bytes of a block, on the stage with fewest
KV tokens    = KV blocks x block_size x cp, as every rank of cp has a block of its own
concurrency  = KV blocks / blocks of one request of max_model_len
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from meshwright.base.errors import EngineError
from meshwright.base.numbers import divide_up, maximum
from meshwright.base.result import Basis, Excluded
from meshwright.base.traced import cell, opaque
from meshwright.base.units import Bytes, Share, show_bytes
from meshwright.cost.memory_even import Shards, sharded_cached, sharded_ledger
from meshwright.cost.reserve import ReserveRule
from meshwright.layout.engine_rules import engine_rules
from meshwright.layout.layouts import table
from meshwright.layout.ownership import sample_ways
from meshwright.model.mixers.told import ALL
from meshwright.scenarios._shared import computed_reserve
from meshwright.system.engine import ENGINES, Engine, EngineJob, Pool, read_engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.base.result import Result
    from meshwright.layout.engine_rules import Numbers
    from meshwright.layout.layout import Layout
    from meshwright.layout.layouts import Layouts
    from meshwright.layout.rules import Broken, Rule
    from meshwright.model.model import Model
    from meshwright.system.system import System

_RULE: Final = ReserveRule()
FIT_LEFT_OUT: Final = "rules of a serving engine: page sizes, kernels"
PLAN_LEFT_OUT: Final = "rules of a serving engine: page sizes, widths of block-quantized shards, kernels"
_OF_NO_ENGINE: Final = frozenset({FIT_LEFT_OUT, PLAN_LEFT_OUT})
PLAN_MEMORY: Final = "; memory is kept as --workspace says, and `fit --engine` answers what its own pool leaves"
"""What is left out where no engine is named, and what stands in its place where one is."""


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
    engine, pool = serving_engine(options.name)
    share = pool.utilization if options.gpu_memory_utilization is None else options.gpu_memory_utilization
    block = pool.block_size if options.block_size is None else options.block_size
    _check(engine, share, block)
    layouts, none = table([layout]), np.zeros(1, dtype=np.int64)
    turn = block * layout.cp  # a block on each rank of cp
    capacity = system.accelerator.memory
    own = _reserved(model, layouts, options)
    held = sharded_ledger(
        model, layouts, shards=shards, sessions=none, tokens=turn, workspace_bytes=own, capacity_bytes=capacity
    )
    weights = cell(held.parameters, 0)
    available = pool_bytes(pool, share, capacity, weights, own)
    ledger = sharded_ledger(
        model,
        layouts,
        shards=shards,
        sessions=none,
        tokens=turn,
        workspace_bytes=0,
        capacity_bytes=maximum(available, 0) + weights,
    )
    longest = context or model.max_positions
    known = not pool.uniform_layers or _uniform(model)
    blocks = cell(ledger.max_sessions, 0) // cell(sample_ways(layouts), 0)
    per_request = None if longest is None else divide_up(longest, turn)
    each = cell(sharded_cached(model, layouts, turn, shards), 0)
    least = _least(pool, each * (per_request or 1), capacity, weights, own)
    return {
        "id": engine.id,
        "name": engine.name,
        "versions": engine.versions,
        "gpu_memory_utilization": share,
        "block_size": block,
        "budget_bytes": pool_bytes(pool, share, capacity, 0, 0),
        "graphs_low_bytes": pool.graphs[0],
        "graphs_high_bytes": pool.graphs[1],
        "graphs_within": pool.graphs_within,
        "reserve_bytes": own,
        "reserve_basis": Basis.ASSUMED.value if options.reserve is None else "stated",
        "available_kv_bytes": available,
        "least_gpu_memory_utilization": least if known else None,
        "kv_block_bytes": each if known else None,
        "kv_blocks": blocks if known else None,
        "kv_tokens": blocks * turn if known else None,
        "max_model_len": longest,
        "max_concurrency": blocks / per_request if known and per_request else None,
    }


class _Times:
    """A share of a device: times whole bytes it is exact, in whole bytes."""

    def __init__(self, share: float) -> None:
        self.share = share

    def __mul__(self, capacity: Any) -> Any:
        return budget_bytes(self.share, capacity)


@opaque
def budget_bytes(share: float, capacity: int) -> int:
    """What an engine may use of so many bytes: utilization x memory, exactly, in whole bytes."""
    return floor(Fraction(str(share)) * capacity)


def pool_bytes(pool: Pool, share: float, capacity: Any, weights: Any, reserve: Any) -> Any:
    """What an engine leaves for KV, by its own rule; below zero where weights and reserve take more."""
    names = {"utilization": _Times(share), "capacity": capacity, "weights": weights, "reserve": reserve}
    return pool.rule().of(names)


def _least(pool: Pool, wanted: Any, capacity: Any, weights: Any, reserve: Any) -> Any:
    """The share at which so many bytes are left for KV: the rule is linear in it."""
    whole, none = (pool_bytes(pool, share, capacity, weights, reserve) for share in (1.0, 0.0))
    return (wanted - none) / (whole - none)


def named_engine(name: str, job: EngineJob) -> Engine:
    """The engine. Raises ENG001 (unknown) and ENG006 (it does something else)."""
    engine = read_engine(name)
    if job not in engine.jobs:
        others = [item for item in ENGINES.names() if job in read_engine(item).jobs]
        cause = f"{engine.titled} is read for what it {'trains' if job == 'serve' else 'serves'}, not to {job}"
        raise EngineError(6, cause, f"--engine {others[0]}; known: {', '.join(others)}")
    return engine


def serving_engine(name: str) -> tuple[Engine, Pool]:
    """A serving engine and how it divides a device. Raises as `named_engine`."""
    engine = named_engine(name, "serve")
    assert engine.memory is not None, f"{name} serves, and its file has no memory"
    return engine, engine.memory


def serving_rules(name: str) -> tuple[Rule, ...]:
    """What a serving engine refuses. Raises as `named_engine`."""
    return engine_rules(named_engine(name, "serve"))


def training_rules(name: str | None, job: Numbers) -> tuple[Rule, ...]:
    """What a training engine refuses of a job; nothing without one. Raises as `named_engine`."""
    return () if name is None else engine_rules(named_engine(name, "train"), job)


def limit_of(broken: Broken) -> str:
    """Whose rule it is: that of all layouts, or of an engine."""
    return "engine" if broken.code.startswith(EngineError.prefix) else "rule"


def engine_refusal(broken: Broken) -> Excluded:
    """A layout that breaks a rule, an engine's or one of all."""
    return Excluded(code=broken.code, reason=broken.reason, nearest=broken.nearest, limit=limit_of(broken))


def for_engine(result: Result, name: str | None, kept: str = "") -> Result:
    """The result with the engine that it was asked for: in its verdict, notes and sources.

    kept: what decides memory, where it is not the engine's own pool.
    """
    if name is None:
        return result
    engine = read_engine(name)
    note = f"{engine.titled}: layouts that it refuses are excluded, each with its message{kept}"
    asked = f"rules of {engine.titled} beyond those of its file (`list engines`): kernels, models that it does not have"
    said = result.verdict.text
    return replace(
        result,
        verdict=replace(result.verdict, text=said if engine.titled in said else f"{said}; engine: {engine.titled}"),
        notes=(*result.notes, note),
        not_modelled=(*(text for text in result.not_modelled if text not in _OF_NO_ENGINE), asked),
        sources=tuple(dict.fromkeys([*result.sources, *engine.facts.sources])),
    )


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


def _check(engine: Engine, share: float, block: int) -> None:
    if not 0 < share <= 1:
        raise EngineError(2, f"--gpu-memory-utilization is {share:g}", "give a share above 0 and up to 1, as in 0.9")
    known = () if engine.memory is None else engine.memory.block_sizes
    if block not in known:
        listed = ", ".join(str(size) for size in known)
        near = min(known, key=lambda size: abs(size - block))
        raise EngineError(2, f"--block-size is {block}: {engine.titled} has {listed}", f"--block-size {near}")


def _uniform(model: Model) -> bool:
    """Whether every layer keeps the same state of every position, and nothing else."""
    states = {(block.mixer.token_state(), block.mixer.session_state()) for block in model.kinds}
    whole = all(item.span == ALL for kept, _ in states for item in kept)
    return len(states) == 1 and whole and not any(fixed for _, fixed in states)
