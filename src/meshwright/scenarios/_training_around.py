"""A plan's shown layout goes in; what is around its step comes out: slow devices, input, and more devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import Seconds, Tokens
from meshwright.job.train import step_progress
from meshwright.scenarios._training_experts import experts_told
from meshwright.scenarios._training_host import offload_told
from meshwright.scenarios._training_overheads import overhead_warnings, overheads_of, saving_of
from meshwright.scenarios.input_pipeline import InputWait, input_wait
from meshwright.scenarios.scaling import CriticalBatch, Scaling, critical_batch, scaled
from meshwright.scenarios.stragglers import Stragglers, stragglers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.base.result import Candidate
    from meshwright.job.train import TrainJob
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.system.system import System

_FEWEST: Final = 2
_TIMES: Final = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownPlan:
    """More devices for this job. batch: what a larger one can still save.   table: both ways, by number of devices.

    Of a strong step the computation and its spread divide; exposed communication, bubble, update, offload and input
    wait stay.   advice: to grow the batch with the devices, or keep it.
    """

    advice: str
    batch: CriticalBatch
    table: Scaling


def surroundings(  # noqa: PLR0917 - the nouns, and which
    model: Model, system: System, job: TrainJob, options: TrainOptions, shown: Candidate, slack_s: float | None
) -> dict[str, Any]:
    """The blocks of the answer: overheads, stragglers, input, scaling, offload, experts."""
    return {
        "overheads": overheads_of(job, options, saving_of(model, system, job, options), shown),
        "stragglers": slow_devices(system, options, shown, slack_s),
        "input": input_supply(job, options, shown),
        "scaling": grown(system, job, shown),
        "offload": offload_told(system, job, shown),
        "experts": experts_told(model, job, options, shown),
    }


def warnings_around(options: TrainOptions, blocks: Mapping[str, Any], shown: Candidate) -> tuple[str, ...]:
    """What of the blocks is to be read before the answer is believed."""
    return overhead_warnings(options, blocks["overheads"], float(shown.measures["useful_s"]))


def slow_devices(system: System, options: TrainOptions, shown: Candidate, slack_s: float | None) -> Stragglers | None:
    """Wait, redistribute, exclude; None where devices do not vary or there is one.

    slack_s: what a step may lose beside the wait for the slowest, None without a deadline.
    """
    step = shown.measures["step"]
    if not options.straggler_sigma or system.devices < _FEWEST:
        return None
    wait = step["total_s"] - step["compute_s"] - step["straggler_s"]
    return stragglers(
        devices=system.devices,
        compute_s=step["compute_s"],
        sigma=options.straggler_sigma,
        wait_s=wait,
        slack_s=Seconds(0.0 if slack_s is None else max(slack_s + step["straggler_s"], 0.0)),
        slow_sigmas=options.slow_sigmas,
        slow_steps=options.slow_steps,
        interval_s=options.checkpoint_interval,
        restart_s=options.restart,
    )


def input_supply(job: TrainJob, options: TrainOptions, shown: Candidate) -> InputWait | None:
    """What workers prepare against what steps ask for; None where no workers were named."""
    if options.prep_workers is None or options.prep_rate is None:
        return None
    step = shown.measures["step"]
    before = Seconds(step["total_s"] - step["input_wait_s"])
    return input_wait(job.global_batch, before, options.prep_workers, options.prep_rate)


def grown(system: System, job: TrainJob, shown: Candidate) -> GrownPlan | None:
    """Weak and strong scaling from this step; None where the noise scale is not known.

    Source: chapter "Training systems", section 10.1.1.
    """
    if job.noise_scale is None:
        return None
    step = shown.measures["step"]
    batch = Tokens(min(step_progress(job), job.tokens))
    divides = step["compute_s"] + step["straggler_s"]
    critical = critical_batch(job.tokens, batch, job.noise_scale)
    table = scaled(
        critical=critical,
        base_devices=system.devices,
        devices=tuple(system.devices * times for times in _TIMES),
        compute_s=Seconds(divides),
        wait_s=Seconds(step["total_s"] - divides),
        noise_scale=job.noise_scale,
    )
    return GrownPlan(advice=critical.advice, batch=critical, table=table)
