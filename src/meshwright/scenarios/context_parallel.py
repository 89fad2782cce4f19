"""How long does a long context take over ranks that share it? A model, a system and degrees go in; times come out.

A prompt: every split and exchange, for the busiest rank. A decode step: each rank reads its part of the cached
positions, and partial results (m, l, u) of every head are gathered and merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.numbers import divide_up
from meshwright.base.units import TokenCount, Tokens
from meshwright.cost.collectives import program_s
from meshwright.cost.estimate import Assumptions, Work, estimate_step, matrix_rate
from meshwright.cost.groups import group_along
from meshwright.cost.roofline import roofline_s
from meshwright.cost.training_exchange import layer_exchange
from meshwright.cost.training_work import training_work
from meshwright.job.recipe import Recipe
from meshwright.job.serve import MOST_TOKENS, check_range
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.mixers.told import ALL
from meshwright.model.model import Model
from meshwright.scenarios._training_context import broken_context_rule
from meshwright.system.system import System
from meshwright.workload.batches import decode
from meshwright.workload.context_split import ContextExchange, ContextPlan, ContextSplit

if TYPE_CHECKING:
    from meshwright.cost.estimate import Step

_SPLITS: Final[tuple[ContextSplit, ...]] = ("zigzag", "striped", "contiguous")
_EXCHANGES: Final[tuple[ContextExchange, ...]] = ("ring", "all_gather", "ulysses")
_PARTIAL_BYTES: Final = 4
_SCALARS: Final = 2
LEFT_OUT: Final = (
    "a prompt: ends of the model, what a training step leaves out too, and the tp exchange's overlap",
    "a decode step: which rank takes a new position, and its write",
    "state of fixed size and of windows: every rank keeps it whole, so a decode step reads it whole",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow:
    """One way to share a prompt. attention_s: of the busiest rank.   exchange_s: over cp and tp, that nothing hides.

    excluded: the code of what forbids it; its times are None.
    """

    split: str
    exchange: str
    attention_s: float | None
    other_s: float | None
    exchange_s: float | None
    prompt_s: float | None
    excluded: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRow:
    """One degree of cp.

    state_bytes: that the fullest rank reads a step.   merge_bytes: that a rank sends a layer, to each other rank.
    merge_s: of all layers.   times_faster: than one rank of cp, never as many as there are ranks.
    """

    cp: int
    ranks: int
    state_bytes: float
    local_s: float
    merge_bytes: float
    merge_s: float
    exchange_s: float
    step_s: float
    times_faster: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTimes:
    """prompt: at the largest degree, the fastest first.   decode: one session, by degree."""

    cp: int
    prompt: tuple[PromptRow, ...]
    decode: tuple[DecodeRow, ...]
    not_modelled: tuple[str, ...]


def context_parallel(model: Model, system: System, tokens: Tokens, tp: int, degrees: tuple[int, ...]) -> ContextTimes:
    """A prompt of `tokens`, and a decode step of one session with so many cached, over cp of each degree.

    Raises JOB001 (sizes), SYS005 (no matrix rate). Source: chapter "Supernodes", section 6.2.4; exchanges as in a
    training step's forward pass.
    """
    check_range("tokens", tokens, 1, MOST_TOKENS)
    check_range("tp", tp, 1, system.devices)
    check_range("degrees", len(degrees), 1, system.devices)
    for cp in degrees:
        check_range("degrees", cp, 1, min(system.devices // tp, tokens))
    most = max(degrees)
    ways: list[tuple[ContextSplit, ContextExchange]] = [
        (split, exchange) for split, exchange in product(_SPLITS, _EXCHANGES) if exchange != "ulysses"
    ]
    ways.append(("zigzag", "ulysses"))
    prompt = [_prompt(model, system, tokens, Layout(tp=tp, cp=most), *way) for way in ways]
    prompt.sort(key=lambda row: float("inf") if row.prompt_s is None else row.prompt_s)
    alone = _decode(model, system, tokens, tp, 1, None)
    rows = tuple(_decode(model, system, tokens, tp, cp, alone.step_s) for cp in degrees)
    return ContextTimes(cp=most, prompt=tuple(prompt), decode=rows, not_modelled=LEFT_OUT)


def _prompt(  # noqa: PLR0917 - the nouns, and the way
    model: Model, system: System, tokens: Tokens, layout: Layout, split: ContextSplit, exchange: ContextExchange
) -> PromptRow:
    context = ContextPlan(split=split, exchange=exchange)
    rule = broken_context_rule(
        model, TrainJob(tokens=TokenCount(tokens), sequence=tokens, global_batch=1), context, layout
    )
    if rule is not None:
        return PromptRow(
            split=split,
            exchange=exchange,
            attention_s=None,
            other_s=None,
            exchange_s=None,
            prompt_s=None,
            excluded=rule.code,
        )
    rows = table([layout])
    work = training_work(model, system, rows, Recipe(), tokens, None, context)
    inside = layer_exchange(model, system, rows, tokens, work, "own", context)
    attention, forward, sent = (
        sum(count * float(column[0, kind]) for kind, count in enumerate(model.kind_counts))
        for column in (work.attention_s, work.forward_s, inside.forward_s)
    )
    return PromptRow(
        split=split,
        exchange=exchange,
        attention_s=attention,
        other_s=forward - attention,
        exchange_s=sent,
        prompt_s=forward + sent,
        excluded=None,
    )


def _decode(  # noqa: PLR0917 - the nouns, degrees, and the step of one rank
    model: Model, system: System, tokens: int, tp: int, cp: int, alone_s: float | None
) -> DecodeRow:
    """One session: the fullest rank of cp has its positions rounded up."""
    step = estimate_step(model, system, table([Layout(tp=tp)]), decode(tokens, 1), Assumptions(all_reduce="ring"))
    share = int(divide_up(tokens + 1, cp)) / (tokens + 1)
    local, state, merges, merge_bytes = 0.0, 0.0, 0, 0.0
    for item in step.work:
        shared = bool(item.operator.state) and item.operator.span == ALL
        local += _shared_s(model, system, item, share) if shared else float(item.seconds[0])
        state += float(item.state_bytes[0]) * (share if shared else 1.0)
        if shared and cp > 1 and item.operator.values.elements:
            merges += item.operator.count
            merge_bytes = max(merge_bytes, _partial_bytes(item, tp))
    group = group_along(system, table([Layout(tp=tp, cp=cp)]), "cp", "own")
    once: Any = program_s("ring", "all_gather", group, merge_bytes * cp) if merges else [0.0]
    merge = float(once[0]) * merges
    total = local + merge + _exchanges(step)
    return DecodeRow(
        cp=cp,
        ranks=cp * tp,
        state_bytes=state,
        local_s=local,
        merge_bytes=merge_bytes,
        merge_s=merge,
        exchange_s=_exchanges(step),
        step_s=total,
        times_faster=1.0 if alone_s is None else alone_s / total,
    )


def _exchanges(step: Step) -> float:
    return float(step.exchange_s[0])


def _shared_s(model: Model, system: System, item: Work, share: float) -> float:
    """Attention of one rank over its part of the positions."""
    rate = matrix_rate(model, system, item.operator)
    memory = float(system.accelerator.memory_bandwidth)
    read = float(item.state_bytes[0] + item.weight_bytes[0])
    return float(roofline_s(float(item.flops[0]) * share, rate, read * share, memory))


def _partial_bytes(item: Work, tp: int) -> float:
    """(m, l, u) in fp32 of the heads of one rank: two numbers and a vector of values each."""
    heads = sum(dim.units for dim in item.operator.scores.dims if dim.role == "heads")
    return (item.operator.values.elements + _SCALARS * heads) / tp * _PARTIAL_BYTES
