"""How often to save: what the answer adds up to, what it refuses, and wrong answers that it does not give."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.base.errors import UserError
from meshwright.model.reader import read_model
from meshwright.scenarios._interval import IntervalOptions
from meshwright.scenarios.checkpoint_interval import checkpoint_interval, interval_scaling

SIZE = 114_670_295_040
BASE = IntervalOptions(size=SIZE, write=7e9, devices=1024, job_mtbf=28_440.0, restart=120.0, runs=0)
CARDS = replace(BASE, job_mtbf=None, card_mtbf=29_122_560.0)
ASIDE = replace(BASE, mode="async", copy=2.0, commit=1.0)


def body(options, model=None):
    return checkpoint_interval(options, model).body


def rows(options):
    return {row.id: row for row in body(options)["intervals"]}


def test_parts_add_up_and_the_best_is_the_cheapest():
    found = rows(BASE)
    for row in found.values():
        assert row.overhead_fraction == pytest.approx(row.save_fraction + row.rework_fraction + row.recovery_fraction)
        assert row.retry_overhead_fraction >= found["best"].retry_overhead_fraction
        assert row.finish_s == pytest.approx(25 * 86_400 * (1 + row.retry_overhead_fraction))


def test_the_curve_is_least_at_the_best_interval_and_rises_on_both_sides():
    points = body(BASE)["curve"]
    costs = [point.retry_overhead_fraction for point in points]
    best = costs.index(min(costs))
    assert points[best].interval_s == body(BASE)["retry"].interval_s
    assert costs == [*sorted(costs[: best + 1], reverse=True), *sorted(costs[best + 1 :])]
    assert len(points) == 25


@pytest.mark.parametrize("options", [BASE, ASIDE])
def test_the_flat_part_ends_where_the_overhead_is_so_many_points_above_the_best(options):
    found = body(options)
    edges = rows(replace(options, intervals=(found["flat"].from_s, found["flat"].to_s)))
    for row in list(edges.values())[:2]:
        assert row.retry_overhead_fraction == pytest.approx(found["retry"].overhead_fraction + 0.01, rel=1e-9)


def test_the_size_of_a_models_save_is_fourteen_bytes_a_parameter_named_by_part():
    """Chapter "Training systems", section 10.4.2: bf16 parameters, fp32 master and moments, no gradients."""
    found = body(replace(BASE, size=None), read_model("Qwen/Qwen3-8B"))
    assert found["size_bytes"] == SIZE
    assert isinstance(found["size_bytes"], int)
    count = 8_190_735_360
    assert found["size_parts"] == {
        "parameters_bytes": 2 * count, "master_bytes": 4 * count, "optimizer_state_bytes": 8 * count,
    }  # fmt: skip


def test_devices_multiply_failures_and_what_they_share_and_spikes_do_not():
    shared = replace(CARDS, common_mode_mtbf=(1e6, 2e6), spike_interval=604_800.0)
    one, twice = body(shared), body(replace(shared, devices=2048))
    assert twice["failures_per_s"] - one["failures_per_s"] == pytest.approx(1 / 28_440)
    assert one["failures_per_s"] == pytest.approx(1 / 28_440 + 1e-6 + 5e-7 + 1 / 604_800)
    assert one["job_mtbf_s"] == pytest.approx(1 / (1 / 28_440 + 1e-6 + 5e-7))


def test_spikes_add_rework_and_recovery_and_nothing_else():
    plain, spiked = rows(CARDS)["900s"], rows(replace(CARDS, spike_interval=604_800.0))["900s"]
    assert spiked.overhead_fraction - plain.overhead_fraction == pytest.approx(spiked.spikes_fraction)
    assert spiked.spikes_s == pytest.approx(spiked.spikes_fraction * 25 * 86_400)
    assert (plain.spikes_fraction, spiked.save_fraction) == (0, plain.save_fraction)


def test_planned_stops_move_the_end_and_not_the_overhead():
    plain, stopped = (rows(replace(BASE, reserve=reserve))["best"] for reserve in (0.0, 432_000.0))
    assert stopped.finish_s - plain.finish_s == pytest.approx(432_000.0)
    assert stopped.overhead_fraction == plain.overhead_fraction


def test_the_drawn_runs_agree_with_poisson_retry_and_hang_on_the_seed_alone():
    found = body(replace(ASIDE, runs=2000, reserve=100.0))
    for row, drawn in zip(found["intervals"], found["simulated"], strict=True):
        assert row.id == drawn.id
        assert abs(drawn.mean_s - row.finish_s) < 5 * drawn.standard_error_s + 1000
        assert drawn.p05_s < drawn.p50_s < drawn.p95_s
        assert drawn.overhead_fraction == pytest.approx((drawn.mean_s - 100) / (25 * 86_400) - 1)
    again, other = body(replace(ASIDE, runs=2000, reserve=100.0)), body(replace(ASIDE, runs=2000, seed=1))
    assert again["simulated"] == found["simulated"] != other["simulated"]


# ------------------------------------------------------------------------------- wrong answers that are not given


def test_a_save_whose_call_has_returned_is_not_yet_one_to_go_back_to():
    """The copy alone holds training, and a failure within the write and the commit still costs the interval."""
    beside = body(replace(ASIDE, runs=500))
    at_once = body(replace(ASIDE, runs=500, write=7e15, commit=0.0))
    assert beside["lag_s"] == pytest.approx(SIZE / 7e9 + 1)
    for slow, fast in zip(beside["intervals"][:3], at_once["intervals"][:3], strict=True):
        assert slow.save_fraction == fast.save_fraction
        assert slow.rework_fraction > fast.rework_fraction
    for slow, fast in zip(beside["simulated"][:3], at_once["simulated"][:3], strict=True):
        assert slow.redone_s > fast.redone_s


def test_twice_the_devices_do_not_end_the_work_in_half_the_time():
    """Even of steps that halve: failures double, and so the overhead grows."""
    one = rows(replace(CARDS, work=40 * 86_400.0))["best"].finish_s
    two = rows(replace(CARDS, devices=2048, work=20 * 86_400.0))["best"].finish_s
    assert two > 1.01 * one / 2


def test_the_best_interval_shrinks_with_the_root_of_the_devices_and_of_the_write_rate():
    """Chapter "Training systems", section 10.4.4."""
    given = {
        "size_bytes": SIZE, "write_bytes_per_s": 7e9, "devices": 1024, "card_mtbf_s": 29_122_560.0, "restart_s": 120.0,
        "interval_s": 1800.0,
    }  # fmt: skip
    for device_factor, write_factor in ((2.0, 1.0), (1.0, 2.0)):
        found = interval_scaling(**given, device_factor=device_factor, write_factor=write_factor)
        assert found.best_interval_ratio == pytest.approx(2**-0.5)


# ------------------------------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"size": 0}, "CKP001"),
        ({"write": 0.0}, "CKP001"),
        ({"size": None}, "CKP006"),
        ({"job_mtbf": None}, "CKP007"),
        ({"job_mtbf": 0.0}, "CKP007"),
        ({"job_mtbf": 1e13}, "CKP007"),
        ({"card_mtbf": 1e7}, "CKP007"),
        ({"common_mode_mtbf": (1e7,)}, "CKP007"),
        ({"spike_interval": 0.0}, "CKP007"),
        ({"job_mtbf": None, "card_mtbf": 1e7, "common_mode_mtbf": (0.0, 1e7)}, "CKP007"),
        ({"intervals": (300.0, 16.0)}, "CKP008"),
        ({"intervals": (0.0,), "mode": "async"}, "CKP008"),
        ({"intervals": (14.0,), "mode": "async", "copy": 2.0}, "CKP008"),
        ({"intervals": (1e9,)}, "CKP009"),
        ({"job_mtbf": 0.1}, "CKP009"),
        ({"devices": 0}, "JOB001"),
        ({"runs": -1}, "JOB001"),
        ({"work": 0.0}, "JOB001"),
        ({"restart": 1e13}, "JOB001"),
        ({"intervals": (300.0,) * 17}, "JOB001"),
    ],
)
def test_what_has_no_answer_is_refused_with_a_fix(changes, code):
    with pytest.raises(UserError) as caught:
        checkpoint_interval(replace(BASE, **changes))
    assert caught.value.code == code
    assert caught.value.fix


def test_a_size_and_a_model_are_one_too_many():
    with pytest.raises(UserError, match="CKP006"):
        checkpoint_interval(BASE, read_model("tiny-qwen3"))


def test_the_shortest_interval_that_a_refusal_names_is_taken():
    for options in (BASE, ASIDE):
        with pytest.raises(UserError) as caught:
            checkpoint_interval(replace(options, intervals=(1.0,)))
        least = float(caught.value.fix.split("s or more")[0].rpartition(" ")[2])
        assert checkpoint_interval(replace(options, intervals=(least * 1.0001,))).command == "checkpoint interval"


def test_first_order_beyond_its_reach_is_warned_of():
    assert not any("first order" in text for text in checkpoint_interval(BASE).warnings)
    found = checkpoint_interval(replace(BASE, job_mtbf=1800.0))
    assert any(text.startswith("first order holds where the overhead is far below 1") for text in found.warnings)


def test_a_job_that_mostly_recovers_is_a_no():
    found = checkpoint_interval(replace(BASE, job_mtbf=40.0, intervals=()))
    assert found.verdict.answer == "no"
    assert found.body["retry"].overhead_fraction > 1


def test_a_run_that_fails_too_often_is_not_drawn_and_says_so():
    found = checkpoint_interval(replace(BASE, job_mtbf=60.0, intervals=(1000.0,), runs=1000))
    assert "1000s" not in {item.id for item in found.body["simulated"]}
    assert any("not simulated" in text for text in found.warnings)


def test_saves_beside_training_are_no_closer_than_the_writer_takes():
    found = checkpoint_interval(replace(BASE, mode="async", intervals=()))
    assert found.body["retry"].interval_s == found.body["first_order"].interval_s == pytest.approx(SIZE / 7e9)
    assert any("the writer takes" in text for text in found.warnings)
    assert found.body["curve"][0].interval_s >= SIZE / 7e9


def test_work_that_ends_before_its_best_interval_is_said():
    assert any(
        "end before its best interval" in text for text in checkpoint_interval(replace(BASE, work=60.0)).warnings
    )
