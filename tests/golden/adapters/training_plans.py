"""What a training plan says: memory, the step and its channel, the date, what the deadline leaves, changed hardware."""

from __future__ import annotations

from meshwright.job.train import TrainJob
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.training import plan_train
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "plan train",
    {
        "best.state_exchange.sent_bytes": "G10-227",
        "candidates[0].state_exchange.collectives": "G10-228",
        "best.sent_bytes": "G10-229 G10-230",
        "best.channel_s": "G10-231 G10-232 G10-457 G10-458 G10-478",
        "inputs.system.scale_out.bandwidth": "G10-233",
        "best.state_exchange.busy_s": "G10-234 G10-479 G10-488",
        "best.state_exchange.compute_s": "G10-235",
        "best.state_exchange.layer_bytes": "G10-236",
        "best.state_exchange.layer_gather_s": "G10-237",
        "best.state_exchange.first_bytes": "G10-238",
        "best.step.exposed_comm_s": "G10-239 G10-459 G10-460 G10-489",
        "best.step.total_s": "G10-240 G10-241 G10-461 G10-462 G10-480 G10-490 G10-492",
        "best.num_micro_batches": "G10-451 G10-452",
        "best.memory.per_rank_bytes": "G10-453 G10-454",
        "best.step.compute_s": "G10-455 G10-456 G10-491",
        "best.overhead_fraction": "G10-463 G10-464",
        "best.useful_s": "G10-465 G10-466",
        "best.finish_s": "G10-467 G10-468 G10-512 G10-513",
        "limits.left_s": "G10-469",
        "searched.on_time": "G10-470 G10-471 G10-481 G10-482",
        "limits.step_limit_s": "G10-472",
        "limits.slack_s": "G10-473",
        "limits.most_comm_wait_s": "G10-474",
        "limits.step_without_overlap_s": "G10-475",
        "limits.compute_limit_s": "G10-476",
        "limits.efficiency_needed": "G10-477",
        "best.exposed_fraction": "G10-487",
    },
)
def planned(row: Row) -> object:
    return row.select(plan_train(row.model(), row.system(), row.record(TrainJob), row.record(TrainOptions)))


@answers("study run training-budget", {"answer.hosts": "G10-449 G10-450"})
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
