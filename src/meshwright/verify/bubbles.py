"""How long do ranks of a pipeline really wait? Stages that sleep, run by the executor, beside what the engine says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from statistics import median
from typing import Any, Final

from meshwright.base.errors import RunError, ScheduleError, suggest
from meshwright.base.result import Basis, Excluded, Result, Verdict
from meshwright.base.units import parse_exact, show_seconds
from meshwright.scenarios.slot_orders import one_order
from meshwright.sim.pipeline import Durations, run_pipeline
from meshwright.sim.pipeline_timeline import PipelineTimeline
from meshwright.verify._slept import Naps, SleptCase, SleptStep, slept_steps
from meshwright.verify.processes import in_processes
from meshwright.workload.slots import BACKWARD_WEIGHT, SCHEDULES, Shape, Slots, checked_shape, read_schedule

SHARE: Final = Fraction(5, 100)
"""How far measured times may be from simulated ones, the overhead of slots apart."""
_ALL: Final = "all"
_LINE: Final = "fill_drain"
_LINES: Final = 7
_MOST: Final = {"stages": 64, "micro_batches": 512, "virtual_stages": 16, "repeats": 100}
_LONGEST_S: Final = 60
_START_S: Final = 60.0
_NOT_MODELLED: Final = (
    "work: stages sleep, so that nothing competes for cores but the executor itself",
    "messages of real size: each carries one number",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Seconds, exactly, of a whole stage and micro-batch. weight: the part of `backward` that is a weight gradient.

    update: of every rank, after the last gradient of all.
    """

    forward: Fraction
    backward: Fraction
    weight: Fraction
    update: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BubbleOptions:
    """stages: as many processes.   virtual_stages: of a rank of `interleaved`.   schedule: names by comma, or all.

    repeats: steps of which the median is told.
    """

    sleep: Sleep
    stages: int
    micro_batches: int
    virtual_stages: int = 2
    schedule: str = _ALL
    repeats: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BubbleRow:
    """One schedule; everything but its name is null where it does not take the shape.

    simulated_s, measured_s: from the start to the last gradient of all ranks; the median of the repeats.
    lowest_s, highest_s: of the repeats.   *_bubble: the part of all ranks' time to there that they wait.
    overhead_s: what the same simulation takes longer where every slot is longer by the overhead of a slot.
    allowed_s: how far measured_s may be from simulated_s: a share of it, and overhead_s.
    """

    schedule: str
    excluded: Excluded | None
    simulated_s: float | None = None
    measured_s: float | None = None
    lowest_s: float | None = None
    highest_s: float | None = None
    simulated_step_s: float | None = None
    measured_step_s: float | None = None
    simulated_bubble: float | None = None
    measured_bubble: float | None = None
    overhead_s: float | None = None
    allowed_s: float | None = None
    within: bool | None = None


def bubbles(options: BubbleOptions) -> Result:
    """Run every schedule with stages that sleep, and simulate it with the same times.

    The overhead of a slot is measured before, the same for all schedules: one micro-batch goes through the line of
    stages and back, so that each slot waits for the one before and its message; what that takes longer than its sleeps
    is dealt to its slots. Raises RUN010 and RUN011 (a rank failed, or hung), RUN042 and RUN043 (options), SCH003
    (name), and for one schedule alone what excludes it: SCH001, SCH004.
    """
    _check(options)
    plans, refused = _plans(options)
    line = _plan(_LINE, Shape(stages=options.stages, micro_batches=1), options.sleep)
    cases = [_case(line, options.sleep, _LINES), *(_case(plan, options.sleep, options.repeats) for plan in plans)]
    limit_s = _START_S + 4 * sum(
        case.repeats * (plan.gradients_s + 0.1) for case, plan in zip(cases, (line, *plans), strict=True)
    )
    work = partial(slept_steps, stages=options.stages, cases=cases)
    by_rank = in_processes(work, options.stages, limit_s)
    by_case = [[rank[number] for rank in by_rank] for number in range(len(cases))]
    overhead_s = _slot_overhead_s(line, by_case[0])
    ran = [_row(plan, options.stages, steps, overhead_s) for plan, steps in zip(plans, by_case[1:], strict=True)]
    rows = (*ran, *_excluded(refused))
    return Result(
        command="verify run",
        verdict=_verdict(ran, overhead_s),
        inputs={"model": None, "system": None, "job": None, "layout": None, "options": _told(options)},
        not_modelled=_NOT_MODELLED,
        basis={"simulated_s": Basis.SIMULATED, "measured_s": Basis.MEASURED, "slot_overhead_s": Basis.MEASURED},
        body={"slot_overhead_s": overhead_s, "share": float(SHARE), "bubbles": rows},
    )


def _told(options: BubbleOptions) -> dict[str, Any]:
    """The options, with seconds as they are told."""
    sleep = {f"{item.name}_s": float(getattr(options.sleep, item.name)) for item in fields(Sleep)}
    return {item.name: getattr(options, item.name) for item in fields(options)} | {"sleep": sleep}


def simulated(options: BubbleOptions) -> tuple[BubbleRow, ...]:
    """What `bubbles` would measure against; no process is started. Raises as it does."""
    _check(options)
    plans, refused = _plans(options)
    return (*(_simulated(plan, options.stages) for plan in plans), *_excluded(refused))


def read_sleep(text: str) -> Sleep:
    """`forward=10ms,backward=20ms,weight=10ms`, and `update=1ms` where there is one. Raises RUN042, IO001 and IO002."""
    known, example = ("forward", "backward", "weight", "update"), "--sleep forward=10ms,backward=20ms,weight=10ms"
    given: dict[str, Fraction] = {}
    for pair in text.split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        if name not in known or name in given:
            cause = f"--sleep {pair.strip()}: {'given twice' if name in given else 'no part of a step'}"
            raise RunError(42, cause, suggest(name, known) if name not in known else example)
        given[name] = parse_exact(value, "seconds", f"--sleep {name}")
    absent = [name for name in known[:3] if name not in given]
    if absent:
        raise RunError(42, f"--sleep has no {absent[0]}", example)
    return Sleep(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A schedule, simulated, with its slots in one order a rank."""

    name: str
    slots: Slots
    durations: Durations
    timeline: PipelineTimeline

    @property
    def gradients_s(self) -> float:
        return self.timeline.gradients_s

    def with_overhead_s(self, overhead_s: float) -> float:
        """The same simulated with every slot longer by an overhead; of split backwards both parts are."""
        more, durations = Fraction(overhead_s), self.durations
        of_backward = 2 * more if (self.slots.kind == BACKWARD_WEIGHT).any() else more
        longer = replace(
            durations,
            forward=tuple(time + more for time in durations.forward),
            backward=tuple(time + of_backward for time in durations.backward),
            weight=tuple(time + more for time in durations.weight),
        )
        return run_pipeline(self.slots, longer).gradients_s


def _check(options: BubbleOptions) -> None:
    sleep = options.sleep
    if not 0 < sleep.weight < sleep.backward or sleep.forward <= 0 or sleep.update < 0:
        cause = "a forward, a weight gradient and the rest of the backward must each take time"
        raise RunError(42, f"--sleep: {cause}", "--sleep forward=10ms,backward=20ms,weight=10ms")
    longest = max(sleep.forward, sleep.backward, sleep.update)
    if longest > _LONGEST_S:
        raise RunError(42, f"--sleep: {show_seconds(float(longest))} in one go", f"give at most {_LONGEST_S} s")
    for name, most in _MOST.items():
        if not 1 <= getattr(options, name) <= most:
            cause = f"--{name.replace('_', '-')} is {getattr(options, name)}"
            raise RunError(43, cause, f"give a number from 1 to {most}")


def _plans(options: BubbleOptions) -> tuple[list[_Plan], dict[str, Excluded]]:
    every = options.schedule == _ALL
    names = SCHEDULES.names() if every else [name.strip().replace("-", "_") for name in options.schedule.split(",")]
    shape = Shape(stages=options.stages, micro_batches=options.micro_batches, virtual_stages=options.virtual_stages)
    plans: list[_Plan] = []
    refused: dict[str, Excluded] = {}
    for name in dict.fromkeys(names):
        read_schedule(name)
        try:
            plans.append(_plan(name, shape, options.sleep))
        except ScheduleError as problem:
            if len(names) == 1:
                raise
            refused[name] = Excluded(code=problem.code, reason=problem.cause, nearest=problem.fix, limit="shape")
    return plans, refused


def _plan(name: str, shape: Shape, sleep: Sleep) -> _Plan:
    slots = checked_shape(name, shape).slots(shape)
    durations = durations_of(slots, sleep)
    timeline = run_pipeline(slots, durations)
    return _Plan(name=name, slots=one_order(slots, timeline), durations=durations, timeline=timeline)


def durations_of(slots: Slots, sleep: Sleep) -> Durations:
    """Of every virtual stage an even share; messages take no time."""
    pieces, free = slots.virtual_stages, (Fraction(0),) * slots.ranks
    share = Fraction(slots.ranks, pieces)
    return Durations(
        forward=(sleep.forward * share,) * pieces,
        backward=(sleep.backward * share,) * pieces,
        weight=(sleep.weight * share,) * pieces,
        update=sleep.update,
        send=free,
        send_back=free,
    )


def _case(plan: _Plan, sleep: Sleep, repeats: int) -> SleptCase:
    durations = plan.durations
    naps = Naps(
        forward_s=float(durations.forward[0]),
        backward_s=float(durations.backward[0]),
        weight_s=float(durations.weight[0]),
    )
    return SleptCase(slots=plan.slots, naps=naps, update_s=float(sleep.update), repeats=repeats)


def _slot_overhead_s(line: _Plan, steps: list[list[SleptStep]]) -> float:
    return max(0.0, median(_ends(steps)) - line.gradients_s) / len(line.slots.rank)


def _ends(steps: list[list[SleptStep]]) -> list[float]:
    """By repeat, when the last rank had its last gradient. steps: by rank."""
    return [max(step.gradients_s for step in repeat) for repeat in zip(*steps, strict=True)]


def _excluded(refused: Mapping[str, Excluded]) -> tuple[BubbleRow, ...]:
    return tuple(BubbleRow(schedule=name, excluded=why) for name, why in refused.items())


def _simulated(plan: _Plan, stages: int) -> BubbleRow:
    timeline = plan.timeline
    return BubbleRow(
        schedule=plan.name,
        excluded=None,
        simulated_s=plan.gradients_s,
        simulated_step_s=timeline.seconds(timeline.end.max()),
        simulated_bubble=1 - _work_s(plan, stages) / plan.gradients_s,
    )


def _work_s(plan: _Plan, stages: int) -> float:
    """Of a rank, the mean."""
    return plan.timeline.seconds(plan.timeline.busy().sum()) / stages


def _row(plan: _Plan, stages: int, steps: list[list[SleptStep]], overhead_s: float) -> BubbleRow:
    ends, simulated_s, work_s = _ends(steps), plan.gradients_s, _work_s(plan, stages)
    measured_s = median(ends)
    added_s = plan.with_overhead_s(overhead_s) - simulated_s
    allowed_s = float(SHARE) * simulated_s + added_s
    return replace(
        _simulated(plan, stages),
        measured_s=measured_s,
        lowest_s=min(ends),
        highest_s=max(ends),
        measured_step_s=median(max(step.total_s for step in repeat) for repeat in zip(*steps, strict=True)),
        measured_bubble=1 - work_s / measured_s,
        overhead_s=added_s,
        allowed_s=allowed_s,
        within=abs(measured_s - simulated_s) <= allowed_s,
    )


def _verdict(rows: list[BubbleRow], overhead_s: float) -> Verdict:
    beyond = [row.schedule for row in rows if not row.within]
    told = f"{float(SHARE):.0%} and {show_seconds(overhead_s)} a slot"
    if not rows:
        return Verdict(answer="unknown", text="no schedule takes these stages and micro-batches")
    if beyond:
        return Verdict(
            answer="no", text=f"{len(beyond)} of {len(rows)} schedules are beyond {told}: {', '.join(beyond)}"
        )
    return Verdict(answer="yes", text=f"{len(rows)} schedules wait as simulated, within {told}")
