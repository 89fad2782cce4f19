"""State tables, residency, capacity, number formats and loss scales, asked as the studies ask them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.base.errors import UserError
from meshwright.job.recipe import Recipe, read_recipe
from meshwright.model.reader import read_model
from meshwright.scenarios.low_precision import (
    bit_format,
    block_scaled,
    dynamic_loss_scale,
    loss_scale,
    number_format,
    published_figure,
)
from meshwright.scenarios.state_and_peak import logged_state_and_peak, state_and_peak
from meshwright.scenarios.training_state import capacity_fit, matrix_state, model_state, zero_residency
from meshwright.system.memory_logs import LoggedMemory

DENSE = read_model("Qwen/Qwen3-8B")
GIB = 2**30


def residency(**changes):
    asked = {"shards": 8, "replicas": 1, "stages": (0, 1, 2, 3), "form": "even"} | changes
    return zero_residency(model=asked.pop("model", DENSE), recipe=asked.pop("recipe", Recipe()), **asked)


def test_the_table_of_a_model_is_what_one_rank_keeps_of_it():
    for name in ("bf16-adamw", "bf16-adamw-8bit", "bf16-lora", "fp8-adamw-bf16-moments", "bf16-adafactor"):
        recipe = read_recipe(name)
        table = model_state(DENSE, recipe)
        rank = residency(recipe=recipe, shards=1, stages=(0,)).stages[0]
        assert table.total_bytes == rank.state_bytes
        assert table.optimizer_bytes == rank.optimizer_state_bytes
        assert sum(row.bytes for row in table.rows) == table.total_bytes


def test_fp8_operands_shrink_the_state_only_where_they_replace_a_copy():
    fp8 = Recipe(compute="fp8", fp8_copy="transient")
    copy = 1 + 4 / 128**2
    expected = {"transient": 16, "kept": 16 + copy, "instead": 14 + copy}
    for how, each in expected.items():
        assert matrix_state(replace(fp8, fp8_copy=how), 256, 512).bytes_per_parameter == each


def test_what_a_stage_shards_and_what_it_repeats_are_the_whole():
    for stage in residency().stages:
        assert stage.sharded_bytes_per_parameter + stage.whole_bytes_per_parameter == 16
        assert stage.state_bytes == 8190735360 * (
            stage.whole_bytes_per_parameter + stage.sharded_bytes_per_parameter / 8
        )


def test_replicas_of_hybrid_sharding_add_devices_and_save_nothing():
    alone, hybrid = residency(), residency(replicas=4)
    assert (alone.devices, hybrid.devices) == (8, 32)
    assert alone.stages == hybrid.stages


def test_chunks_of_whole_rows_keep_more_on_the_fullest_rank_than_bytes_dealt_out():
    """4096 rows over 48 ranks are 86 on most of them: 12.55 GiB of need where 16 N / d says 12.54."""
    strict, even = (residency(shards=48, stages=(3,), form=form).stages[0].state_bytes for form in ("strict", "even"))
    assert even == pytest.approx(16 * 8190735360 / 48, abs=2000)
    assert 1.003 < strict / even < 1.005


@pytest.mark.parametrize(("usable", "fewest"), [(22 * GIB, 16), (13 * GIB, 48), (12 * GIB, None)])
def test_the_fewest_devices_that_fit_are_those_whose_need_is_within_the_memory(usable, fewest):
    found = capacity_fit(
        model=DENSE,
        recipe=Recipe(),
        devices=(8, 16, 32, 48),
        usable_bytes=usable,
        extra_bytes=10 * GIB,
        zero=3,
        form="even",
    )
    assert found.fewest_devices == fewest
    for row in found.rows:
        assert row.fits == (row.shortfall_bytes == 0)
        assert row.reserve_bytes - row.shortfall_bytes == usable - row.total_bytes
        assert row.left_bytes == usable - row.state_bytes


def test_the_named_formats_are_those_of_their_bits():
    assert number_format("fp16") == bit_format(5, 10, "infinities")
    assert number_format("e2m1").largest == 6
    assert number_format("e4m3").largest == 448
    assert bit_format(4, 3, "infinities").largest == 240, "with a whole exponent lost to infinities"


def test_a_scale_of_8_saves_gradients_of_2_to_the_minus_27():
    found = loss_scale("fp16", 2.0**-27, 2.0)
    assert (found.least_scale, found.most_scale, found.exists) == (8, 16384, True)
    assert not loss_scale("fp16", 2.0**-40, 2.0).exists
    assert loss_scale("bf16", 2.0**-40, 2.0).least_scale < 1, "bf16 has the range of fp32"


def test_an_overflow_skips_the_update_and_halves_the_scale_and_clean_steps_double_it():
    found = dynamic_loss_scale("fp16", 65536.0, 2, (0.5, 2.0, 0.5, 0.5, 0.5))
    assert found.scales == (65536, 65536, 32768, 32768, 65536)
    assert found.skipped == (1,)
    assert (found.updates, found.final_scale) == (4, 65536)


def test_a_started_block_has_a_whole_scale():
    asked = {"block_rows": 128, "block_columns": 128, "bits": 8, "scale_bytes": 4, "inner": 4096}
    assert block_scaled(parameters=16385, **asked).copy_bytes == 16385 + 2 * 4
    assert block_scaled(parameters=16384, **asked).promotions == 32


def test_a_log_and_its_own_runs_agree():
    few, many = (
        LoggedMemory(ranks=n, state=s, peak=p) for n, s, p in ((2, 18 * 2**20, 41062236), (4, 9 * 2**20, 31604081))
    )
    assert logged_state_and_peak("fsdp2-cpu", 4, 2) == state_and_peak(many, few)


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda: residency(stages=(4,)), "JOB001"),
        (lambda: residency(stages=()), "JOB001"),
        (lambda: residency(shards=0), "LAY001"),
        (lambda: residency(recipe=Recipe(optimizer="lion")), "JOB041"),
        (lambda: matrix_state(read_recipe("bf16-lora"), 8, 8), "JOB047"),
        (lambda: matrix_state(Recipe(), 0, 8), "JOB001"),
        (lambda: number_format("fp12"), "MOD024"),
        (lambda: bit_format(1, 3, "infinities"), "MOD025"),
        (lambda: bit_format(4, 0, "one_nan"), "MOD025"),
        (lambda: loss_scale("fp16", 0.0, 1.0), "JOB045"),
        (lambda: dynamic_loss_scale("fp16", 0.0, 2, (1.0,)), "JOB045"),
        (lambda: published_figure("nothing"), "JOB044"),
        (lambda: logged_state_and_peak("fsdp2-cpu", 8, 2), "JOB046"),
        (lambda: logged_state_and_peak("fsdp3", 4, 2), "SYS002"),
        (
            lambda: state_and_peak(LoggedMemory(ranks=1, state=2, peak=1), LoggedMemory(ranks=1, state=1, peak=1)),
            "JOB046",
        ),
    ],
)
def test_faulty_questions_are_coded(ask, code):
    with pytest.raises(UserError) as caught:
        ask()
    assert caught.value.code == code
    assert caught.value.fix
