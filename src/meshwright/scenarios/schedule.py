"""Which pipeline schedule fits, and is then the fastest? Stages, micro-batches and times go in; every schedule, run."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import ScheduleError
from meshwright.base.result import Basis, Excluded, Result, Source, Verdict
from meshwright.base.units import Bytes, Share, parse_exact, show_bytes, show_seconds
from meshwright.scenarios._schedule_picture import picture
from meshwright.scenarios._stages import figures, of_virtual_stages
from meshwright.sim.pipeline import Cells, Durations, Ties, run_pipeline
from meshwright.sim.pipeline_memory import Sizes, pipeline_memory
from meshwright.sim.timeline import critical_path
from meshwright.workload.slots import (
    SCHEDULES,
    Shape,
    Slots,
    Work,
    activation_sets,
    checked_shape,
    crossings,
    read_schedule,
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.sim.pipeline_timeline import PipelineTimeline

ALL: Final = "all"
_HALF: Final = Share(0.5)
_MOST_STAGES: Final = 4096
MOST_SLOTS: Final = 500_000
_MOST_BYTES: Final = 2**62
_NOT_MODELLED: Final = (
    "parameters, gradients, optimizer state, GEMM inputs and temporaries: the peaks hold saved sets and messages only",
    "a forward and a backward that overlap on one rank: a cell takes as long as both in turn",
    "start-up of messages, and links shared with other traffic",
    "ranks of different speed: a figure a stage belongs to its layers, whichever rank holds them",
)
_CHAPTER: Final = Source(key="schedules", title='Chapter "Training systems"', place="section 10.3.2", read="2026-11-29")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """What the schedules are compared for. Figures are text with a unit; several by comma are one a stage.

    forward, backward: of a whole stage and micro-batch.   weight_grad: the part of a backward that is its weight
    gradient.   send, send_back: of an activation and of a gradient over one link; several are those of the links
    between neighbours, and after them that from the last rank to the first, of three or more; None of send_back takes
    send.   update: of
    every rank, after all gradients.   layers: of the model; None cuts evenly.   virtual_stages: of a rank of
    `interleaved`.   saved: bytes that a whole stage keeps of a micro-batch.   saved_head: added on the last virtual
    stage.   forward_message, backward_message: bytes.   schedule: names by comma, or all.   memory_limit: most bytes of
    all these that a rank may hold.   buffers: see `sim.pipeline.Durations`.   ties, cells: see `sim.pipeline`.
    """

    stages: int
    micro_batches: int
    forward: str
    backward: str
    send: str = "0s"
    send_back: str | None = None
    update: str = "0s"
    weight_grad: Share = _HALF
    layers: int | None = None
    virtual_stages: int = 2
    saved: str = "0B"
    saved_head: str = "0B"
    forward_message: str = "0B"
    backward_message: str = "0B"
    schedule: str = ALL
    memory_limit: Bytes | None = None
    buffers: int | None = None
    ties: Ties = "direction"
    cells: Cells = "divisible"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule; everything but its name and why not is null where it does not take the shape.

    total_s: to the end of the update, which waits for the last gradient of all ranks.   step_without_barrier_s: from
    one step's start to the next when steps repeat and each rank updates after its own last gradient: the longest span
    of a rank, and its update.   gradients_s: to the last gradient.   compute_s: to the last gradient when messages
    take no time.   transfer_wait_s: what they add.   idle_s: of each rank, until the last gradient.
    idle_fraction: over all ranks.   bubble_over_ideal: compute_s over an even share of the work, less 1.
    utilization: the share over compute_s.   bubble_s: the published formula, null where there is none.
    bubble_of: the span that it is of.   over_fastest: total_s over that of the fastest schedule here, less 1.
    peak_bytes: of each rank.   below_largest: by which part its largest peak is below that of all schedules here.
    activation_sets: the most of a whole stage that its order keeps.   messages: activations sent; as many gradients
    come back.   crossings: of one micro-batch.   extra_crossings: beyond those of one virtual stage a rank.
    """

    schedule: str
    fits: bool
    excluded: Excluded | None
    total_s: float | None = None
    step_without_barrier_s: float | None = None
    gradients_s: float | None = None
    compute_s: float | None = None
    transfer_wait_s: float | None = None
    idle_s: tuple[float, ...] = ()
    idle_fraction: float | None = None
    bubble_over_ideal: float | None = None
    utilization: float | None = None
    bubble_s: float | None = None
    bubble_of: str | None = None
    over_fastest: float | None = None
    peak_bytes: tuple[int, ...] = ()
    largest_peak_bytes: int | None = None
    below_largest: float | None = None
    activation_sets: float | None = None
    virtual_stages: int | None = None
    messages: int | None = None
    crossings: int | None = None
    extra_crossings: int | None = None
    parameter_copies: int | None = None


def schedule(options: ScheduleOptions) -> Result:
    """Every schedule asked for, those that fit first, the fastest first.

    Raises SCH003 (name), SCH006 (sizes), SCH007 (figures), SCH009 (no work), and for one schedule alone what
    excludes it: SCH001, SCH002, SCH004, SCH005. Source: chapter "Training systems", section 10.3.2.
    """
    names = _names(options)
    _check_sizes(options)
    runs: dict[str, _Run] = {}
    refused: dict[str, Excluded] = {}
    for name in names:
        try:
            runs[name] = _run(name, options)
        except ScheduleError as problem:
            if len(names) == 1 or problem.code not in _EXCLUDES:
                raise
            refused[name] = Excluded(
                code=problem.code, reason=problem.cause.removeprefix(f"{name}: "), nearest=problem.fix, limit="shape"
            )
    rows = _rows(runs, refused, options)
    best = rows[0] if rows[0].fits else None
    drawn = None if best is None else picture(best.schedule, runs[best.schedule].timeline)
    return Result(
        command="schedule",
        verdict=_verdict(rows, runs, options),
        inputs={"model": None, "system": None, "job": None, "layout": None, "options": options},
        not_modelled=_NOT_MODELLED,
        sources=(_CHAPTER,),
        basis={
            "total_s": Basis.SIMULATED,
            "step_without_barrier_s": Basis.SIMULATED,
            "peak_bytes": Basis.SIMULATED,
            "bubble_s": Basis.FORMULA,
        },
        body={
            "chosen": None if best is None else best.schedule,
            "fitting": sum(row.fits for row in rows),
            "schedules": rows,
            "critical_path_s": None if best is None else _critical_path_s(runs[best.schedule].timeline),
            "timeline": drawn,
        },
    )


def _critical_path_s(timeline: PipelineTimeline) -> dict[str, float]:
    """Seconds of the chain of tasks that decides the step, by what they do; kinds that it has none of are left out."""
    spent = critical_path(timeline).by_kind_s()
    return {kind: seconds for kind, seconds in spent.items() if seconds > 0}


def simulated(name: str, options: ScheduleOptions) -> PipelineTimeline:
    """The timeline of one schedule. Raises as `schedule` for one alone."""
    _check_sizes(options)
    return _run(name, options).timeline


_EXCLUDES: Final = ("SCH001", "SCH002", "SCH004", "SCH005")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A schedule that ran. compute_s: to its last gradient when messages take no time.   peak_bytes: by rank."""

    slots: Slots
    timeline: PipelineTimeline
    compute_s: Fraction
    peak_bytes: Ints


def _names(options: ScheduleOptions) -> tuple[str, ...]:
    if options.schedule == ALL:
        return SCHEDULES.names()
    asked = tuple(dict.fromkeys(name.strip().replace("-", "_") for name in options.schedule.split(",")))
    for name in asked:
        read_schedule(name)
    return asked


def _check_sizes(options: ScheduleOptions) -> None:
    sizes = {name: getattr(options, name) for name in ("stages", "micro_batches", "virtual_stages")}
    sizes |= {name: getattr(options, name) for name in ("layers", "buffers") if getattr(options, name) is not None}
    for name, size in sizes.items():
        if not 1 <= size <= MOST_SLOTS:
            raise ScheduleError(6, f"--{name.replace('_', '-')} is {size}", f"give a number from 1 to {MOST_SLOTS}")
    slots = options.stages * options.micro_batches * max(2, options.virtual_stages)
    if slots > MOST_SLOTS or options.stages > _MOST_STAGES:
        cause = (
            f"{options.stages} stages x {options.micro_batches} micro-batches x up to {max(2, options.virtual_stages)} "
            f"virtual stages are {slots} forwards"
        )
        raise ScheduleError(6, cause, f"give at most {_MOST_STAGES} stages and {MOST_SLOTS} forwards")


def durations_of(options: ScheduleOptions, pieces: int) -> Durations:
    """Exact times of `pieces` virtual stages. Raises SCH005, SCH007, SCH009, and what text with a unit raises."""
    stages, layers = options.stages, options.layers
    forward = figures(options.forward, "seconds", "--forward", (stages,))
    backward = figures(options.backward, "seconds", "--backward", (stages,))
    if not any(forward + backward):
        raise ScheduleError(9, "neither forward nor backward takes any time", "give --forward and --backward")
    of_pieces = of_virtual_stages(backward, stages, pieces, layers)
    split = Fraction(repr(float(options.weight_grad)))
    back = options.send if options.send_back is None else options.send_back
    return Durations(
        forward=of_virtual_stages(forward, stages, pieces, layers),
        backward=of_pieces,
        weight=tuple(split * whole for whole in of_pieces),
        update=parse_exact(options.update, "seconds", "--update"),
        send=_links(options.send, "--send", stages),
        send_back=_links(back, "--send-back", stages),
        buffers=options.buffers,
    )


def _links(text: str, what: str, stages: int) -> tuple[Fraction, ...]:
    """Of every link: neighbours, and round from the last rank to the first, the slowest where that is not given.

    Two stages have one link, whichever way round.
    """
    given = figures(text, "seconds", what, (stages - 1, stages) if stages > 2 else ())  # noqa: PLR2004 - two ends
    if len(given) == 1:
        return given * stages
    return given if len(given) == stages else (*given, max(given))


def _sizes(options: ScheduleOptions, pieces: int) -> Sizes:
    """Whole bytes, each the nearest: figures are often printed rounded."""
    saved = figures(options.saved, "bytes", "--saved", (options.stages,))
    of_pieces = [round(size) for size in of_virtual_stages(saved, options.stages, pieces, options.layers)]
    of_pieces[-1] += round(parse_exact(options.saved_head, "bytes", "--saved-head"))
    activation = round(parse_exact(options.forward_message, "bytes", "--forward-message"))
    gradient = round(parse_exact(options.backward_message, "bytes", "--backward-message"))
    if (sum(of_pieces) + 4 * (activation + gradient) * pieces) * options.micro_batches >= _MOST_BYTES:
        raise ScheduleError(6, "more bytes than can be counted", "give smaller --saved and messages")
    return Sizes(saved=tuple(of_pieces), activation=activation, gradient=gradient)


def _run(name: str, options: ScheduleOptions) -> _Run:
    shape = Shape(stages=options.stages, micro_batches=options.micro_batches, virtual_stages=options.virtual_stages)
    slots = checked_shape(name, shape).slots(shape)
    durations = durations_of(options, slots.virtual_stages)
    timeline = run_pipeline(slots, durations, ties=options.ties, cells=options.cells)
    free = run_pipeline(slots, durations.without_transfers(), ties=options.ties, cells=options.cells)
    sizes = _sizes(options, slots.virtual_stages)
    return _Run(
        slots=slots,
        timeline=timeline,
        compute_s=Fraction(free.end.max().item()) * free.tick_s,
        peak_bytes=pipeline_memory(timeline, sizes).peak_bytes,
    )


# ------------------------------------------------------------------------------------------------------ rows, and words


def _rows(runs: dict[str, _Run], refused: dict[str, Excluded], options: ScheduleOptions) -> tuple[ScheduleRow, ...]:
    """Those that fit, by time; those that hold too much, by time; those that do not take the shape, by name."""
    totals = [run.timeline.makespan_s for run in runs.values()]
    largest = [_largest(run) for run in runs.values()]
    ran = [_row(name, run, options, min(totals), max(largest)) for name, run in runs.items()]
    ran.sort(key=lambda row: (not row.fits, row.total_s, row.largest_peak_bytes, row.schedule))
    return (*ran, *(ScheduleRow(schedule=name, fits=False, excluded=why) for name, why in sorted(refused.items())))


def _row(name: str, run: _Run, options: ScheduleOptions, fastest_s: float, most_bytes: int) -> ScheduleRow:
    timeline, slots, program = run.timeline, run.slots, read_schedule(name)
    gradients_s, largest, across = timeline.gradients_s, _largest(run), crossings(slots)
    idle = tuple(timeline.idle_s())
    excluded = _too_much(largest, options)
    pieces = slots.virtual_stages // slots.ranks
    work = _work(options)
    formula = None if program.BUBBLE is None else program.BUBBLE.time(slots.ranks, pieces, work)
    ideal_s = options.micro_batches * (work.forward + work.backward)
    compute_s = max(run.compute_s, ideal_s)  # no less, but for the rounding of seconds that have no exact ticks
    return ScheduleRow(
        schedule=name,
        fits=excluded is None,
        excluded=excluded,
        total_s=timeline.makespan_s,
        step_without_barrier_s=timeline.step_without_barrier_s(),
        gradients_s=gradients_s,
        compute_s=float(compute_s),
        transfer_wait_s=float(Fraction(timeline.last_gradient().item()) * timeline.tick_s - run.compute_s),
        idle_s=idle,
        idle_fraction=sum(idle) / (slots.ranks * gradients_s),
        bubble_over_ideal=float(compute_s / ideal_s - 1),
        utilization=float(ideal_s / compute_s),
        bubble_s=None if formula is None else float(formula),
        bubble_of=None if program.BUBBLE is None else program.BUBBLE.of,
        over_fastest=timeline.makespan_s / fastest_s - 1,
        peak_bytes=tuple(run.peak_bytes.tolist()),
        largest_peak_bytes=largest,
        below_largest=1 - largest / most_bytes if most_bytes else 0.0,
        activation_sets=activation_sets(slots, 1) / pieces,
        virtual_stages=pieces,
        messages=across * options.micro_batches,
        crossings=across,
        extra_crossings=across - (slots.ranks - 1),
        parameter_copies=program.COPIES,
    )


def _work(options: ScheduleOptions) -> Work:
    """Of a rank: its share of the whole model."""
    whole = durations_of(options, options.stages)
    forward, backward, weight = (
        sum(column, Fraction(0)) / options.stages for column in (whole.forward, whole.backward, whole.weight)
    )
    return Work(forward=forward, backward=backward, weight=weight, cell=forward + backward)


def _largest(run: _Run) -> int:
    return int(run.peak_bytes.max())


def _too_much(largest: int, options: ScheduleOptions) -> Excluded | None:
    limit = options.memory_limit
    if limit is None or largest <= limit:
        return None
    reason = f"a rank holds {show_bytes(largest)}, {show_bytes(largest - limit)} too much"
    return Excluded(code="SCH008", reason=reason, nearest=f"--memory-limit {largest}B", limit="memory")


def _verdict(rows: tuple[ScheduleRow, ...], runs: dict[str, _Run], options: ScheduleOptions) -> Verdict:
    """The choice, memory first, and what it pays on the other axis."""
    ran = [row for row in rows if row.schedule in runs]
    if not ran:
        layers = "" if options.layers is None else f" of {options.layers} layers"
        text = f"none of {len(rows)} schedules takes {options.stages} stages{layers} and {options.micro_batches}"
        return Verdict(answer="no", text=f"{text} micro-batches")
    least = min(ran, key=lambda row: (row.largest_peak_bytes or 0, row.total_s or 0.0))
    if not rows[0].fits:
        text = f"no schedule holds at most {show_bytes(options.memory_limit or 0)}; {least.schedule} holds least, "
        return Verdict(answer="no", text=text + show_bytes(least.largest_peak_bytes or 0))
    best = rows[0]
    if len(rows) == 1:
        held = f", a rank holds at most {show_bytes(best.largest_peak_bytes)}" if best.largest_peak_bytes else ""
        return Verdict(answer="yes", text=f"{best.schedule}: {show_seconds(best.total_s or 0.0)}{held}")
    fitting = sum(row.fits for row in ran)
    limit = (
        "" if options.memory_limit is None else f" of {fitting} that hold at most {show_bytes(options.memory_limit)}"
    )
    text = f"{best.schedule}: {show_seconds(best.total_s or 0.0)}, the fastest{limit or f' of {fitting}'}"
    return Verdict(answer="yes", text=text + "".join(_paid(best, least, ran)))


def _paid(best: ScheduleRow, least: ScheduleRow, ran: list[ScheduleRow]) -> list[str]:
    """What a schedule that is faster would hold more, and what one that holds less would take longer."""
    told: list[str] = []
    fastest = min(ran, key=lambda row: row.total_s or 0.0)
    if (fastest.total_s or 0.0) < (best.total_s or 0.0):
        less = show_seconds((best.total_s or 0.0) - (fastest.total_s or 0.0))
        more = show_bytes((fastest.largest_peak_bytes or 0) - (best.largest_peak_bytes or 0))
        told.append(f"; {fastest.schedule} is {less} faster and holds {more} more")
    if (least.largest_peak_bytes or 0) < (best.largest_peak_bytes or 0):
        less = show_bytes((best.largest_peak_bytes or 0) - (least.largest_peak_bytes or 0))
        more = show_seconds((least.total_s or 0.0) - (best.total_s or 0.0))
        told.append(f"; {least.schedule} holds {less} less and takes {more} longer")
    return told
