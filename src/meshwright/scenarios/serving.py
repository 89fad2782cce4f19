"""How should this model serve these sessions? The four nouns go in; every layout with its verdict, ranked, comes out.

The five-step selection of chapter "Supernodes", section 6.7.3: fix the inputs; enumerate replicas x tp x pp (x ep);
ledger and times of each; rank what is feasible by one objective; say what was excluded and what the step is sensitive
to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from meshwright.base.result import Basis, Candidate, Lever, Result, Verdict
from meshwright.base.traced import cell
from meshwright.base.units import show_bytes, show_seconds
from meshwright.cost.collectives import check_choice
from meshwright.cost.money import finish_s, turns
from meshwright.job.serve import ServeJob, checked, foreign
from meshwright.model.model import Model
from meshwright.scenarios._by_length import uneven
from meshwright.scenarios._engine import PLAN_MEMORY, for_engine
from meshwright.scenarios._serving_answers import (
    checked_experts,
    common_fields,
    degrees_of,
    hardware_levers,
    left_out,
    refuse_if_none_is_valid,
    sources_used,
    warnings_of,
)
from meshwright.scenarios._serving_continuous import plan_batches
from meshwright.scenarios._serving_faults import curve, fault_table
from meshwright.scenarios._serving_flips import MOST_LAYOUTS, SPAN, UNSEEN, flips
from meshwright.scenarios._serving_rows import candidates
from meshwright.scenarios._serving_table import (
    OUT_OF_POWER,
    Objective,
    ServeOptions,
    ServingTable,
    one_step_s,
    serving_table,
)
from meshwright.scenarios._shared import check_resident, reserve_basis
from meshwright.search.rank import order
from meshwright.system.system import System

FIFO_LEFT_OUT: Final = (
    "prefill: contexts are cached when the sessions arrive (`prefill_time_s` stands beside, and enters nothing)",
    "batched decode: fifo runs one session at a time per replica, so pp shortens no session",
    f"flips beyond a factor {SPAN:g} of a parameter's value, of two at once, or among over {MOST_LAYOUTS} layouts",
    UNSEEN,
)
GROUPS_LEFT_OUT: Final = (
    "layers keep what their windows and states hold, not the blocks in which the engine groups them"
)


def plan_serve(model: Model, system: System, job: ServeJob, options: ServeOptions) -> Result:
    """The plan, under the job's discipline.

    Raises JOB001, JOB002, JOB006 (job), JOB007 (experts), COL001, COL002 (algorithm), LAY002.. (rules), ENG001, ENG006,
    ENG010.. (an engine's), LAY012, LAY013 (space).
    """
    job = checked(job)
    check_resident(model, job.sessions, job.last_position, options.workspace)
    check_choice(options.all_reduce)
    options = checked_experts(model, options)
    engine = None if options.engine is None else options.engine.name
    if job.discipline == "continuous":
        return for_engine(plan_batches(model, system, job, options), engine, _kept(model))
    if options.prefill != "cached":
        raise foreign("prefill", "fifo", "takes contexts as cached when their sessions arrive")
    return for_engine(_plan_in_turn(model, system, job, options), engine, _kept(model))


def _kept(model: Model) -> str:
    """How memory is kept with an engine."""
    return f"{PLAN_MEMORY}; {GROUPS_LEFT_OUT}" if uneven(model) else PLAN_MEMORY


def _plan_in_turn(model: Model, system: System, job: ServeJob, options: ServeOptions) -> Result:
    """The plan when each replica runs one session at a time."""
    chosen = replace(options, objective=objective_of(job, options))
    table = serving_table(model, system, job, chosen)
    ranked = _ranked(table, chosen.objective)
    refuse_if_none_is_valid(table.layouts, table.broken, table.valid)
    found = candidates(model, system, job, chosen, table, ranked)
    best = next((item for item in found if item.fits), None)
    return Result(
        **common_fields(model, system, job, chosen),
        verdict=_verdict(model, system, job, table, best),
        best=best,
        candidates=found,
        flips=flips(model, system, job, chosen, table) if chosen.flips == "search" and table.valid.any() else (),
        sensitivity=() if best is None else _sensitivity(model, system, job, chosen, table, ranked, best),
        warnings=warnings_of(model, system, job, chosen, best, found),
        not_modelled=left_out(model, system, chosen, FIFO_LEFT_OUT, table.layouts),
        sources=sources_used(model, system, found),
        basis=_BASIS | reserve_basis(table.reserve, "candidates[].memory"),
        body={"curves": _curves(system, job, chosen, table, ranked)} if job.deadline_from is not None else {},
        next_commands=_next(job, best),
    )


def objective_of(job: ServeJob, options: ServeOptions) -> Objective:
    """The stated objective, or cost with a deadline and latency without."""
    if options.objective is not None:
        return options.objective
    return "latency" if job.deadline is None else "cost"


def _ranked(table: ServingTable, objective: Objective | None) -> list[int]:
    """Rows, best first: eligible, then fitting but late, then too large, then against a rule."""
    grade = 3 - table.valid.astype(np.int64) - table.fits - table.eligible
    late = np.where(table.eligible, 0, -table.on_time_count)
    goal = table.cost_per_on_time_gpu_s if objective == "cost" else table.last_finish_s
    goal = np.where(table.fits, goal, table.ledger.total)
    names = [layout.id for layout in table.rows]
    return order([grade, late, goal, table.last_finish_s, table.layouts.degree("ep")], names).tolist()


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
    now = cell(table.first.total_s, row)
    return hardware_levers(model, system, lambda other: one_step_s(model, other, layouts, job, options), now)


def _verdict(model: Model, system: System, job: ServeJob, table: ServingTable, best: Candidate | None) -> Verdict:
    what = f"{job.sessions} session{'s' if job.sessions > 1 else ''} of {job.context} + {job.new_tokens} tokens"
    if best is None:
        return Verdict(answer="no", text=f"{model.name} on {system.name} cannot serve {what}: {_least(table)}")
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


def _next(job: ServeJob, best: Candidate | None) -> tuple[str, ...]:
    """What to type next; MODEL and SYSTEM stand for what was typed."""
    if best is None:
        return ("meshwright inspect MODEL",)
    held = f"--context {job.last_position} --sessions {best.measures['sessions_per_replica']}"
    return (f"meshwright fit MODEL --on SYSTEM {degrees_of(best)} {held}",)


_BASIS: Final = {
    "candidates[].memory": Basis.FORMULA.value,
    "candidates[].memory.capacity_bytes": Basis.DATASHEET.value,
    "candidates[].local_time_s": f"{Basis.FORMULA.value}: lower bound at datasheet rates",
    "candidates[].step_time_s": f"{Basis.FORMULA.value}: local time, and exchanges as each group's own basis says",
    "candidates[].finish_times_s": f"{Basis.FORMULA.value}: from step times",
    "candidates[].cost_gpu_s": f"{Basis.FORMULA.value}: from step times",
    "candidates[].groups[].time_s": "as each group's own basis says",
}
