"""How long does a long context take over ranks that share it? A model, a system and degrees go in; times come out.

A prompt: every split and exchange, for the busiest rank. A decode step: each rank reads its part of the cached
positions, and partial results (m, l, u) of every head are gathered and merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from meshwright.base.units import TokenCount, Tokens
from meshwright.cost.estimate import Assumptions, estimate_step, state_bytes
from meshwright.cost.training_exchange import layer_exchange
from meshwright.cost.training_work import training_work
from meshwright.job.recipe import Recipe
from meshwright.job.serve import MOST_TOKENS, check_range
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.model import Model
from meshwright.scenarios._training_context import broken_context_rule
from meshwright.system.system import System
from meshwright.workload.batches import decode
from meshwright.workload.context_split import ContextExchange, ContextPlan, ContextSplit

_SPLITS: Final[tuple[ContextSplit, ...]] = ("zigzag", "striped", "contiguous")
_EXCHANGES: Final[tuple[ContextExchange, ...]] = ("ring", "all_gather", "ulysses")
LEFT_OUT: Final = (
    "a prompt: ends of the model, what a training step leaves out too, and the tp exchange's overlap",
    "a decode step: which rank takes a new position, and its write",
    "state of fixed size: every rank keeps it whole, so a decode step reads it whole",
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
    """One session on ranks that repeat the weights, by the estimator of every serving plan."""
    layouts = table([Layout(tp=tp, cp=cp)])
    step = estimate_step(model, system, layouts, decode(tokens, 1), Assumptions(all_reduce="ring"))
    merges = [item for item in step.exchanges if item[0].operation == "merge"]
    sent = [float(np.max(message.per_row_bytes)) / cp for message, _ in merges]
    merge = sum(message.count * float(exchange.seconds[0]) for message, exchange in merges)
    total = float(step.total_s[0])
    return DecodeRow(
        cp=cp,
        ranks=cp * tp,
        state_bytes=float(state_bytes(step)[0]),
        local_s=float(step.local_s[0]),
        merge_bytes=max(sent, default=0.0),
        merge_s=merge,
        exchange_s=float(step.exchange_s[0]) - merge,
        step_s=total,
        times_faster=1.0 if alone_s is None else alone_s / total,
    )
