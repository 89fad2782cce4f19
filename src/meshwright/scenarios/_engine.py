"""An engine's name goes in; what it is asked for, what it refuses and what an answer says of it come out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import EngineError
from meshwright.base.result import Excluded
from meshwright.layout.engine_rules import engine_rules
from meshwright.system.engine import ENGINES, Engine, EngineJob, Pool, read_engine

if TYPE_CHECKING:
    from meshwright.base.result import Result
    from meshwright.layout.engine_rules import Numbers
    from meshwright.layout.rules import Broken, Rule

FIT_LEFT_OUT: Final = "rules of a serving engine: page sizes, kernels"
PLAN_LEFT_OUT: Final = "rules of a serving engine: page sizes, widths of block-quantized shards, kernels"
_OF_NO_ENGINE: Final = frozenset({FIT_LEFT_OUT, PLAN_LEFT_OUT})
PLAN_MEMORY: Final = "; memory is what its own pool leaves for KV, in whole blocks, and --workspace is not asked"
"""What is left out where no engine is named, and what stands in its place where one is."""


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
