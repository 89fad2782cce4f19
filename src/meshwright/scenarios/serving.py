"""How should this model serve these sessions? The four nouns go in; every layout with its verdict, ranked, comes out.

The five-step selection of chapter "Supernodes", section 6.7.3: fix the inputs; enumerate replicas x tp x pp (x ep);
ledger and times of each; rank what is feasible by one objective; say what was excluded and what the step is sensitive
to.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np

from meshwright.base.errors import CollectiveError
from meshwright.base.parse import get_path, set_path
from meshwright.base.result import Basis, Candidate, Lever, Result, Source, Verdict
from meshwright.base.units import show_bytes, show_seconds
from meshwright.cost.collectives import check_choice
from meshwright.cost.estimate import compute_formats
from meshwright.cost.money import finish_s, turns
from meshwright.job.serve import ServeJob, checked
from meshwright.layout.layout import Layout
from meshwright.layout.placement import instance_size
from meshwright.model.model import Model
from meshwright.scenarios._serving_faults import curve, fault_table
from meshwright.scenarios._serving_flips import MOST_LAYOUTS, SPAN, flips
from meshwright.scenarios._serving_rows import candidates
from meshwright.scenarios._serving_table import (
    OUT_OF_POWER,
    Objective,
    ServeOptions,
    ServingTable,
    one_step_s,
    serving_table,
)
from meshwright.scenarios._shared import (
    block_warning,
    check_resident,
    has_experts,
    position_warning,
    rate_notes,
    reserve_basis,
    rule_error,
    sources_of,
    stated_model,
    stated_system,
)
from meshwright.search.rank import order
from meshwright.search.sensitivity import levers
from meshwright.system.calibrations import calibrations
from meshwright.system.system import System
from meshwright.workload.messages import NOT_MODELLED as MESSAGES_LEFT_OUT
from meshwright.workload.operators import NOT_MODELLED as OPERATORS_LEFT_OUT
from meshwright.workload.operators import operators

LEFT_OUT: Final = (
    *OPERATORS_LEFT_OUT,
    *MESSAGES_LEFT_OUT,
    "prefill: contexts are cached when the sessions arrive (`prefill_time_s` stands beside, and enters nothing)",
    "rules of a serving engine: page sizes, widths of block-quantized shards, kernels",
    "topology inside a box: a device reaches any peer at the full one-way rate of its links",
    "launch times, imperfect overlap and contention: operators run at datasheet rates, which bounds them from below",
    "algorithms that know the topology: a group across boxes pays its slowest link in every round (no lower bound)",
    "layouts that were not enumerated: only replicas x tp x pp (x ep over the tp ranks) on whole boxes",
    "batched decode: fifo runs one session at a time per replica, so pp shortens no session",
    f"flips beyond a factor {SPAN:g} of a parameter's value, of two at once, or among over {MOST_LAYOUTS} layouts",
)
STAGED_LEFT_OUT: Final = "contention for host memory: devices of a box have no peer-to-peer path and stage through it"
EXPERTS_LEFT_OUT: Final = "skewed routing: tokens choose experts uniformly; one token pays its expected busiest group"


def plan_serve(model: Model, system: System, job: ServeJob, options: ServeOptions) -> Result:
    """The plan. Raises JOB001, JOB002 (job), COL001, COL002 (algorithm), LAY002.. (rules), LAY012, LAY013 (space)."""
    checked(job)
    check_resident(model, job.sessions, job.last_position, options.workspace)
    check_choice(options.all_reduce)
    chosen = replace(options, objective=objective_of(job, options))
    table = serving_table(model, system, job, chosen)
    ranked = _ranked(table, chosen.objective)
    _refuse_if_none_is_valid(table)
    found = candidates(model, system, job, chosen, table, ranked)
    best = next((item for item in found if item.fits), None)
    return Result(
        command="plan serve",
        verdict=_verdict(model, system, job, table, best),
        inputs={
            "model": stated_model(model),
            "system": stated_system(system),
            "job": job,
            "layout": chosen.layout,
            "options": {key: value for key, value in asdict(chosen).items() if key != "layout"},
        },
        defaulted=model.defaulted,
        best=best,
        candidates=found,
        flips=flips(model, system, job, chosen, table) if chosen.flips == "search" and table.valid.any() else (),
        sensitivity=() if best is None else _sensitivity(model, system, job, chosen, table, ranked, best),
        warnings=_warnings(model, job, best, found),
        notes=(*model.notes, *rate_notes(model, system)),
        not_modelled=_left_out(model, system),
        sources=_sources(model, system, found),
        basis=_BASIS | reserve_basis(table.reserve, "candidates[].memory"),
        body={"curves": _curves(system, job, chosen, table, ranked)} if job.deadline_from is not None else {},
        next_commands=_next(job, best),
    )


def _left_out(model: Model, system: System) -> tuple[str, ...]:
    experts = (EXPERTS_LEFT_OUT,) if has_experts(model) else ()
    return (*LEFT_OUT, *experts, *(() if system.peer_to_peer else (STAGED_LEFT_OUT,)))


def objective_of(job: ServeJob, options: ServeOptions) -> Objective:
    """The stated objective, or cost with a deadline and latency without."""
    if options.objective is not None:
        return options.objective
    return "latency" if job.deadline is None else "cost"


def _refuse_if_none_is_valid(table: ServingTable) -> None:
    """Raise the rule that the layouts the user asked for break, when none is left: that of the smallest instance."""
    if table.valid.any():
        return
    row = int(np.argmin(instance_size(table.layouts)))
    broken = table.broken[row]
    if broken is None:
        ranks = table.layouts.degree("tp")[row]
        raise CollectiveError(2, f"the chosen all_reduce does not take {ranks} ranks", "--all-reduce auto")
    if broken.code != OUT_OF_POWER:  # that is an answer, "no", not a fault of the question
        raise rule_error(broken)


def _ranked(table: ServingTable, objective: Objective | None) -> list[int]:
    """Rows, best first: eligible, then fitting but late, then too large, then against a rule."""
    grade = 3 - table.valid.astype(np.int64) - table.fits - table.eligible
    late = np.where(table.eligible, 0, -table.on_time_count)
    goal = table.cost_per_on_time_gpu_s if objective == "cost" else table.last_finish_s
    goal = np.where(table.fits, goal, table.ledger.total)
    names = [layout.id for layout in table.rows]
    return order([grade, late, goal, table.last_finish_s, table.layouts.degree("ep")], names).tolist()


def _warnings(model: Model, job: ServeJob, best: Candidate | None, found: tuple[Candidate, ...]) -> tuple[str, ...]:
    """Positions beyond the config, blocks that the choice cuts, and ranks of measured beside computed exchanges."""
    own = position_warning(model, job.last_position)
    own += () if best is None else block_warning(model, Layout(**best.layout))
    bases = {
        group["basis"] for item in found for group in item.measures["groups"] if group["operation"] == "all_reduce"
    }
    if {"formula", "measured"} <= bases:
        text = "only some groups have an archived all_reduce: measured times rank beside lower bounds by formula"
        own += (f"{text}, which favours the layouts without an archive",)
    return own


def _curves(
    system: System, job: ServeJob, options: ServeOptions, table: ServingTable, ranked: list[int]
) -> list[dict[str, Any]]:
    """Cost per on-time session against the deadline, for every layout that fits, with and without the fault."""
    faulted = None if options.fault is None else fault_table(system, job, options.fault, table)
    plain = finish_s(table.service_s[:, None], turns(table.layouts.degree("replicas"), job.sessions))
    return [
        {
            "id": table.rows[row].id,
            "points": curve(job, table, plain, row),
            "with_fault": None if faulted is None else curve(job, table, faulted.finish_s, row),
        }
        for row in ranked
        if table.fits[row]
    ]


def _sensitivity(  # noqa: PLR0917 - the four nouns and what was made of them
    model: Model,
    system: System,
    job: ServeJob,
    options: ServeOptions,
    table: ServingTable,
    ranked: list[int],
    best: Candidate,
) -> tuple[Lever, ...]:
    """What doubling or halving each hardware parameter saves of the best layout's first step."""
    row = next(row for row in ranked if table.rows[row].id == best.id)
    layouts = table.layouts.take([row])
    wanted = {compute_formats(model, operator) for operator in operators(model)}
    rates = sorted({system.accelerator.peak_for(formats)[0] for formats in wanted})
    units = {"memory_bandwidth": "B/s", "bandwidth": "B/s", "latency": "s", **dict.fromkeys(rates, "FLOP/s")}
    paths = ["accelerator.memory_bandwidth", *(f"accelerator.peak.{rate}" for rate in rates)]
    paths += [f"{link}.{name}" for link in ("scale_up", "scale_out") for name in ("bandwidth", "latency")]
    present = [path for path in paths if not (path.startswith("scale_out") and system.scale_out is None)]
    parameters = [
        (f"system.{path}", float(str(get_path(system, path))), units[path.rsplit(".", 1)[-1]]) for path in present
    ]

    def seconds_with(path: str, value: float) -> float:
        unit = units[path.rsplit(".", 1)[-1]]
        return one_step_s(
            model, set_path(system, path.removeprefix("system."), f"{value!r}{unit}"), layouts, job, options
        )

    return levers(parameters, seconds_with, float(table.first.total_s[row]))


def _verdict(model: Model, system: System, job: ServeJob, table: ServingTable, best: Candidate | None) -> Verdict:
    what = f"{job.sessions} session{'s' if job.sessions > 1 else ''} of {job.context} + {job.new_tokens} tokens"
    if best is None:
        return Verdict(answer="no", text=f"{model.name} on {system.name} cannot hold {what}: {_least(table)}")
    text = f"{best.id} serves {what}: last finish {show_seconds(best.measures['last_finish_s'])}"
    if job.deadline is not None:
        met, needed = best.measures["on_time_count"], max(table.needed, 1)
        text += f", {met} on time by {show_seconds(job.deadline)} ({needed} needed)"
    if best.measures["cost_per_on_time_gpu_s"] is not None:
        text += f", {best.measures['cost_per_on_time_gpu_s']:.3f} GPU-s per on-time session"
    if best.excluded is not None:
        return Verdict(answer="no", text=f"too few are on time; the best that fits: {text}")
    return Verdict(answer="yes", text=text)


def _least(table: ServingTable) -> str:
    """The valid layout that needs the least memory, or the power that leaves none."""
    valid = np.flatnonzero(table.valid)
    if not len(valid):
        return next(item.reason for item in table.broken if item is not None and item.code == OUT_OF_POWER)
    row = int(valid[np.argmin(table.ledger.total[valid])])
    return f"{table.rows[row].id} still needs {show_bytes(float(table.ledger.total[row]))} a device"


def _sources(model: Model, system: System, found: tuple[Candidate, ...]) -> tuple[Source, ...]:
    """Of the model and system, and of every archived time that a candidate took."""
    used = {group["platform"] for item in found for group in item.measures["groups"]} - {None}
    archived = [
        source
        for calibration in calibrations()
        for table in calibration.table
        for source in calibration.sources
        if table.platform in used and table.source == source.key
    ]
    return tuple(dict.fromkeys([*sources_of(model, system), *archived]))


def _next(job: ServeJob, best: Candidate | None) -> tuple[str, ...]:
    """What to type next; MODEL and SYSTEM stand for what was typed."""
    if best is None:
        return ("meshwright inspect MODEL",)
    degrees = " ".join(f"--{axis} {best.layout[axis]}" for axis in ("tp", "pp", "ep"))
    held = f"--context {job.last_position} --sessions {best.measures['sessions_per_replica']}"
    return (f"meshwright fit MODEL --on SYSTEM {degrees} {held}",)


_BASIS: Final = {
    "candidates[].memory": Basis.FORMULA.value,
    "candidates[].memory.capacity_bytes": Basis.DATASHEET.value,
    "candidates[].local_time_s": f"{Basis.FORMULA.value}: lower bound at datasheet rates",
    "candidates[].step_time_s": f"{Basis.FORMULA.value}: local time, and exchanges as each group's own basis says",
    "candidates[].finish_times_s": f"{Basis.FORMULA.value}: from step times",
    "candidates[].cost_gpu_s": f"{Basis.FORMULA.value}: from step times",
    "candidates[].groups[].time_s": "as each group's own basis says",
}
