"""A job under `continuous` and the other nouns go in; layouts with their batches, ranked, and the front come out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from meshwright.base.numbers import Floats
from meshwright.base.result import Basis, Candidate, Lever, Result, Verdict
from meshwright.base.traced import cell
from meshwright.base.units import show_bytes, show_seconds
from meshwright.job.serve import ServeJob, foreign
from meshwright.model.model import Model
from meshwright.scenarios._serving_answers import (
    common_fields,
    degrees_of,
    hardware_levers,
    left_out,
    refuse_if_none_is_valid,
    sources_used,
    warnings_of,
)
from meshwright.scenarios._serving_batch_flips import MOST_SEARCHED, batch_flips
from meshwright.scenarios._serving_batch_rows import candidates
from meshwright.scenarios._serving_batches import BatchTable, asked, batch_table, prompt_of, run
from meshwright.scenarios._serving_flips import MOST_LAYOUTS, SPAN, UNSEEN
from meshwright.scenarios._serving_pareto import pareto
from meshwright.scenarios._serving_table import OUT_OF_POWER, Objective, ServeOptions
from meshwright.scenarios._shared import reserve_basis
from meshwright.search.rank import order
from meshwright.system.system import System

BATCHES_LEFT_OUT: Final = (
    "queueing: `ttft_s` is one prompt alone on an idle replica, and sessions that are not in flight wait their turn",
    "admission below the final length, preemption and shared prefixes: each session keeps room for all of its tokens",
    "lengths that differ: a step is timed at the mean length of a generation, and evenly spread sessions have it",
    (
        f"flips beyond a factor {SPAN:g} of a parameter's value, of two at once, or among over {MOST_LAYOUTS} layouts"
        f" ({MOST_SEARCHED} where --tpot decides the batch)"
    ),
    UNSEEN,
    "flips of the context where a prompt's time counts (--ttft, or --prefill between-steps)",
)
_PREFILL_LEFT_OUT: Final = {
    "cached": "prefill: contexts are cached when their sessions arrive (columns `..._with_prefill...` stand beside)",
    "between_steps": "chunked prefill: prompts run whole, one at a time, between two steps of the replica",
}


def plan_batches(model: Model, system: System, job: ServeJob, options: ServeOptions) -> Result:
    """The plan of a continuous batch. Raises JOB006 for a fault, and the codes of `batch_table` and of the rules."""
    if options.fault is not None:
        raise foreign("fault", "continuous", "runs on and on, and has no last finish to delay")
    chosen = replace(options, objective=options.objective or "cost")
    table = batch_table(model, system, job, chosen)
    refuse_if_none_is_valid(table.space.layouts, table.space.broken, table.valid)
    ranked = ranking(job, table, chosen.objective)
    found = candidates(system, job, table, ranked)
    best = next((item for item in found if item.fits), None)
    return Result(
        **common_fields(model, system, job, chosen),
        verdict=_verdict(model, system, job, table, best),
        best=best,
        candidates=found,
        flips=batch_flips(model, system, job, chosen, table) if chosen.flips == "search" else (),
        sensitivity=() if best is None else _sensitivity(model, system, job, chosen, table, ranked[0]),
        warnings=warnings_of(model, system, job, chosen, best, found),
        not_modelled=left_out(
            model,
            system,
            chosen,
            (_PREFILL_LEFT_OUT[chosen.prefill], *BATCHES_LEFT_OUT),
            table.space.layouts,
        ),
        sources=sources_used(model, system, found),
        basis=_BASIS | reserve_basis(table.reserve, "candidates[].memory"),
        body={"pareto": pareto(model, system, job, chosen, table)},
        next_commands=_next(job, best),
    )


def ranking(job: ServeJob, table: BatchTable, objective: Objective | None) -> list[int]:
    """Rows, best first: within all bounds, then late (the nearest first), then too large, then against a rule.

    `cost` and `throughput`: most tokens a second and GPU (all powered devices are paid for, so the two agree).
    `latency`: least time between tokens, of those that keep most sessions in flight.
    """
    grade = 3 - table.valid.astype(np.int64) - table.fits - table.eligible
    goal = -table.in_flight if objective == "latency" else -table.tokens_per_gpu_s
    goal = np.where(table.fits, np.where(table.eligible, goal, _lateness(job, table)), table.ledger.total)
    names = [layout.id for layout in table.space.rows]
    return order([grade, goal, table.running.tpot_s, table.space.layouts.degree("ep")], names).tolist()


def _lateness(job: ServeJob, table: BatchTable) -> Floats:
    """How many times over its bound each row is, by the bound that it breaks most."""
    times = ((job.tpot, table.running.tpot_s), (job.ttft, table.prompt.ttft_s))
    over = [seconds / bound for bound, seconds in times if bound is not None]
    return np.maximum.reduce([np.zeros(len(table.valid)), *over])


def _sensitivity(  # noqa: PLR0917 - the four nouns and what was made of them
    model: Model, system: System, job: ServeJob, options: ServeOptions, table: BatchTable, row: int
) -> tuple[Lever, ...]:
    """What doubling or halving each hardware parameter saves of the best layout's time between tokens, batch fixed."""
    layouts, batch = table.space.layouts.take([row]), table.running.batch[[row]]

    def tpot_on(other: System) -> float:
        prompt = prompt_of(model, other, job, options, layouts)
        return cell(run(model, other, job, options, layouts, prompt, batch).tpot_s, 0)

    return hardware_levers(model, system, tpot_on, cell(table.running.tpot_s, row))


def _verdict(model: Model, system: System, job: ServeJob, table: BatchTable, best: Candidate | None) -> Verdict:
    what = f"{asked(job)} session{'s' if asked(job) > 1 else ''} of {job.context} + {job.new_tokens} tokens"
    if best is None:
        return Verdict(answer="no", text=f"{model.name} on {system.name} cannot serve {what}: {_least(job, table)}")
    own = best.measures
    text = (
        f"{best.id} decodes {own['in_flight']} of {what} at once, batch {own['batch']} a replica "
        f"(limited by {own['limited_by']}): tpot {_bounded(own['tpot_s'], job.tpot)}, "
        f"ttft {_bounded(own['ttft_s'], job.ttft)}, {own['tokens_per_s']:,.1f} tokens/s, "
        f"{own['tokens_per_s_per_gpu']:,.1f} tokens/s/GPU"
    )
    if best.excluded is not None:
        return Verdict(answer="no", text=f"every layout that fits is too slow; the nearest: {text}")
    return Verdict(answer="yes", text=text)


def _bounded(seconds: float, bound_s: float | None) -> str:
    allowed = "" if bound_s is None else f" ({show_seconds(bound_s)} allowed)"
    return f"{show_seconds(seconds)}{allowed}"


def _least(job: ServeJob, table: BatchTable) -> str:
    """The valid layout that comes nearest to holding it, or the power that leaves none."""
    valid = np.flatnonzero(table.valid)
    if not len(valid):
        return next(item.reason for item in table.space.broken if item is not None and item.code == OUT_OF_POWER)
    room = table.capacity[valid] * table.space.layouts.degree("replicas")[valid]
    row = int(valid[np.argmax(room)])
    if job.concurrency is not None and room.max() > 0:
        return f"{table.space.rows[row].id} holds {int(room.max())} at once"
    row = int(valid[np.argmin(table.ledger.total[valid])])
    return f"{table.space.rows[row].id} still needs {show_bytes(float(table.ledger.total[row]))} a device"


def _next(job: ServeJob, best: Candidate | None) -> tuple[str, ...]:
    """What to type next; MODEL and SYSTEM stand for what was typed."""
    if best is None:
        return ("meshwright inspect MODEL",)
    held = f"--context {job.last_position} --sessions {best.measures['batch']}"
    return (f"meshwright fit MODEL --on SYSTEM {degrees_of(best)} {held}",)


_LOWER: Final = f"{Basis.FORMULA.value}: local time at datasheet rates, and exchanges as each group's own basis says"
_BASIS: Final[dict[str, Any]] = {
    "candidates[].memory": Basis.FORMULA.value,
    "candidates[].memory.capacity_bytes": Basis.DATASHEET.value,
    "candidates[].memory.workspace_bytes": Basis.ASSUMED.value,
    "candidates[].local_time_s": f"{Basis.FORMULA.value}: lower bound at datasheet rates",
    "candidates[].step_time_s": _LOWER,
    "candidates[].tpot_s": _LOWER,
    "candidates[].ttft_s": _LOWER,
    "candidates[].tokens_per_s": f"{Basis.FORMULA.value}: from times between tokens",
    "candidates[].groups[].time_s": "as each group's own basis says",
    "pareto[]": f"{Basis.FORMULA.value}: as the columns of candidates",
}
