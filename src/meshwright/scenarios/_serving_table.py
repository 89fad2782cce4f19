"""The column table of a serving plan: the four nouns go in; every enumerated layout, evaluated, comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from meshwright.base.errors import LayoutError, SystemSpecError
from meshwright.base.numbers import Bools, Floats, Ints, divide_up, is_nan, maximum, minimum
from meshwright.base.traced import cell, named
from meshwright.base.units import Bytes, Seconds, Watts
from meshwright.cost import money
from meshwright.cost.estimate import Assumptions, Step, WeightReads, estimate_step
from meshwright.cost.memory import Ledger
from meshwright.cost.memory_even import Shards
from meshwright.cost.reserve import Reserve, ReserveRule
from meshwright.job.expert_load import ExpertReads, RoutedReads
from meshwright.job.faults import Fault
from meshwright.job.serve import ServeJob
from meshwright.layout.context import has_context
from meshwright.layout.layout import CONTEXT_PARALLEL, AttentionCopies, Layout, checked_layout
from meshwright.layout.layouts import Layouts, columns
from meshwright.layout.placement import instance_size, instances
from meshwright.layout.rules import Broken, first_broken, head_counts
from meshwright.model.model import Model
from meshwright.scenarios._engine import serving_rules
from meshwright.scenarios._engine_pool import EngineOptions
from meshwright.scenarios._resident import resident_ledger
from meshwright.scenarios._serving_context import serving_context_rules
from meshwright.scenarios._shared import NO_WATTS, WORKSPACE, has_experts, smaller_degree
from meshwright.search.candidates import combinations, divisors
from meshwright.system.system import System
from meshwright.workload.batches import decode
from meshwright.workload.context_split import ContextExchange, ContextPlan, ContextSplit
from meshwright.workload.expert_batches import Dedup
from meshwright.workload.operators import FormChoice

Objective: TypeAlias = Literal["cost", "latency", "throughput"]
SEARCHED: Final = ("replicas", "tp", "cp", "pp", "ep", "etp")
_OF_EXPERTS: Final = ("dp_replicate", "attention")
Attention: TypeAlias = Literal["replicated", "data_parallel", "any"]
OUT_OF_POWER: Final = "LAY021"
_MOST_ROWS: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What a plan decides beside the job; every field stands in `inputs`.

    objective: `cost` (device-seconds per on-time session), `latency` (last finish) or `throughput` (sessions a
    second); None takes cost with a deadline, latency without. Of a continuous batch: `cost` (device-seconds per token),
    `latency` (seconds between tokens) or `throughput` (tokens a second), and None takes cost.   all_reduce_time:
    seconds of one all_reduce in every group, in place of the algorithm's.   attention: `replicated` has one copy of
    attention a replica, or as many with the same rows as `layout` fixes by dp_replicate; `data_parallel` several that
    have sessions of their own and share the experts; `any` searches one copy and several.   expert_reads: experts that
    the rows of a step read.   dedup: how rows are sent to experts of other copies; dispatch, combine: formats of the
    rows sent and returned.   attention_form: of latent attention.   prefill: of a continuous batch, whether prompts are
    cached when their sessions arrive (as under fifo), or computed between the steps of the replica that decodes them.
    power_budget, power_base: watts of all boxes together, and of what draws beside them.   fault: one part that stops,
    reported beside the plan.   flips: whether they are searched.   cp: degrees that are tried; cp_split, cp_exchange:
    how its ranks share a prompt.   workspace: bytes kept free on every device (assumed).   reserve: computes and
    itemises them instead.   shards: the form of the ledger, as in fit; how a step reads weights is `weight_reads`.
    engine: whose rules the layouts must keep, and whose pool keeps memory in place of `workspace` and `reserve`.
    layout: fixed fields, the rest is searched.
    """

    objective: Objective | None = None
    all_reduce: str = "auto"
    all_reduce_time: Seconds | None = None
    weight_reads: WeightReads = "strict"
    attention: Attention = "replicated"
    expert_reads: ExpertReads = "expected"
    dedup: Dedup = "rank"
    dispatch: str = "plain"
    combine: str = "plain"
    attention_form: FormChoice = "by_phase"
    prefill: Literal["cached", "between_steps"] = "cached"
    workspace: Bytes = WORKSPACE
    reserve: ReserveRule | None = None
    shards: Shards = "strict"
    basis: Literal["datasheet"] = "datasheet"
    power_budget: Watts | None = None
    power_base: Watts = NO_WATTS
    fault: Fault | None = None
    flips: Literal["search", "none"] = "search"
    engine: EngineOptions | None = None
    cp: tuple[int, ...] = (1,)
    cp_split: ContextSplit = "zigzag"
    cp_exchange: ContextExchange = "ring"
    layout: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def pool(self) -> EngineOptions | None:
        """The engine whose pool keeps memory."""
        return self.engine

    @property
    def assumptions(self) -> Assumptions:
        """The estimator's part of the options."""
        return Assumptions(
            all_reduce=self.all_reduce,
            all_reduce_s=self.all_reduce_time,
            weight_reads=self.weight_reads,
            expert_reads=self.expert_reads,
            attention_form=self.attention_form,
            dedup=self.dedup,
            dispatch=self.dispatch,
            combine=self.combine,
            context=self.context,
        )

    @property
    def context(self) -> ContextPlan:
        """How ranks of cp share a prompt."""
        return ContextPlan(split=self.cp_split, exchange=self.cp_exchange)

    @property
    def prompt_assumptions(self) -> Assumptions:
        """The same for a prompt: a number of experts is that of a decode step, and says nothing of so many rows."""
        stated = not isinstance(self.expert_reads, (str, tuple, RoutedReads))
        return replace(self.assumptions, expert_reads="expected") if stated else self.assumptions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Space:
    """Every layout of a search, one row each, with the replicas that the system holds; fields as in `ServingTable`."""

    layouts: Layouts
    rows: tuple[Layout, ...]
    broken: tuple[Broken | None, ...]
    idle: Ints
    devices: int

    @property
    def paid(self) -> float:
        """Devices that are powered, and so paid for; not a number where there are none."""
        return self.devices * 1.0 if self.devices else np.nan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingTable:
    """Columns, one row a layout.

    rows: the same layouts one by one.   broken: the first rule a row breaks.   idle: devices no replica uses.
    resident: sessions kept on one replica.   first: the step at the starting context.   service_s: seconds one session
    takes alone.   needed: on-time sessions that the job asks for.   devices: powered, and so paid for.   valid: keeps
    the rules.   eligible: is valid, fits, and enough sessions are on time.
    """

    layouts: Layouts
    rows: tuple[Layout, ...]
    broken: tuple[Broken | None, ...]
    idle: Ints
    resident: Ints
    ledger: Ledger
    reserve: Reserve | None
    first: Step
    service_s: Floats
    last_finish_s: Floats
    on_time_count: Ints
    cost_gpu_s: Floats
    cost_per_on_time_gpu_s: Floats
    needed: int
    devices: int
    valid: Bools
    fits: Bools
    eligible: Bools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """Columns that decide a plan, one row a layout; see `ServingTable`."""

    service_s: Floats
    last_finish_s: Floats
    on_time_count: Ints
    cost_gpu_s: Floats
    cost_per_on_time_gpu_s: Floats
    fits: Bools
    eligible: Bools


def serving_table(model: Model, system: System, job: ServeJob, options: ServeOptions) -> ServingTable:
    """Every layout of the search space, evaluated. Raises the codes of `space`."""
    found_space = space(model, system, options)
    layouts, broken, devices = found_space.layouts, found_space.broken, found_space.devices
    resident = sessions_per_replica(job, layouts)
    memory = system.accelerator.memory
    ledger, computed = resident_ledger(model, layouts, options, resident, job.last_position, memory)
    first = estimate_step(model, system, layouts, decode(job.context, 1), options.assumptions)
    service = service_s(model, system, job, options, layouts)
    found = outcome(system, job, layouts, service, ledger.total, devices)
    valid = np.array([item is None for item in broken], dtype=np.bool_) & ~is_nan(found.service_s)
    return ServingTable(
        layouts=layouts,
        rows=found_space.rows,
        broken=broken,
        idle=found_space.idle,
        resident=resident,
        ledger=ledger,
        reserve=computed,
        first=first,
        service_s=found.service_s,
        last_finish_s=found.last_finish_s,
        on_time_count=found.on_time_count,
        cost_gpu_s=found.cost_gpu_s,
        cost_per_on_time_gpu_s=found.cost_per_on_time_gpu_s,
        needed=int(needed_sessions(job)),
        devices=devices,
        valid=valid,
        fits=valid & found.fits,
        eligible=valid & found.eligible,
    )


def space(model: Model, system: System, options: ServeOptions) -> Space:
    """The layouts to look at. Raises LAY002 (devices), LAY012 (axis), LAY013 (too many), SYS011 (power)."""
    layouts = _enumerate(model, system, options)
    nodes = min(system.nodes, powered_nodes(system, options))
    room = instances(instance_size(layouts), nodes, system.devices_per_node)
    broken = tuple(_with_devices(model, system, layouts, room, options))
    replicas = named(maximum(minimum(options.layout.get("replicas", room), room), 1), "replicas")
    layouts = layouts.changed({"replicas": replicas})
    devices = nodes * system.devices_per_node
    return Space(
        layouts=layouts,
        rows=layouts.rows(),
        broken=broken,
        idle=maximum(devices - replicas * instance_size(layouts), 0),
        devices=devices,
    )


def outcome(  # noqa: PLR0917 - what decides
    system: System, job: ServeJob, layouts: Layouts, service: Floats, held: Ints, devices: int
) -> Outcome:
    """Every layout judged. Numbers of the system and of the job may be columns, one value a row.

    service: from `service_s`.   held: bytes on the fullest rank, from `held_bytes` or a ledger.   devices: powered,
    and so paid for.
    """
    replicas = layouts.degree("replicas")
    last = money.finish_s(service, divide_up(job.sessions, replicas))
    count = money.on_time_count(service, replicas, job.sessions, job.deadline)
    occupied = money.occupied_gpu_s(devices, last)
    fits = held <= system.accelerator.memory
    return Outcome(
        service_s=service,
        last_finish_s=last,
        on_time_count=count,
        cost_gpu_s=occupied,
        cost_per_on_time_gpu_s=money.per_on_time_gpu_s(occupied, count),
        fits=fits,
        eligible=fits & (count >= np.maximum(needed_sessions(job), 1)),
    )


def service_s(model: Model, system: System, job: ServeJob, options: ServeOptions, layouts: Layouts) -> Floats:
    """Seconds one session takes alone on every layout; links, rates and the context may be columns."""
    mean = estimate_step(model, system, layouts, decode(job.context, job.new_tokens), options.assumptions)
    return named(named(mean.total_s, "mean_step_s") * job.new_tokens, "service_s")


def held_bytes(model: Model, system: System, job: ServeJob, options: ServeOptions, layouts: Layouts) -> Ints:
    """Bytes on the fullest rank of every layout; sessions, context and the memory may be columns."""
    sessions, memory = sessions_per_replica(job, layouts), system.accelerator.memory
    return resident_ledger(model, layouts, options, sessions, job.last_position, memory)[0].total


def sessions_per_replica(job: ServeJob, layouts: Layouts) -> Ints:
    """Sessions on the replica that has most of them; sessions may be a column."""
    sessions: Any = job.sessions
    return named(divide_up(sessions, layouts.degree("replicas")), "sessions_per_replica")


def needed_sessions(job: ServeJob) -> Any:
    """Sessions that must be on time: the share of them all, rounded up."""
    share = Fraction(str(job.on_time))
    return -(-share.numerator * job.sessions // share.denominator)


def powered_nodes(system: System, options: ServeOptions) -> int:
    """Boxes that the power budget carries; all of them without one. Raises SYS011 when a box's power is not known."""
    if options.power_budget is None:
        return system.nodes
    if not system.node_power:
        cause = f"--power-budget: {system.name} does not say what a box draws"
        raise SystemSpecError(11, cause, "--set system.node_power=10.2kW, or add node_power to its file")
    return int(money.powered_nodes(options.power_budget, options.power_base, system.node_power))


def one_step_s(model: Model, system: System, layouts: Layouts, job: ServeJob, options: ServeOptions) -> Any:
    """Seconds of the first decode step of a one-row table."""
    step = estimate_step(model, system, layouts, decode(job.context, 1), options.assumptions)
    return cell(step.total_s, 0)


def _enumerate(model: Model, system: System, options: ServeOptions) -> Layouts:
    """tp over the divisors of the heads and of the devices; pp up to the layers; ep over the divisors of tp.

    With copies of attention, ep over those of dp_replicate x tp; where ranks of cp share the weights, over those of
    tp x cp. What ep leaves of these ranks, etp cuts.
    """
    fixed, sparse = options.layout, has_experts(model)
    _check_fields(fixed, sparse=sparse)
    heads = max(head_counts(model), default=1)
    degrees = sorted({*divisors(heads), *divisors(system.devices)})
    attention: Attention | AttentionCopies = fixed.get("attention", options.attention)
    axes = {
        "tp": _tried(fixed, "tp", [degree for degree in degrees if degree <= system.devices]),
        "cp": _tried(fixed, "cp", sorted({checked_layout(Layout(cp=degree)).cp for degree in options.cp})),
        "pp": _tried(fixed, "pp", list(range(1, min(model.layers, system.devices) + 1))),
        "ep": _tried(fixed, "ep", degrees if sparse else [1]),
        "dp_replicate": _tried(fixed, "dp_replicate", _copies(system, attention)),
    }
    made = combinations(axes, lambda rows: _keep(rows, system, fixed))
    if not len(made["tp"]):
        least = min(axes["tp"]) * min(axes["cp"]) * min(axes["pp"]) * min(axes["dp_replicate"])
        least_cp = {"cp": axes["cp"][0]} if axes["cp"][0] > 1 else {}
        asked = ", ".join(f"{name}={value}" for name, value in {**least_cp, **fixed}.items())
        cause = f"--layout {asked} needs {least} devices, and {system.name} has {system.devices}"
        nearest = "--layout cp=1" if least_cp else smaller_degree(model, system, int(fixed.get("pp", 1)))
        raise LayoutError(2, cause, f"{nearest}, or more boxes (--on 'ID xN')")
    ranks = _cut(made, fixed)
    etp = maximum(ranks // made["ep"], 1) if sparse else np.ones(len(ranks), dtype=np.int64)
    made["etp"] = np.full(len(etp), fixed["etp"]) if "etp" in fixed else etp
    own: AttentionCopies = "data_parallel" if attention == "any" else attention
    shared = (made["cp"] > 1) & np.full(len(ranks), own == CONTEXT_PARALLEL)
    several = (made["dp_replicate"] > 1) | shared
    return columns(made).changed({"attention": np.where(several, own, "replicated").astype(object)})


def _check_fields(fixed: Mapping[str, Any], *, sparse: bool) -> None:
    """Fields that a serving plan places. Raises LAY012 for others."""
    placed = (*SEARCHED, *_OF_EXPERTS) if sparse else SEARCHED
    foreign = [name for name in fixed if name not in placed and fixed[name] != getattr(Layout(), name)]
    foreign = [name for name in foreign if name != "attention" or fixed[name] != CONTEXT_PARALLEL]
    if foreign:
        cause = f"--layout {foreign[0]}={fixed[foreign[0]]}: plan serve places {', '.join(placed)}"
        if foreign[0] in _OF_EXPERTS:
            raise LayoutError(12, cause, f"leave {foreign[0]} out: replicas of a dense model have nothing to share")
        raise LayoutError(12, cause, f"leave {foreign[0]} out: it has no time model for serving yet")


def _copies(system: System, attention: str) -> list[int]:
    """Copies of attention in a replica."""
    several = [count for count in divisors(system.devices) if count > 1]
    return {"data_parallel": several or [1], "any": [1, *several]}.get(attention, [1])


def _cut(rows: Mapping[str, Ints], fixed: Mapping[str, Any]) -> Ints:
    """Ranks over which the experts lie: those that cut a layer, of all copies of attention."""
    ranks = rows["tp"] * rows["dp_replicate"]
    return ranks * rows["cp"] if fixed.get("attention") == CONTEXT_PARALLEL else ranks


def _keep(rows: Mapping[str, Ints], system: System, fixed: Mapping[str, Any]) -> Bools:
    """Instances no larger than the system, ep a divisor of their ranks; what the user fixed is kept, to be judged."""
    size = rows["tp"] * rows["cp"] * rows["pp"] * rows["dp_replicate"]
    if len(size) > _MOST_ROWS * 50:
        raise LayoutError(13, f"{len(size)} layouts are too many to list", "fix some of them with --layout")
    kept = (size <= system.devices) | np.full(len(size), "tp" in fixed and "pp" in fixed)
    spread = _cut(rows, fixed) % rows["ep"] == 0
    return kept & (spread | np.full(len(size), "ep" in fixed))


def _tried(fixed: Mapping[str, Any], axis: str, degrees: list[int]) -> list[int]:
    return [fixed[axis]] if axis in fixed else degrees


def _with_devices(
    model: Model, system: System, layouts: Layouts, room: Ints, options: ServeOptions
) -> list[Broken | None]:
    """The first broken rule of each row; LAY002 for want of devices, LAY021 for want of power."""
    engine = () if options.engine is None else serving_rules(options.engine.name)
    own = serving_context_rules(options.context) if has_context(layouts) else ()
    found = first_broken(model, layouts, system.devices, (*engine, *own))
    wanted = int(options.layout.get("replicas", 1))
    unbounded = instances(instance_size(layouts), system.nodes, system.devices_per_node)
    for row in np.flatnonzero(room < wanted).tolist():
        if found[row] is not None:
            continue
        layout = replace(layouts.row(row), replicas=wanted)
        nearest = f"replicas={int(room[row])}" if room[row] else None
        plural = "s" if layout.world_size > 1 else ""
        needs = f"{layout.id} needs {layout.world_size} device{plural} in whole boxes, and"
        if unbounded[row] >= wanted:
            carried = powered_nodes(system, options) * system.devices_per_node
            found[row] = Broken(code="LAY021", reason=f"{needs} the power budget carries {carried}", nearest=nearest)
        else:
            reason = f"{needs} {system.name} has {system.devices}"
            found[row] = Broken(code="LAY002", reason=reason, nearest=nearest)
    return found
