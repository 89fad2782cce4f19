"""The bubble of a training step against the same slot orders on the event engine, also where micro-batches are few."""

from __future__ import annotations

import pytest

from meshwright.cost.training import bubble_s
from meshwright.scenarios.schedule import ScheduleOptions, schedule
from meshwright.workload.slots import SCHEDULES, Shape, Work, read_schedule

WORKS = ((1.0, 2.0, 0.5), (1.0, 3.0, 0.4), (1.0, 2.0, 0.25))
NAMES = [name for name in SCHEDULES.names() if read_schedule(name).BUBBLE is not None]


def idle_s(name, stages, count, times) -> float:
    """The whole step less the work of a rank, simulated."""
    forward, backward, share = times
    options = ScheduleOptions(
        stages=stages,
        micro_batches=count,
        schedule=name,
        forward=f"{forward}s",
        backward=f"{backward}s",
        weight_grad=share,
        send="0s",
    )
    row = next(item for item in schedule(options).body["schedules"] if item.schedule == name)
    return row.total_s - count * (forward + backward)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stages", [2, 4, 6])
def test_below_its_micro_batches_a_formula_gives_way_to_what_no_order_exceeds(name, stages):
    few = [
        count
        for count in range(1, read_schedule(name).BUBBLE.least(stages))
        if read_schedule(name).refusal(Shape(stages=stages, micro_batches=count)) is None
    ]
    for count in few:
        for forward, backward, share in WORKS:
            work = Work(forward=forward, backward=backward, weight=backward * share, cell=forward + backward)
            charged = float(bubble_s(name, stages, 1, count, work))
            simulated = idle_s(name, stages, count, (forward, backward, share))
            assert charged >= simulated - 1e-9
            if count == 1:
                assert charged == pytest.approx(simulated)


def test_one_micro_batch_on_many_stages_is_no_free_lunch():
    work = Work(forward=1.0, backward=2.0, weight=1.0, cell=3.0)
    assert float(bubble_s("zero_bubble_v", 4, 1, 1, work)) == 6.0
    assert float(bubble_s("zero_bubble_v", 4, 1, 7, work)) == 0.0
