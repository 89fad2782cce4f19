"""What saves, failures, slow devices, input and more devices do to a plan of training."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright import read_model, read_system
from meshwright.base.errors import UserError
from meshwright.base.units import Seconds
from meshwright.cost.kept import saved_parts
from meshwright.job.recipe import RECIPES, Recipe, read_recipe
from meshwright.job.train import TrainJob
from meshwright.model.model import parameter_counts
from meshwright.scenarios._interval import IntervalOptions
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios._training_table import whole_state
from meshwright.scenarios.checkpoint_interval import checkpoint_interval
from meshwright.scenarios.training import plan_train

DAY_S = 86_400.0
MODEL = "Qwen/Qwen3-8B"
JOB = TrainJob(tokens=10**11, sequence=8192, global_batch=384, deadline=30 * DAY_S, reserve=5 * DAY_S)
CHAPTER = TrainOptions(
    efficiency=0.4, input_wait=0.5, activation_budget=10 * 2**30, usable_memory=22 * 2**30, card_mtbf=29_122_560.0,
    storage_write=7e9, runs=200, layout={"dp_shard": 48, "zero": 3, "micro_batch": 1, "recompute": "none", "sp": False},
)  # fmt: skip


def asked(job=JOB, on="rtx4090-host x6", **changes):
    return plan_train(read_model(MODEL), read_system(on), job, replace(CHAPTER, **changes))


# --------------------------------------------------------------------------------------------------- saves, failures


def test_the_chapters_48_cards_lose_one_percent_and_a_save_every_74_minutes_would_be_best():
    """Chapter "Training systems", sections 10.4.4 and 10.4.5: 1.078 % at 1800 s, and 4458 s."""
    found = asked().body["overheads"]
    assert round(found.overhead_fraction, 5) == 0.01078
    parts = found.save_fraction + found.rework_fraction + found.recovery_fraction
    assert parts == pytest.approx(found.overhead_fraction, rel=1e-12)
    assert found.best_first_order.interval_s == pytest.approx(4458, abs=1)
    assert found.retry_overhead_fraction == pytest.approx(found.overhead_fraction, rel=0.01)
    assert 0 < found.best_saves_s < asked().best.measures["useful_s"] * found.overhead_fraction


def test_spikes_every_seven_days_move_the_best_interval_as_in_the_chapter():
    """Section 10.4.5: 3150 s, and 1.25 %."""
    found = asked(spike_interval=7 * DAY_S).body["overheads"]
    assert found.best_first_order.interval_s == pytest.approx(3150, abs=1)
    assert round(found.overhead_fraction, 4) == 0.0125
    assert found.spikes_fraction == pytest.approx((900 + 120) / (7 * DAY_S))


def test_what_stops_all_cards_counts_once_and_not_by_the_card():
    shared = {"common_mode_mtbf": (Seconds(30 * DAY_S), Seconds(60 * DAY_S))}
    six, four = (asked(on=f"rtx4090-host x{boxes}", layout={"zero": 3}, **shared) for boxes in (6, 4))
    own = (48 - 32) / CHAPTER.card_mtbf
    assert six.body["failures_per_s"] - four.body["failures_per_s"] == pytest.approx(own)
    assert six.body["failures_per_s"] == pytest.approx(48 / CHAPTER.card_mtbf + 1 / (20 * DAY_S))


def test_a_plan_and_checkpoint_interval_agree():
    """The same save and failures asked of either command."""
    found = asked(spike_interval=7 * DAY_S)
    other = checkpoint_interval(
        IntervalOptions(
            size=found.body["save_bytes"], write=7e9, restart=120.0, card_mtbf=CHAPTER.card_mtbf, devices=48,
            spike_interval=7 * DAY_S, intervals=(1800.0,), work=found.best.measures["useful_s"], reserve=JOB.reserve,
            runs=200,
        )
    ).body  # fmt: skip
    mine = found.body["overheads"]
    assert mine.best_first_order == other["first_order"]
    assert mine.best_retry == other["retry"]
    row, drawn = other["intervals"][0], other["simulated"][0]
    assert (mine.overhead_fraction, mine.retry_overhead_fraction) == (
        row.overhead_fraction,
        row.retry_overhead_fraction,
    )
    assert mine.retry_finish_s == pytest.approx(row.finish_s, rel=1e-12)
    assert (mine.drawn.mean_s, mine.drawn.p50_s) == pytest.approx((drawn.mean_s, drawn.p50_s), rel=1e-12)


def test_drawn_dates_lie_around_the_one_by_retry_and_follow_their_seed():
    found = asked(card_mtbf=1e6, runs=1000).body["overheads"]
    drawn = found.drawn
    assert drawn.p10_s < drawn.p50_s < drawn.p90_s
    assert abs(drawn.mean_s - found.retry_finish_s) < 5 * drawn.standard_error_s
    assert asked(card_mtbf=1e6, runs=1000).body["overheads"].drawn == drawn
    assert asked(card_mtbf=1e6, runs=1000, seed=1).body["overheads"].drawn != drawn
    assert asked(runs=0).body["overheads"].drawn is None


def test_the_chance_of_a_date_falls_to_nothing_as_the_deadline_comes_near():
    shares = []
    for days in (30.0, 27.9, 27.8, 20.0):
        job = replace(JOB, deadline=days * DAY_S)
        shares.append(asked(job=job, card_mtbf=1e6).body["overheads"].drawn.on_time_share)
    assert shares[0] == 1.0
    assert sorted(shares, reverse=True) == shares
    assert shares[-1] == 0.0
    assert asked(job=replace(JOB, deadline=None)).body["overheads"].drawn.on_time_share is None


def test_without_failures_or_without_a_rate_of_storage_no_interval_is_best():
    assert asked(card_mtbf=None).body["overheads"].best_first_order is None
    found = asked(storage_write=None).body["overheads"]
    assert (found.save_fraction, found.best_first_order, found.best_saves_s) == (0.0, None, None)


def test_an_overhead_that_is_not_far_below_one_is_warned_of():
    assert not asked().warnings
    assert "Poisson retry" in asked(card_mtbf=2e5).warnings[0]


def test_a_run_that_ends_before_its_first_save_is_warned_of():
    short = asked(replace(JOB, tokens=10**8), card_mtbf=Seconds(337.07 * 86400), runs=0)
    assert any("end before its first save" in text for text in short.warnings)
    long = asked(replace(JOB, tokens=10**10), card_mtbf=Seconds(337.07 * 86400), runs=0)
    assert not any("first save" in text for text in long.warnings)
    whole = asked(replace(JOB, tokens=10**8), card_mtbf=None, storage_write=None, runs=0)
    assert not any("first save" in text for text in whole.warnings)


def test_so_many_failures_that_none_is_drawn_is_said():
    found = asked(card_mtbf=2e4, checkpoint_interval=100.0, restart=1.0, runs=100_000)
    assert found.body["overheads"].drawn is None
    assert "not drawn" in found.warnings[-1]


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("JOB023", {"checkpoint_interval": 10.0}),
        ("JOB023", {"checkpoint_interval": 10.0, "checkpoint_copy": 1.0}),
        ("JOB023", {"card_mtbf": 1e3}),
        ("JOB021", {"card_mtbf": None, "job_mtbf": 1e5, "common_mode_mtbf": (1e6,)}),
        ("JOB021", {"storage_write": None, "checkpoint_copy": 1.0}),
        ("JOB021", {"card_mtbf": 0.0}),
        ("JOB021", {"runs": -1}),
        ("JOB021", {"price": -1.0}),
        ("JOB021", {"slow_steps": 0}),
        ("JOB021", {"storage_write": 0.0}),
        ("JOB021", {"input_wait": None, "prep_workers": 0, "prep_rate": 1.0}),
    ],
)
def test_what_no_run_can_have_is_refused(code, changes):
    with pytest.raises(UserError, match=code):
        asked(**changes)


@pytest.mark.parametrize("recipe", RECIPES.names())
@pytest.mark.parametrize("model", ["tiny-qwen3", "tiny-qwen3-moe", MODEL])
def test_a_save_is_all_state_but_gradients_and_a_frozen_base(recipe, model):
    read, job = read_model(model), replace(JOB, recipe=read_recipe(recipe))
    parts, whole = saved_parts(read, job.recipe), whole_state(read, job)
    base = 2 * parameter_counts(read)["total"] if job.recipe.lora_rank else 0
    assert sum(parts.values()) == whole["parameters"] + whole["optimizer_state"] - base


def test_a_save_follows_the_recipe():
    """2 + 4 + 8 bytes of a parameter, and 2 + 4 + 8 again whatever gradients are kept in; 2 + 8 without a master."""
    count = 8_190_735_360
    assert saved_parts(read_model(MODEL), Recipe()) == {
        "parameters": 2 * count, "master": 4 * count, "optimizer_state": 8 * count,
    }  # fmt: skip
    assert saved_parts(read_model(MODEL), Recipe(gradients="fp32")) == saved_parts(read_model(MODEL), Recipe())
    assert saved_parts(read_model(MODEL), Recipe(master="none"))["master"] == 0


def test_a_save_of_adapters_leaves_out_the_base_that_they_freeze():
    """Rank 16 on the seven matrices of 36 layers; 2 bytes a parameter, 4 for its master and 4 for each moment."""
    adapters = 36 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 12_288))
    saved = {"parameters": 2 * adapters, "master": 4 * adapters, "optimizer_state": 8 * adapters}
    assert saved_parts(read_model(MODEL), read_recipe("bf16-lora")) == saved


# ---------------------------------------------------------------------------------------- devices, input, more devices


def test_slow_devices_stand_in_the_step_and_their_three_reactions_beside_it():
    """Section 10.4.5: 48 cards vary by 2 %: 2.2331 sigmas; the date waits for the slowest."""
    found = asked(straggler_sigma=0.02)
    step, told = found.best.measures["step"], found.body["stragglers"]
    assert step["straggler_s"] == pytest.approx(2.2331 * 0.02 * step["compute_s"], rel=1e-4)
    assert told.increase_s == step["straggler_s"]
    assert told.step_s == pytest.approx(step["total_s"])
    assert [item.name for item in told.reactions] == ["wait", "redistribute", "exclude"]
    slack = found.body["limits"]["slack_s"]
    assert told.slack_share == pytest.approx(step["straggler_s"] / (slack + step["straggler_s"]))
    assert asked().body["stragglers"] is None
    long = asked(straggler_sigma=0.02, slow_steps=told.exclude_from_steps).body["stragglers"]
    assert long.best == "exclude"


def test_without_a_deadline_slow_devices_take_no_slack():
    free = asked(job=replace(JOB, deadline=None, reserve=0.0), straggler_sigma=0.02).body["stragglers"]
    assert free.increase_s > 0
    assert free.slack_share is None


def test_workers_that_prepare_too_little_are_waited_for_and_named():
    few = asked(input_wait=None, prep_workers=3, prep_rate=2.0)
    told, step = few.body["input"], few.best.measures["step"]
    assert told.supply_sequences_per_s == 6.0
    assert told.demand_sequences_per_s == pytest.approx(384 / (step["total_s"] - step["input_wait_s"]))
    assert step["total_s"] == pytest.approx(384 / 6.0)
    assert told.wait_s == pytest.approx(step["input_wait_s"])
    enough = asked(input_wait=None, prep_workers=told.least_workers, prep_rate=2.0)
    assert enough.best.measures["step"]["input_wait_s"] == 0.0
    assert asked().body["input"] is None


def test_more_devices_are_a_table_from_this_plans_step():
    """Section 10.1.1: at a noise scale of 2M tokens, S_min 19 434 and E_min 38.87e9; 26 % of waiting at 1536 cards."""
    job = replace(JOB, noise_scale=2 * 10**6)
    found = asked(job=job).body["scaling"]
    assert found.advice == "keep_batch"
    assert round(found.batch.least_steps) == 19_434
    assert found.batch.least_tokens == pytest.approx(38.87e9, rel=1e-4)
    by_count = {row.devices: row for row in found.table.rows}
    assert list(by_count) == [48, 96, 192, 384, 768]
    assert by_count[48].weak_s == by_count[48].strong_s == asked().best.measures["useful_s"]
    assert found.table.wait_s == pytest.approx(0.5 + 0.0765, abs=1e-4)
    assert asked().body["scaling"] is None


# ------------------------------------------------------------------------------------------------------ padding, money


def test_padding_costs_and_is_no_progress():
    """12 % of the positions: as many FLOPs a step, fewer tokens, more steps."""
    plain, padded = asked(), asked(job=replace(JOB, padding=0.12))
    assert padded.body["executed_step_tokens"] == plain.body["step_tokens"] == 3_145_728
    assert padded.body["step_tokens"] == 2_768_240
    assert padded.body["steps"] == -(-(10**11) // 2_768_240)
    one, other = plain.best.measures, padded.best.measures
    assert other["step"] == one["step"]
    share = 2_768_240 / 3_145_728
    assert other["mfu"] == pytest.approx(one["mfu"] * share)
    assert other["hfu"] == one["hfu"]
    assert other["tokens_per_s_per_gpu"] == pytest.approx(one["tokens_per_s_per_gpu"] * share)
    with pytest.raises(UserError, match="JOB022"):
        asked(job=replace(JOB, padding=1.0))


def test_a_price_is_the_systems_unless_it_is_given():
    system = replace(read_system("rtx4090-host x6"), device_price=0.5)
    found = plan_train(read_model(MODEL), system, JOB, CHAPTER)
    hours = found.best.measures["gpu_hours_with_stops"]
    assert found.best.measures["cost"] == pytest.approx(0.5 * hours)
    assert asked(price=2.0).best.measures["cost"] == pytest.approx(2.0 * hours)
    assert asked().best.measures["cost"] is None
