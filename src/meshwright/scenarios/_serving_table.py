"""The column table of a serving plan: the four nouns go in; every enumerated layout, evaluated, comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from meshwright.base.errors import LayoutError
from meshwright.base.numbers import Bools, Floats, Ints
from meshwright.base.units import Bytes
from meshwright.cost import money
from meshwright.cost.estimate import Assumptions, Step, WeightReads, estimate_step
from meshwright.cost.memory import Ledger, serving_ledger
from meshwright.job.serve import ServeJob
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import Layouts, columns
from meshwright.layout.placement import instance_size, instances
from meshwright.layout.rules import Broken, first_broken
from meshwright.model.model import Model
from meshwright.scenarios._shared import WORKSPACE, has_experts
from meshwright.search.candidates import combinations, divisors
from meshwright.system.system import System
from meshwright.workload.batches import decode

Objective: TypeAlias = Literal["cost", "latency"]
SEARCHED: Final = ("replicas", "tp", "pp", "ep", "etp")
_MOST_ROWS: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What a plan decides beside the job; every field stands in `inputs`.

    objective: `cost` (device-seconds per on-time session) or `latency` (last finish); None takes cost with a
    deadline, latency without.   workspace: bytes kept free on every device (assumed).   layout: fixed fields, the
    rest is searched.
    """

    objective: Objective | None = None
    all_reduce: str = "auto"
    weight_reads: WeightReads = "strict"
    workspace: Bytes = WORKSPACE
    basis: Literal["datasheet"] = "datasheet"
    layout: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def assumptions(self) -> Assumptions:
        """The estimator's part of the options."""
        return Assumptions(all_reduce=self.all_reduce, weight_reads=self.weight_reads)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingTable:
    """Columns, one row a layout.

    rows: the same layouts one by one.   broken: the first rule a row breaks.   idle: devices no replica uses.
    resident: sessions kept on one replica.   first: the step at the starting context.   service_s: seconds one session
    takes alone.   needed: on-time sessions that the job asks for.   valid: keeps the rules.   eligible: is valid, fits,
    and enough sessions are on time.
    """

    layouts: Layouts
    rows: tuple[Layout, ...]
    broken: tuple[Broken | None, ...]
    idle: Ints
    resident: Ints
    ledger: Ledger
    first: Step
    service_s: Floats
    last_finish_s: Floats
    on_time_count: Ints
    cost_gpu_s: Floats
    cost_per_on_time_gpu_s: Floats
    needed: int
    valid: Bools
    fits: Bools
    eligible: Bools


def serving_table(model: Model, system: System, job: ServeJob, options: ServeOptions) -> ServingTable:
    """Every layout of the search space, evaluated. Raises LAY002 (devices), LAY012 (axis), LAY013 (too many)."""
    layouts = _enumerate(model, system, options.layout)
    room = instances(instance_size(layouts), system.nodes, system.devices_per_node)
    broken = tuple(_with_devices(model, system, layouts, room, options.layout))
    replicas = np.maximum(np.minimum(options.layout.get("replicas", room), room), 1)
    layouts = Layouts(columns={**layouts.columns, "replicas": replicas})
    resident = -(-job.sessions // replicas)
    ledger = serving_ledger(
        model,
        layouts,
        sessions=resident,
        tokens=job.last_position,
        workspace_bytes=options.workspace,
        capacity_bytes=system.accelerator.memory,
    )
    first = estimate_step(model, system, layouts, decode(job.context, 1), options.assumptions)
    mean = estimate_step(model, system, layouts, decode(job.context, job.new_tokens), options.assumptions)
    service = mean.total_s * job.new_tokens
    last = money.finish_s(service, resident)
    count = money.on_time_count(service, replicas, job.sessions, job.deadline)
    occupied = money.occupied_gpu_s(system.devices, last)
    valid = np.array([item is None for item in broken], dtype=np.bool_) & ~np.isnan(service)
    fits = valid & (ledger.total <= system.accelerator.memory)
    needed = ceil(Fraction(str(job.on_time)) * job.sessions)
    return ServingTable(
        layouts=layouts,
        rows=layouts.rows(),
        broken=broken,
        idle=system.devices - replicas * instance_size(layouts),
        resident=resident,
        ledger=ledger,
        first=first,
        service_s=service,
        last_finish_s=last,
        on_time_count=count,
        cost_gpu_s=occupied,
        cost_per_on_time_gpu_s=money.per_on_time_gpu_s(occupied, count),
        needed=needed,
        valid=valid,
        fits=fits,
        eligible=fits & (count >= max(needed, 1)),
    )


def one_step_s(model: Model, system: System, layouts: Layouts, job: ServeJob, options: ServeOptions) -> float:
    """Seconds of the first decode step of a one-row table."""
    step = estimate_step(model, system, layouts, decode(job.context, 1), options.assumptions)
    return float(step.total_s[0])


def _enumerate(model: Model, system: System, fixed: Mapping[str, Any]) -> Layouts:
    """tp over the divisors of the heads and of the devices; pp up to the layers; ep over the divisors of tp."""
    foreign = [name for name in fixed if name not in SEARCHED and fixed[name] != getattr(Layout(), name)]
    if foreign:
        cause = f"--layout {foreign[0]}={fixed[foreign[0]]}: plan serve places {', '.join(SEARCHED)}"
        raise LayoutError(12, cause, f"leave {foreign[0]} out: it has no time model for serving yet")
    heads = max(block.mixer.heads for block in model.kinds)
    degrees = sorted({*divisors(heads), *divisors(system.devices)})
    sparse = has_experts(model)
    axes = {
        "tp": _tried(fixed, "tp", [degree for degree in degrees if degree <= system.devices]),
        "pp": _tried(fixed, "pp", list(range(1, min(model.layers, system.devices) + 1))),
        "ep": _tried(fixed, "ep", degrees if sparse else [1]),
    }
    made = combinations(axes, lambda rows: _keep(rows, system, fixed))
    if not len(made["tp"]):
        least = min(axes["tp"]) * min(axes["pp"])
        asked = ", ".join(f"{name}={value}" for name, value in fixed.items())
        cause = f"--layout {asked} needs {least} devices, and {system.name} has {system.devices}"
        raise LayoutError(2, cause, "use more boxes (--on 'ID xN') or smaller degrees")
    etp = np.maximum(made["tp"] // made["ep"], 1) if sparse else np.ones_like(made["tp"])
    made["etp"] = np.full_like(etp, fixed["etp"]) if "etp" in fixed else etp
    return columns(made)


def _keep(rows: Mapping[str, Ints], system: System, fixed: Mapping[str, Any]) -> Bools:
    """Instances no larger than the system, and ep a divisor of tp; what the user fixed is kept, to be judged."""
    size = rows["tp"] * rows["pp"]
    if len(size) > _MOST_ROWS * 50:
        raise LayoutError(13, f"{len(size)} layouts are too many to list", "fix some of them with --layout")
    kept = (size <= system.devices) | np.full(len(size), "tp" in fixed and "pp" in fixed)
    spread = rows["tp"] % rows["ep"] == 0
    return kept & (spread | np.full(len(size), "ep" in fixed))


def _tried(fixed: Mapping[str, Any], axis: str, degrees: list[int]) -> list[int]:
    return [int(fixed[axis])] if axis in fixed else degrees


def _with_devices(
    model: Model, system: System, layouts: Layouts, room: Ints, fixed: Mapping[str, Any]
) -> list[Broken | None]:
    """The first broken rule of each row; LAY002 where the rules hold and the devices do not suffice."""
    found = first_broken(model, layouts, system.devices)
    wanted = int(fixed.get("replicas", 1))
    for row in np.flatnonzero(room < wanted).tolist():
        if found[row] is None:
            layout = replace(layouts.row(row), replicas=wanted)
            cause = (
                f"{layout.id} needs {layout.world_size} devices in whole boxes, and {system.name} has {system.devices}"
            )
            found[row] = Broken(
                code="LAY002", reason=cause, nearest=f"replicas={int(room[row])}" if room[row] else None
            )
    return found
