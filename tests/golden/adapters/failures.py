"""How often to save: the best interval, what others cost, what spikes add, and what more devices change."""

from __future__ import annotations

from meshwright.scenarios.checkpoint_interval import IntervalOptions, checkpoint_interval
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "checkpoint interval",
    {
        "card_mtbf_s": "G10-004",
        "job_mtbf_s": "G10-005",
        "save_s": "G10-342 G10-343",
        "first_order.interval_s": "G10-344 G10-345 G10-346 G10-405 G10-406",
        "retry.interval_s": "G10-347",
        "intervals[0].save_fraction": "G10-348 G10-352 G10-356",
        "intervals[0].rework_fraction": "G10-349 G10-353 G10-357",
        "intervals[0].recovery_fraction": "G10-350 G10-354 G10-358",
        "intervals[0].overhead_fraction": ("G10-351 G10-355 G10-359 G10-362 G10-363 G10-403 G10-404 G10-407"),
        "intervals[0].spikes_s": "G10-408",
    },
)
def chosen(row: Row) -> object:
    return row.select(checkpoint_interval(row.record(IntervalOptions)))


@answers(
    "study run interval-scaling",
    {"answer.best_interval_ratio": "G10-360 G10-361", "answer.overhead_added": "G10-364"},
)
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
