"""Which schedule is chosen, what is said of the others, and how figures of stages become those of chunks."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from meshwright.base.errors import FileError, ScheduleError
from meshwright.scenarios._stages import figures, layer_counts, of_virtual_stages
from meshwright.scenarios.schedule import ScheduleOptions, schedule, simulated
from meshwright.scenarios.schedule_parts import (
    SlotName,
    layer_blocks,
    rank_order,
    schedule_bubble,
    slot_times,
    stage_line,
)
from meshwright.workload.slots import SCHEDULES

STEP = ScheduleOptions(
    stages=4,
    micro_batches=8,
    forward="10ms",
    backward="20ms",
    send="1ms",
    update="1ms",
    layers=36,
    saved="229.7549MiB",
    saved_head="76.1880MiB",
    forward_message="1MiB",
    backward_message="2MiB",
)


def rows(**changes):
    return {row.schedule: row for row in schedule(replace(STEP, **changes)).body["schedules"]}


def test_memory_is_asked_first_then_time_and_the_other_axis_is_told():
    found = schedule(replace(STEP, memory_limit=10**9))
    assert found.verdict.answer == "yes"
    assert found.body["chosen"] == "one_f_one_b"
    assert found.body["fitting"] == 1
    assert found.verdict.text.startswith("one_f_one_b: 347.00 ms, the fastest of 1 that hold at most 1.00 GB")
    assert "dualpipe_published is 89.00 ms faster and holds 320.80 MB more" in found.verdict.text


def test_without_a_limit_the_fastest_is_chosen_and_the_smallest_is_told():
    found = schedule(STEP)
    assert found.body["chosen"] == "dualpipe_published"
    assert "one_f_one_b holds 320.80 MB less and takes 89.00 ms longer" in found.verdict.text


def test_a_limit_that_none_keeps_is_a_no_with_the_least():
    found = schedule(replace(STEP, memory_limit=10**6))
    assert found.verdict.answer == "no"
    assert "one_f_one_b holds least, 965.76 MB" in found.verdict.text
    assert found.body["chosen"] is None
    assert found.body["timeline"] is None
    assert {row.excluded.code for row in found.body["schedules"]} == {"SCH008"}


def test_a_schedule_that_does_not_take_the_shape_is_excluded_among_all_and_refused_alone():
    found = rows(micro_batches=6)
    assert found["interleaved"].excluded.code == "SCH001"
    assert found["interleaved"].total_s is None
    assert found["one_f_one_b"].fits
    with pytest.raises(ScheduleError) as caught:
        schedule(replace(STEP, micro_batches=6, schedule="interleaved"))
    assert (caught.value.code, caught.value.fix) == ("SCH001", "--micro-batches 8")


def test_a_nearest_limit_that_is_named_suffices():
    most = rows(memory_limit=10**9)["fill_drain"].excluded.nearest.removeprefix("--memory-limit ").removesuffix("B")
    assert rows(memory_limit=int(most))["fill_drain"].fits
    assert not rows(memory_limit=int(most) - 1)["fill_drain"].fits


def test_fractions_follow_from_the_times():
    row = rows()["one_f_one_b"]
    assert row.bubble_over_ideal == 0.375
    assert row.idle_fraction == pytest.approx(0.106 / 0.346)
    assert row.transfer_wait_s == 0.016
    assert row.gradients_s == 0.346
    assert rows()["fill_drain"].over_fastest == pytest.approx(337 / 258 - 1)


def test_the_step_without_a_barrier_is_the_longest_span_of_a_rank_and_its_update():
    found = rows()
    assert found["one_f_one_b"].step_without_barrier_s == found["one_f_one_b"].total_s == 0.347
    assert (found["zero_bubble_h2"].step_without_barrier_s, found["zero_bubble_h2"].total_s) == (0.247, 0.274)
    assert rows(update="3ms")["zero_bubble_h2"].step_without_barrier_s == 0.249
    assert rows(micro_batches=6)["interleaved"].step_without_barrier_s is None


def test_saved_sets_are_counted_in_whole_stages_and_messages_a_boundary():
    found = rows()
    assert {name: found[name].activation_sets for name in ("one_f_one_b", "interleaved", "dualpipe_v")} == {
        "one_f_one_b": 4,
        "interleaved": 5.5,
        "dualpipe_v": 4.5,
    }
    assert [found[name].messages for name in ("one_f_one_b", "interleaved")] == [24, 56]
    assert [found[name].extra_crossings for name in ("one_f_one_b", "interleaved")] == [0, 4]
    assert rank_order("interleaved", 4, 8, 2, 0).activation_sets == 5.5


def test_uneven_stages_count_as_lost_against_an_even_share():
    row = rows(layers=5)["one_f_one_b"]
    assert row.bubble_over_ideal >= 2 * 4 / 5 - 1
    assert row.utilization == pytest.approx(1 / (1 + row.bubble_over_ideal))


def test_times_without_exact_ticks_give_no_negative_idle():
    found = rows(stages=2, micro_batches=4, forward="1e-9s", backward="3.3333333333333333333333ms", layers=None)
    assert all(idle >= 0 for row in found.values() for idle in row.idle_s)
    assert all(row.bubble_over_ideal >= 0 for row in found.values())


def test_every_schedule_is_asked_and_names_may_be_listed():
    assert set(rows()) == set(SCHEDULES.names())
    assert set(rows(schedule="zero-bubble-h1, fill_drain")) == {"zero_bubble_h1", "fill_drain"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"stages": 0}, "SCH006"),
        ({"micro_batches": 10**7}, "SCH006"),
        ({"buffers": 0}, "SCH006"),
        ({"saved": "1e30GB"}, "SCH006"),
        ({"forward": "10ms,10ms"}, "SCH007"),
        ({"send": "1ms,1ms"}, "SCH007"),
        ({"stages": 2, "send": "1ms,1ms"}, "SCH007"),
        ({"stages": 1, "send_back": "1ms,1ms"}, "SCH007"),
        ({"forward": "0s", "backward": "0s"}, "SCH009"),
        ({"schedule": "gone"}, "SCH003"),
        ({"layers": 3, "schedule": "one_f_one_b"}, "SCH005"),
    ],
)
def test_what_cannot_be_asked_is_refused(changes, code):
    with pytest.raises(ScheduleError) as caught:
        schedule(replace(STEP, **changes))
    assert caught.value.code == code


def test_a_figure_without_its_unit_is_refused():
    with pytest.raises(FileError) as caught:
        schedule(replace(STEP, forward="10"))
    assert caught.value.code == "IO002"


def test_figures_a_stage_and_links_a_boundary_are_taken_one_by_one():
    slow = rows(forward="10ms,10ms,10ms,20ms", layers=None)["one_f_one_b"]
    assert slow.compute_s > rows(layers=None)["one_f_one_b"].compute_s
    wrap = rows(send="1ms,1ms,1ms,100ms")
    assert wrap["one_f_one_b"].total_s == 0.347
    assert wrap["interleaved"].total_s > 0.5
    assert rows(send="1ms,1ms,1ms")["interleaved"].total_s == rows()["interleaved"].total_s
    assert rows(send="1ms,9ms,1ms")["interleaved"].total_s == rows(send="1ms,9ms,1ms,9ms")["interleaved"].total_s


def test_gradients_may_travel_slower_than_activations():
    assert rows(send_back="5ms")["fill_drain"].total_s == 0.349


def test_chunks_take_their_layers_share_of_stages():
    ten = (Fraction(10),)
    assert of_virtual_stages(ten, 4, 8, 36) == (Fraction(50, 9),) * 4 + (Fraction(40, 9),) * 4
    assert of_virtual_stages(ten, 4, 8, None) == (Fraction(5),) * 8
    each = tuple(map(Fraction, (1, 2, 3, 4)))
    assert of_virtual_stages(each, 4, 4, 38) == each
    assert of_virtual_stages(each, 4, 8, None) == tuple(Fraction(item, 2) for item in (1, 1, 2, 2, 3, 3, 4, 4))
    assert sum(of_virtual_stages(each, 4, 3, 37)) == 10
    assert layer_counts(8, 36) == (5, 5, 5, 5, 4, 4, 4, 4)
    assert figures("1 ms,2ms", "seconds", "x", (2,)) == (Fraction(1, 1000), Fraction(1, 500))


def test_a_timeline_is_drawn_a_rank_a_row():
    drawn = schedule(replace(STEP, schedule="one_f_one_b")).body["timeline"]
    assert len(drawn["ranks"]) == 4
    assert {len(row) for row in drawn["ranks"]} == {96}
    assert drawn["ranks"][0].startswith("FFF")
    assert drawn["ranks"][3].startswith("...")
    both = schedule(replace(STEP, schedule="dualpipe_published")).body["timeline"]
    assert set("".join(both["ranks"])) >= set("FBWfbw")


def test_a_rank_that_waits_between_and_behind_its_slots_is_drawn_with_dots():
    """A forward of 10 ms on each rank, then a backward of 20 ms on each: rank 0 waits for the 30 ms in between."""
    one = schedule(ScheduleOptions(stages=2, micro_batches=1, forward="10ms", backward="20ms", schedule="fill_drain"))
    assert one.body["timeline"]["ranks"] == ["F" * 16 + "." * 48 + "B" * 32, "." * 16 + "F" * 16 + "B" * 32 + "." * 32]


def test_a_timeline_is_handed_out_whole():
    assert simulated("one_f_one_b", STEP).makespan_s == 0.347


def test_one_slot_is_told_with_what_it_waited_for():
    found = slot_times(replace(STEP, schedule="one_f_one_b"), SlotName(kind="forward", virtual_stage=3, micro_batch=3))
    assert (found.rank, found.arrival_s, found.start_s, found.gap_s) == (3, 0.095, 0.095, 0.002)
    next_one = slot_times(
        replace(STEP, schedule="one_f_one_b"), SlotName(kind="forward", virtual_stage=0, micro_batch=2)
    )
    assert (next_one.start_s, next_one.gap_s, next_one.arrival_s) == (0.01, 0.0, None)
    with pytest.raises(ScheduleError) as caught:
        slot_times(replace(STEP, schedule="fill_drain"), SlotName(kind="forward", virtual_stage=3, micro_batch=9))
    assert caught.value.code == "SCH010"


def test_an_order_a_formula_and_blocks_are_told():
    assert rank_order("one_f_one_b", 2, 2, 1, 1).orders == ("F1.1 B1.1 F1.2 B1.2",)
    work = {"forward_s": 0.01, "backward_s": 0.02, "weight_s": 0.01, "cell_s": 0.03}
    assert schedule_bubble(name="dualpipe_published", stages=4, virtual_stages=1, **work)["bubble_s"] == 0.02
    with pytest.raises(ScheduleError) as caught:
        schedule_bubble(name="dualpipe_declared", stages=4, virtual_stages=1, **work)
    assert caught.value.code == "SCH011"
    with pytest.raises(ScheduleError):
        rank_order("one_f_one_b", 2, 2, 1, 2)
    assert [block.layers for block in layer_blocks(36, 4, 2).blocks] == [5, 5, 5, 5, 4, 4, 4, 4]


WORK = {"forward_s": 0.01, "backward_s": 0.02, "weight_s": 0.01, "cell_s": 0.03}
MANY = 100_000


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda: schedule_bubble(name="dualpipe_published", stages=3, virtual_stages=1, **WORK), "SCH004"),
        (lambda: schedule_bubble(name="dualpipe_published", stages=1, virtual_stages=1, **WORK), "SCH004"),
        (lambda: schedule_bubble(name="fill_drain", stages=0, virtual_stages=1, **WORK), "SCH010"),
        (lambda: schedule_bubble(name="fill_drain", stages=2, virtual_stages=1, **WORK | {"weight_s": 1.0}), "SCH012"),
        (lambda: layer_blocks(10 * MANY, MANY, 2), "SCH010"),
        (lambda: rank_order("fill_drain", MANY, MANY, 1, 0), "SCH006"),
        (lambda: rank_order("interleaved", 10, 10, MANY, 0), "SCH006"),
        (lambda: stage_line(MANY, "1ms", MANY), "SCH006"),
    ],
)
def test_parts_of_a_schedule_that_cannot_be_are_refused_before_they_are_built(ask, code):
    with pytest.raises(ScheduleError) as caught:
        ask()
    assert caught.value.code == code


@pytest.mark.parametrize("name", [name for name in SCHEDULES.names() if name != "dualpipe_declared"])
@pytest.mark.parametrize("stages", [2, 4, 6])
def test_a_formula_is_told_for_every_number_of_stages_that_its_schedule_takes(name, stages):
    assert schedule_bubble(name=name, stages=stages, virtual_stages=3, **WORK)["bubble_s"] >= 0


def test_a_refusal_names_the_counts_that_can_be_given():
    with pytest.raises(ScheduleError) as caught:
        schedule(replace(STEP, stages=1, send="1ms,1ms"))
    assert caught.value.fix == "give 1 of them, separated by commas"
    with pytest.raises(ScheduleError) as caught:
        schedule(replace(STEP, virtual_stages=MANY))
    assert "100000 virtual stages" in caught.value.cause
    assert "4 stages of 3 layers" in schedule(replace(STEP, layers=3)).verdict.text


def test_a_slow_stage_fills_the_buffers_before_it_and_stalls_the_stages_before():
    """Chapter "Supernodes", section 6.2.5: stages of 1, 1, 2, 1 ms; the first result after 5 ms, then one in 2 ms."""
    free = stage_line(4, "1ms,1ms,2ms,1ms", 16)
    assert free.finish_s[:3] == (0.005, 0.007, 0.009)
    assert free.interval_s == 0.002
    assert free.utilization == pytest.approx(16 * 5 / (4 * 35))
    assert free.most_waiting[2] == 8
    assert free.stalled_s == (0.0,) * 4
    tight = stage_line(4, "1ms,1ms,2ms,1ms", 16, buffers=2)
    assert tight.finish_s == free.finish_s
    assert tight.most_waiting[2] == 2
    assert tight.stalled_s[1] > 0
    assert tight.stalled_s[0] > 0
    assert tight.stalled_s[2] == 0


def test_with_bounded_buffers_a_forward_starts_once_the_output_before_it_leaves_not_once_it_arrives():
    """Two stages of 1 s, messages of 2 s on one wire: outputs leave at 1, 3, 5, 7 s."""
    assert stage_line(2, "1s", 4, "2s", buffers=5).finish_s == (4.0, 6.0, 8.0, 10.0)


def test_the_critical_path_adds_up_to_the_step_of_the_chosen_schedule():
    body = schedule(STEP).body
    chosen = next(row for row in body["schedules"] if row.schedule == body["chosen"])
    assert sum(body["critical_path_s"].values()) == pytest.approx(chosen.total_s, rel=1e-12)
    assert body["critical_path_s"]["update"] == pytest.approx(0.001)
