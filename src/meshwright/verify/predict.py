"""A calibration of this machine, a model, a layout and a batch go in; the interval of a real step comes out.

The estimator of `plan train` adds the step up, three times: with the median of every line, and with all lower or all
upper quartiles. Each kind of exchange has the line of its own collective and group size. To a layer and micro-batch is
added what a probe's takes beside its products (launches, hooks, the loop), and to a step the few small exchanges that a
plan leaves out: counts of labels, the loss, the norm. Exchanges are longer by the factor of `waiting`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import RunError
from meshwright.base.units import BytesPerSecond, FlopsPerSecond, Seconds, TokenCount, Tokens
from meshwright.cost.collectives import all_reduce, program_s
from meshwright.cost.groups import group_along
from meshwright.cost.training import step_of_parts, training_parts, turns, update_s
from meshwright.job.recipe import read_recipe
from meshwright.job.train import TrainJob
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios._training_table import rows_of, whole_state
from meshwright.system.accelerator import Accelerator
from meshwright.system.link import Link
from meshwright.system.system import System
from meshwright.verify.local.cases import FP32_BYTES, PLAIN

if TYPE_CHECKING:
    from meshwright.cost.training import TrainingParts
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.scenarios._training_table import Rows
    from meshwright.verify.local.calibration import ExchangeLine, LocalCalibration, Overhead, RateLine
    from meshwright.verify.local.runs import RealRun

RECIPE: Final = "fp32-adamw"
NOT_MODELLED: Final = (
    "element by element work that grows with rows (norms, activations, softmax of the loss) beyond a probe's",
    "which exchanges wait for a process that is late, and for how long: one factor, that of the probes' real steps",
    "on CPU nothing overlaps: FSDP2 waits for each of its exchanges there",
)
_FORWARD: Final = 1 / 3
"""Of a pass and its backward, as of the products in them."""
_LOSS_NUMBERS: Final = (1, 2)
"""Numbers a row in the exchanges of a vocabulary-parallel loss: the maximum; the sum and the logit of the label."""
_SCALAR_BYTES: Final = 8
_SCALES: Final = ("low", "median", "high")
_SECANTS: Final = 3
_LEAST_FACTOR: Final = 0.01
"""Of exchanges in a step that is over before its other parts are: noise, and no rate may be zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Seconds of a step: all lower quartiles, medians, all upper quartiles.

    compute_s to small_s: parts of the median. overhead_s: beside products.   small_s: exchanges that a plan leaves out.
    """

    low_s: float
    median_s: float
    high_s: float
    compute_s: float
    exchange_s: float
    bubble_s: float
    update_s: float
    overhead_s: float
    small_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    total: float
    parts: dict[str, float]


def predicted(found: LocalCalibration, run: RealRun) -> Predicted:
    """The step of a real run in float32.

    Raises RUN035 for a layout of another number of processes, RUN036 for a group that was not measured.
    """
    check_layout(run.layout, found.processes, tuple({item.ranks for item in found.exchange}))
    steps = {scale: _step(found, run, scale) for scale in _SCALES}
    ends = {f"{scale}_s": step.total for scale, step in steps.items()}
    return Predicted(**ends, **steps["median"].parts)


def longer_by(found: LocalCalibration, run: RealRun, time_s: float) -> float:
    """By which factor the exchanges of a run must be longer than by themselves to fill a step of `time_s`.

    The step grows with the factor, in a line but where another exchange or stage becomes the slowest: a few secants.
    """

    def off(factor: float) -> float:
        waiting = replace(found.waiting, factor=factor)
        return _step(replace(found, waiting=waiting), run, "median").total - time_s

    before, factor = 1.0, 2.0
    missing, still = off(before), off(factor)
    for _ in range(_SECANTS):
        if still == missing:
            break
        step = still * (factor - before) / (still - missing)
        before, missing, factor = factor, still, max(_LEAST_FACTOR, factor - step)
        still = off(factor)
    return factor


def check_layout(layout: Layout, processes: int, groups: tuple[int, ...]) -> None:
    """Nothing, where a calibration of so many processes, with groups of these sizes, says something of a layout.

    Raises RUN035 for another number of ranks, RUN036 for a group that is not measured.
    """
    if layout.world_size != processes:
        cause = f"{layout.id} has {layout.world_size} ranks, and {processes} processes are measured"
        raise RunError(35, cause, f"--nproc {layout.world_size}")
    for axis in ("dp_replicate", "dp_shard", "tp", "pp"):
        degree = getattr(layout, axis)
        if degree > 1 and degree not in groups:
            known = ",".join(map(str, sorted(groups)))
            raise RunError(36, f"{axis}={degree}: groups of {known} are measured", f"--groups {known},{degree}")


def system_of(found: LocalCalibration, link: ExchangeLine, scale: str, unit: str = "matmul") -> System:
    """The machine with one line as its link, one kind of work as its peak; scale: low, median or high."""
    rate, copy = _rate(found, unit), _rate(found, "copy")
    accelerator = Accelerator(
        id="local",
        name=found.platform,
        memory=found.memory,
        memory_bandwidth=BytesPerSecond(copy.rate / _factor(copy, scale)),
        peak={"fp32": FlopsPerSecond(rate.rate / _factor(rate, scale))},
    )
    scaled = _factor(link, scale) * _waiting(found, scale)
    return System(
        id="local",
        name=found.platform,
        accelerator=accelerator,
        nodes=1,
        devices_per_node=found.processes,
        scale_up=Link(
            name=link.operation,
            bandwidth=BytesPerSecond(link.bandwidth / scaled),
            latency=Seconds(link.alpha * scaled),
        ),
    )


def _factor(line: ExchangeLine | RateLine | Overhead, scale: str) -> float:
    return 1.0 if scale == "median" else line.low if scale == "low" else line.high


def _waiting(found: LocalCalibration, scale: str) -> float:
    told = found.waiting
    return told.factor if scale == "median" else told.low if scale == "low" else told.high


def _rate(found: LocalCalibration, operation: str) -> RateLine:
    return next(item for item in found.rate if (item.operation, item.format) == (operation, "fp32"))


def _line(found: LocalCalibration, operation: str, ranks: int) -> ExchangeLine:
    """That of the group size; of a group of one, which exchanges nothing, any."""
    known = {item.ranks: item for item in found.exchange if item.operation == operation}
    return next(iter(known.values())) if ranks == 1 else known[ranks]


def _step(found: LocalCalibration, run: RealRun, scale: str) -> _Step:
    job = TrainJob(
        tokens=TokenCount(run.batch.global_batch * run.batch.sequence),
        sequence=Tokens(run.batch.sequence),
        global_batch=run.batch.global_batch,
        recipe=read_recipe(RECIPE),
    )
    options = TrainOptions(prefetch="off", shards="strict")
    layouts = replace(table([run.layout]), order=PIPELINE_OUTSIDE)
    any_link = _line(found, "all_reduce", 1)
    rows = rows_of(run.model, system_of(found, any_link, scale), job, options, layouts)
    extra = _overhead(found, run.layout)
    parts = _parts(found, run, job, options, layouts, scale)
    update = update_s(_updating(found, run.model, job, scale), rows.lines, rows.state, charged=parts.charged)
    count: Any = rows.count
    bare = step_of_parts(layouts, options.assumptions, count, rows.lines, parts, update)
    factor = _factor(extra, scale)
    full_parts = replace(parts, work=_with_overhead(parts, extra, factor))
    full = step_of_parts(layouts, options.assumptions, count, rows.lines, full_parts, update)
    once = (extra.step + extra.layer * _most_layers(rows)) * factor
    small = _small_s(found, run, scale, int(rows.count[0]))
    total = float(full.total_s[0]) + once + small
    return _Step(
        total=total,
        parts={
            "compute_s": float(bare.compute_s[0]),
            "exchange_s": float(bare.exposed_comm_s[0]),
            "bubble_s": float(bare.bubble_s[0]),
            "update_s": float(bare.update_s[0]),
            "overhead_s": float(full.total_s[0] - bare.total_s[0]) + once,
            "small_s": small,
        },
    )


def _parts(  # noqa: PLR0917 - the nouns
    found: LocalCalibration, run: RealRun, job: TrainJob, options: TrainOptions, layouts: Layouts, scale: str
) -> TrainingParts:
    """Each exchange from the system whose link is the line of its collective; scores at the rate of attention."""
    layout = run.layout
    shards, copies = layout.dp_shard * layout.cp, layout.dp_replicate

    def anew(operation: str, ranks: int, unit: str = "matmul") -> TrainingParts:
        system = system_of(found, _line(found, operation, ranks), scale, unit)
        return training_parts(run.model, system, job, layouts, options.assumptions)

    base = anew("all_reduce", layout.tp)

    def on(operation: str, ranks: int) -> TrainingParts:
        """A group of one exchanges nothing on any link."""
        same = ranks == 1 or (operation, ranks) == ("all_reduce", layout.tp)
        return base if same else anew(operation, ranks)

    scored = anew("all_reduce", layout.tp, "attention").work.attention_s - base.work.attention_s
    work = replace(
        base.work,
        forward_s=base.work.forward_s + scored,
        input_s=base.work.input_s + 2 * scored,
        attention_s=base.work.attention_s + scored,
    )
    gathers, reduces, spreads = (
        on("all_gather", shards),
        on("reduce_scatter", shards if layout.zero else 1),
        on("all_reduce", copies),
    )
    summed = on("all_reduce", 1 if layout.zero else shards)
    rings = found.reduce_scatter_rings
    moved = replace(
        base.moved,
        gather_s=gathers.moved.gather_s,
        refresh_s=gathers.moved.refresh_s,
        reduce_s=summed.moved.reduce_s if layout.zero == 0 else reduces.moved.reduce_s * rings,
        spread_s=spreads.moved.spread_s,
        ends_s=on("all_reduce", layout.pp).moved.ends_s,
    )
    inside = base.inside
    if layout.sp and layout.tp > 1:  # half of such an exchange is a gather, half a reduction
        ways = ((on("all_gather", layout.tp).inside, 0.5), (on("reduce_scatter", layout.tp).inside, 0.5 * rings))
        inside = replace(
            inside,
            forward_s=sum((way.forward_s * share for way, share in ways), np.zeros(1)),
            backward_s=sum((way.backward_s * share for way, share in ways), np.zeros(1)),
        )
    boundary = on("send_recv", layout.pp).boundary_s
    return replace(base, work=work, inside=inside, moved=moved, boundary_s=boundary)


def _updating(found: LocalCalibration, model: Model, job: TrainJob, scale: str) -> System:
    """A system that reads and writes as quickly as an update does."""
    line, state = _rate(found, "update"), whole_state(model, job)
    touched = 2 * state["optimizer_state"] + state["gradients"] + state["parameters"]
    each = touched * FP32_BYTES / state["parameters"]
    system = system_of(found, _line(found, "all_reduce", 1), scale)
    rate = BytesPerSecond(line.rate * each / _factor(line, scale))
    return replace(system, accelerator=replace(system.accelerator, memory_bandwidth=rate))


def _overhead(found: LocalCalibration, layout: Layout) -> Overhead:
    return next(item for item in found.overhead if item.kind == _kind(layout))


def _kind(layout: Layout) -> str:
    """How its parameters are kept, as probes have it."""
    return f"zero={layout.zero}" if layout.dp_replicate * layout.dp_shard > 1 else PLAIN


def _with_overhead(parts: TrainingParts, extra: Overhead, factor: float) -> Any:
    """The work of layers with what a probe's layer takes, that of the last end with what a micro-batch takes."""
    work = parts.work
    forward, backward, again = (
        np.array(item, dtype=np.float64) for item in (work.forward_s, work.input_s, work.repeated_s)
    )
    block, slot = extra.block * factor, extra.slot * factor
    forward[:, :-2] += block * _FORWARD
    backward[:, :-2] += block * (1 - _FORWARD)
    again[:, :-2] += block * _FORWARD * work.again_fraction[:, :-2] * (again[:, :-2] > 0)
    forward[:, -1] += slot * _FORWARD
    backward[:, -1] += slot * (1 - _FORWARD)
    return replace(work, forward_s=forward, input_s=backward, repeated_s=again)


def _most_layers(rows: Rows) -> int:
    return int(rows.lines.layers[0, :, :-2].sum(axis=1).max())


def _small_s(found: LocalCalibration, run: RealRun, scale: str, micro_batches: int) -> float:
    """Exchanges of a few bytes: labels over copies, the norm and the loss over all, and what stands alone in FSDP2.

    The norm and the loss are inside the step of a probe behind FSDP2, and of no other. The weight of the last norm is a
    module of its own behind FSDP2: it is gathered and reduced as one.
    """
    layout = run.layout

    def summed(ranks: int) -> float:
        return _sum_s(found, ranks, scale, _SCALAR_BYTES)

    total = summed(layout.dp_replicate) + summed(layout.dp_shard)
    if _kind(layout) == PLAIN:
        total += summed(max(item.ranks for item in found.exchange))
    if layout.tp > 1:
        rows = layout.micro_batch * run.batch.sequence * FP32_BYTES
        total += summed(layout.tp)  # gradients of repeated norms, one bucket a step
        total += micro_batches * sum(_sum_s(found, layout.tp, scale, rows * each) for each in _LOSS_NUMBERS)
    return total + _last_norm_s(found, run, scale, micro_batches)


def _sum_s(found: LocalCalibration, ranks: int, scale: str, size: int) -> float:
    if ranks == 1:
        return 0.0
    system = system_of(found, _line(found, "all_reduce", ranks), scale)
    layouts = replace(table([_group_layout(ranks)]), order=PIPELINE_OUTSIDE)
    group = group_along(system, layouts, "dp_shard", "own")
    return float(all_reduce("auto", group, size, system).seconds[0])


def _last_norm_s(found: LocalCalibration, run: RealRun, scale: str, micro_batches: int) -> float:
    layout = run.layout
    copies = layout.dp_shard * layout.dp_replicate
    if copies == 1:
        return 0.0
    layouts = replace(table([_group_layout(layout.dp_shard)]), order=PIPELINE_OUTSIDE)
    size = run.model.hidden * FP32_BYTES

    def ring(operation: str) -> float:
        if layout.dp_shard == 1:
            return 0.0
        system = system_of(found, _line(found, operation, layout.dp_shard), scale)
        return float(program_s("ring", operation, group_along(system, layouts, "dp_shard", "own"), size)[0])

    gather, reduce = ring("all_gather"), ring("reduce_scatter") * found.reduce_scatter_rings
    spread = _sum_s(found, layout.dp_replicate, scale, size)
    if layout.zero == 0:
        return _sum_s(found, layout.dp_shard, scale, size) + spread
    channel = turns(np.array([layout.zero]), gather, gather, reduce, spread)
    each = channel.gather_each * 2 + channel.reduce_each
    return float((each * micro_batches + channel.gather_once + channel.reduce_last)[0])


def _group_layout(ranks: int) -> Layout:
    return Layout(dp_shard=ranks, attention="data_parallel")
