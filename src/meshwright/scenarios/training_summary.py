"""A training job and several systems go in; the table that the chapter prints comes out, a row a system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from meshwright.job.train import TrainJob
from meshwright.model.model import Model
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.training_systems import plan_train_systems
from meshwright.system.system import System

if TYPE_CHECKING:
    from meshwright.base.result import Result

_GIB: Final = 2**30
_HUNDRED: Final = 100
_LEFT: Final = ("step_limit_s", "slack_s", "efficiency_needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSummary:
    """The best layout of one system; of none that fits, the nearest.

    per_rank_gib: GiB of the fullest rank.   channel_s: weights and gradients, a step.   overhead_percent: of saves,
    rework and recovery.   base_s: of all steps.   efficiency_needed: that would be just enough for the deadline.
    """

    system: str
    devices: int
    hosts: int
    layout: str
    num_micro_batches: int
    per_rank_gib: float
    compute_s: float
    channel_s: float
    exposed_comm_s: float
    step_s: float
    overhead_percent: float
    base_s: float
    finish_s: float
    gpu_hours: float
    gpu_hours_with_stops: float
    in_time: bool
    step_limit_s: float | None
    slack_s: float | None
    efficiency_needed: float | None


def training_summary(
    model: Model, systems: tuple[System, ...], job: TrainJob, options: TrainOptions
) -> tuple[SystemSummary, ...]:
    """One row a system, in their order. Raises the codes of `plan_train_systems`.

    Source: chapter "Training systems", section 10.6.1, its table.
    """
    plans = [plan_train_systems(model, (system,), job, options) for system in systems]
    return tuple(_summary(plan) for plan in plans)


def _summary(plan: Result) -> SystemSummary:
    row: dict[str, Any] = plan.body["systems"][0]
    shown = plan.best or plan.candidates[0]
    measures, limits = shown.measures, plan.body["limits"]
    left = {name: None if limits is None else limits[name] for name in _LEFT}
    return SystemSummary(
        system=row["id"],
        devices=row["devices"],
        hosts=row["nodes"],
        layout=shown.id,
        num_micro_batches=measures["num_micro_batches"],
        per_rank_gib=shown.memory["per_rank_bytes"] / _GIB,
        compute_s=measures["step"]["compute_s"],
        channel_s=measures["channel_s"],
        exposed_comm_s=measures["step"]["exposed_comm_s"],
        step_s=measures["step"]["total_s"],
        overhead_percent=measures["overhead_fraction"] * _HUNDRED,
        base_s=measures["useful_s"],
        finish_s=measures["finish_s"],
        gpu_hours=measures["gpu_hours"],
        gpu_hours_with_stops=measures["gpu_hours_with_stops"],
        in_time=row["on_time"],
        **left,
    )
