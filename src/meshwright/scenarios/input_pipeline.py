"""Does the input keep up with the steps? Stages and a queue go in; supply, demand, waits and an outage come out.

Sequences pass the stages one after the other (read, decode, filter, pack, pinned buffer), so the slowest gives the
supply. A queue stands between them and the steps: it fills to its size, and what a dip takes from it is not waited for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from meshwright.base.errors import JobError, suggest
from meshwright.base.units import Bytes, Seconds, Tokens
from meshwright.cost.input_pipeline import input_wait_s, outage_sequences, prepare_s, refill_s

_MOST: Final = 10**9
_STAGES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Workers side by side. rate: sequences a second of each."""

    name: str
    workers: int
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Workers of one stage that are away for a while. at: seconds from the start."""

    stage: str
    workers: int
    at: Seconds
    duration: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a rate of tokens asks of the input: sequences, and bytes of token ids, a second."""

    sequences_per_s: float
    ids_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InputWait:
    """Workers against steps. supply, demand: sequences a second, the demand of steps that do not wait.

    least_workers: the fewest for which no step waits.
    """

    supply_sequences_per_s: float
    demand_sequences_per_s: float
    wait_s: float
    step_s: float
    least_workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRate:
    """One stage. spare_share: what part of its rate the steps leave unused; negative where it does not suffice."""

    name: str
    sequences_per_s: float
    spare_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The queue over a time of even supply. waited_s: steps stood still.   blocked_s: the queue was full."""

    start_s: float
    end_s: float
    supply_sequences_per_s: float
    start_sequences: float
    end_sequences: float
    waited_s: float
    blocked_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageEffect:
    """An outage. needed_sequences: what the queue must hold for no step to wait.   refill_s: until that is back.

    refill_s is that of a queue of this size, None where the whole supply is not above the demand.   hidden: whether the
    queue there is held enough.
    """

    left_sequences_per_s: float
    needed_sequences: float
    hidden: bool
    waited_s: float
    refill_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPipeline:
    """The stages, the queue and the steps. slowest: the stage that gives the supply.   wait_s: of every step, for good.

    levels: the queue over time, from full or from what it was given.
    """

    supply_sequences_per_s: float
    demand_sequences_per_s: float
    slowest: str
    keeps_up: bool
    wait_s: float
    outage: OutageEffect
    stages: tuple[StageRate, ...]
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Where training goes on after a restart. pending: batches handed out, and not trained.

    resume_batch: the next one after the last trained. Those pending are to be kept, or made again as they were: a run
    that goes on behind the last one handed out skips them.
    """

    pending: int
    resume_batch: int


def input_demand(tokens_rate: float, sequence: Tokens, id_bytes: Bytes) -> Demand:
    """What tokens_rate tokens a second ask for, in sequences of `sequence`, of ids of id_bytes.

    Raises JOB087. Source: chapter "Training systems", section 10.4.1.
    """
    if sequence < 1 or tokens_rate <= 0:
        raise JobError(87, f"{tokens_rate} tokens a second in sequences of {sequence}", "give both above zero")
    return Demand(sequences_per_s=tokens_rate / sequence, ids_bytes_per_s=tokens_rate * id_bytes)


def input_wait(sequences: int, step_s: Seconds, workers: int, worker_rate: float) -> InputWait:
    """Steps of step_s without waiting, of `sequences` each, behind workers of worker_rate sequences a second.

    Raises JOB087. Source: chapter "Training systems", section 10.4.1.
    """
    if not (1 <= sequences <= _MOST and 1 <= workers <= _MOST) or step_s <= 0 or worker_rate <= 0:
        cause = f"{sequences} sequences in {step_s} s, {workers} workers of {worker_rate} a second"
        raise JobError(87, cause, f"give counts of 1 to {_MOST}, and a time and a rate above zero")
    wait = input_wait_s(step_s, sequences, workers, worker_rate)
    return InputWait(
        supply_sequences_per_s=workers * worker_rate,
        demand_sequences_per_s=sequences / step_s,
        wait_s=wait,
        step_s=step_s + wait,
        least_workers=_least_workers(sequences, step_s, worker_rate),
    )


def input_pipeline(
    *,
    stages: tuple[Stage, ...],
    sequences: int,
    step_s: Seconds,
    queue: int,
    start: int,
    outage: Outage,
    end_s: Seconds,
) -> InputPipeline:
    """Steps of step_s behind stages and a queue of `queue` sequences that holds `start` at first, up to end_s.

    The queue follows supply less demand, between empty and full: empty, steps go at the rate of the supply; full, the
    stages stand still. Raises JOB087 (counts, rates), JOB088 (stages and outage). Source: chapter "Training systems",
    section 10.4.1. Sequences flow evenly: a step that takes its batch at once needs a queue of one batch more.
    """
    rates = _rates(stages, outage)
    least = min(stages, key=lambda item: item.workers * item.rate)
    if not 0 <= start <= queue <= _MOST or not 1 <= sequences <= _MOST or step_s <= 0:
        cause = f"{sequences} sequences in {step_s} s from a queue of {queue} that holds {start}"
        raise JobError(87, cause, "give counts and times above zero, and no more in the queue than it holds")
    if end_s < outage.at + outage.duration:
        cause = f"the end at {end_s} s is before that of the outage, {outage.at + outage.duration} s"
        raise JobError(87, cause, "give an end_s behind the outage")
    demand, supply, left = sequences / step_s, least.workers * least.rate, min(rates)
    levels = _levels((demand, supply, left), (queue, start), outage, end_s)
    needed = outage_sequences(demand, left, outage.duration)
    dip = [item for item in levels if outage.at <= item.start_s < outage.at + outage.duration]
    return InputPipeline(
        supply_sequences_per_s=supply,
        demand_sequences_per_s=demand,
        slowest=least.name,
        keeps_up=supply >= demand,
        wait_s=input_wait_s(step_s, sequences, least.workers, least.rate),
        outage=OutageEffect(
            left_sequences_per_s=left,
            needed_sequences=needed,
            hidden=sum(item.waited_s for item in dip) <= 0,
            waited_s=sum(item.waited_s for item in dip),
            refill_s=refill_s(needed, supply, demand) if supply > demand else None,
        ),
        stages=tuple(
            StageRate(
                name=item.name,
                sequences_per_s=item.workers * item.rate,
                spare_share=1 - demand / (item.workers * item.rate),
            )
            for item in stages
        ),
        levels=levels,
    )


def data_position(assigned: int, trained: int) -> Positions:
    """Batches are numbered from 1; `assigned` is the last handed out ahead, `trained` the last whose update is done.

    Raises JOB089. Source: chapter "Training systems", section 10.4.1.
    """
    if not 0 <= trained <= assigned:
        cause = f"batch {trained} is trained, and only batch {assigned} was handed out"
        raise JobError(89, cause, "give the last batch handed out, and one not above it that is trained")
    return Positions(pending=assigned - trained, resume_batch=trained + 1)


def _least_workers(sequences: int, step_s: float, worker_rate: float) -> int:
    """By what one worker prepares in a step; a quotient that was rounded is put right."""
    near = max(1, math.floor(sequences / (worker_rate * step_s)))
    return near if prepare_s(sequences, near, worker_rate) <= step_s else near + 1


def _rates(stages: tuple[Stage, ...], outage: Outage) -> tuple[float, ...]:
    """Sequences a second of each stage while the outage lasts."""
    names = [item.name for item in stages]
    if not 1 <= len(set(names)) == len(stages) <= _STAGES:
        raise JobError(88, f"stages {', '.join(names) or 'none'}", f"name 1 to {_STAGES} stages, each once")
    if not all(1 <= item.workers <= _MOST and item.rate > 0 for item in stages):
        raise JobError(87, "a stage without workers or rate", "give each at least one worker, and a rate above zero")
    hit = next((item for item in stages if item.name == outage.stage), None)
    if hit is None:
        raise JobError(88, f"an outage of {outage.stage!r}, which is no stage", suggest(outage.stage, names))
    if not 0 <= outage.workers <= hit.workers:
        cause = f"{outage.workers} workers of {hit.name} are away, and it has {hit.workers}"
        raise JobError(88, cause, f"take away 0 to {hit.workers}")
    return tuple((item.workers - (outage.workers if item is hit else 0)) * item.rate for item in stages)


def _levels(
    rates: tuple[float, float, float], queue: tuple[int, int], outage: Outage, end_s: float
) -> tuple[Level, ...]:
    """Before, during and after the outage, up to end_s; each part again where the queue gets empty or full."""
    demand, supply, left = rates
    most, level = float(queue[0]), float(queue[1])
    edges = sorted({0.0, outage.at, outage.at + outage.duration, float(end_s)})
    found: list[Level] = []
    for start, end in pairwise([edge for edge in edges if edge <= end_s]):
        now = left if outage.at <= start < outage.at + outage.duration else supply
        net, length = now - demand, end - start
        room = level if net < 0 else most - level
        moving = min(length, room / abs(net)) if net else length
        after = min(max(level + net * moving, 0.0), most)
        held = length - moving
        found.append(
            Level(
                start_s=start,
                end_s=end,
                supply_sequences_per_s=now,
                start_sequences=level,
                end_sequences=(0.0 if net < 0 else most) if held > 0 else after,
                waited_s=held * (1 - now / demand) if net < 0 else 0.0,
                blocked_s=held if net > 0 else 0.0,
            )
        )
        level = found[-1].end_sequences
    return tuple(found)
