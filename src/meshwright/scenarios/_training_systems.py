"""What a search found on one system goes in; the system's row of the answer comes out, and the basis of its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from meshwright.base.errors import EngineError, LayoutError, ScheduleError
from meshwright.base.result import Basis
from meshwright.scenarios._training_limits import binding_limit, limits_of
from meshwright.scenarios._training_table import failures_per_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.result import Candidate
    from meshwright.job.train import TrainJob
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.scenarios._training_search import Seen
    from meshwright.system.system import System

    LeastBoxes: TypeAlias = Callable[[Model, System, TrainJob, TrainOptions], int | None]

MEASURES: Final = ("finish_s", "gpu_hours", "gpu_hours_with_stops", "cost", "cost_without_stops", "energy_j")
"""What a row of a system says of its best layout; None where none fits."""


def system_row(  # noqa: PLR0917 - the nouns, and what was found
    model: Model,
    system: System,
    job: TrainJob,
    options: TrainOptions,
    seen: Seen,
    found: tuple[Candidate, ...],
    least_boxes: LeastBoxes,
) -> dict[str, Any]:
    """One system: its best layout with the date and what it costs, its limits, and what was searched.

    least_boxes: looks for those that hold the model, where these do not; None where they do, or where none was found.
    """
    best = next((item for item in found if item.fits), None)
    shown = best or found[0]
    measures = {name: None if best is None else best.measures[name] for name in MEASURES}
    limits = None if best is None else limits_of(job, options, best)
    refused = best is None and shown.excluded is not None and shown.excluded.limit == "capacity"
    return {
        "id": system.id,
        "name": system.name,
        "nodes": system.nodes,
        "devices": system.devices,
        "best": None if best is None else best.id,
        "fits": best is not None,
        "on_time": best is not None and best.excluded is None,
        "step_s": None if best is None else best.measures["step"]["total_s"],
        **measures,
        "failures_per_s": failures_per_s(system, options),
        "binding": binding_limit(shown, limits),
        "limits": limits,
        "least_boxes": least_boxes(model, system, job, options) if refused and seen.complete else None,
        "searched": seen,
    }


def check_any_can_run(found: tuple[Candidate, ...]) -> None:
    """Nothing, where some layout breaks no rule.

    Raises the code of the rule, or of the schedule, that the layout that was asked for breaks.
    """
    out = found[0].excluded
    if any(item.excluded is None or item.excluded.limit not in _RULES for item in found) or out is None:
        return
    fix = "leave fields out of --layout" if out.nearest is None else f"give {out.nearest}"
    if out.nearest is not None and not out.nearest.startswith("num_micro_batches"):
        fix = f"--layout {out.nearest}"
    cls = next(cls for cls in (ScheduleError, EngineError, LayoutError) if out.code.startswith(cls.prefix))
    raise cls(int(out.code[3:]), out.reason, fix)


_RULES: Final = frozenset({"rule", "schedule", "engine"})
_STEP: Final = f"{Basis.FORMULA.value}: at the stated efficiency, or a lower bound at datasheet rates"
_DATE: Final = f"{Basis.FORMULA.value}: from step times, first-order overhead and planned stops"
_RENT: Final = f"{Basis.ASSUMED.value}: the stated price, over the planned time"
_ENERGY: Final = f"{Basis.DATASHEET.value}: boxes at full power, over the planned time"
TRAINING_BASIS: Final = {
    "steps": Basis.FORMULA.value,
    "step_tokens": Basis.FORMULA.value,
    "executed_step_tokens": Basis.FORMULA.value,
    "save_bytes": Basis.FORMULA.value,
    "save_s": f"{Basis.ASSUMED.value}: save_bytes at the stated rate",
    "failures_per_s": f"{Basis.ASSUMED.value}: from the stated times between failures",
    "limits": Basis.FORMULA.value,
    "systems[].failures_per_s": f"{Basis.ASSUMED.value}: from the stated times between failures",
    "systems[].step_s": _STEP,
    "systems[].finish_s": _DATE,
    "systems[].gpu_hours": _DATE,
    "systems[].gpu_hours_with_stops": _DATE,
    "systems[].cost": _RENT,
    "systems[].cost_without_stops": _RENT,
    "systems[].energy_j": _ENERGY,
    "systems[].limits": Basis.FORMULA.value,
    "systems[].least_boxes": Basis.FORMULA.value,
    "overheads": f"{Basis.FORMULA.value}: of stated failures and saves",
    "overheads.drawn": f"{Basis.SIMULATED.value}: the run drawn from a seed",
    "stragglers": f"{Basis.FORMULA.value}: from the stated spread",
    "input": f"{Basis.FORMULA.value}: from stated rates of preparing",
    "scaling": f"{Basis.FORMULA.value}: from the stated noise scale",
    "offload": f"{Basis.FORMULA.value}: from datasheet rates, or as stated",
    "experts": f"{Basis.FORMULA.value}: expected of the routing, choices of tokens apart from each other",
    "initialisation": f"{Basis.FORMULA.value}: where every rank builds the whole model before it is sharded",
    "candidates[].simulated": f"{Basis.SIMULATED.value}: one step on the event engine, of the finalists",
    "candidates[].peak_alive": Basis.SIMULATED.value,
    "candidates[].memory": Basis.FORMULA.value,
    "candidates[].memory.capacity_bytes": f"{Basis.DATASHEET.value}: or as --usable-memory says",
    "candidates[].memory.workspace_bytes": Basis.ASSUMED.value,
    "candidates[].memory.activation_budget_bytes": Basis.ASSUMED.value,
    "candidates[].step": _STEP,
    "candidates[].step.input_wait_s": f"{Basis.ASSUMED.value}: as stated, or from stated rates of preparing",
    "candidates[].step.straggler_s": f"{Basis.ASSUMED.value}: from the stated spread",
    "candidates[].exposed": Basis.FORMULA.value,
    "candidates[].exposed_fraction": Basis.FORMULA.value,
    "candidates[].channel_s": Basis.FORMULA.value,
    "candidates[].sent_bytes": Basis.FORMULA.value,
    "candidates[].state_exchange": Basis.FORMULA.value,
    "candidates[].calendar": _DATE,
    "candidates[].num_micro_batches": Basis.FORMULA.value,
    "candidates[].overhead_fraction": f"{Basis.FORMULA.value}: first order, of stated failures and saves",
    "candidates[].useful_s": _DATE,
    "candidates[].finish_s": _DATE,
    "candidates[].gpu_hours": _DATE,
    "candidates[].gpu_hours_with_stops": _DATE,
    "candidates[].cost": _RENT,
    "candidates[].cost_without_stops": _RENT,
    "candidates[].energy_j": _ENERGY,
    "candidates[].mfu": _STEP,
    "candidates[].hfu": _STEP,
    "candidates[].tokens_per_s_per_gpu": _STEP,
    "candidates[].peak_rank": Basis.FORMULA.value,
}
