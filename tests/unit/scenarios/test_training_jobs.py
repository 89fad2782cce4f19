"""Budgets, casts, loss scales and log lines: chapter "Training systems", and the questions that users asked."""

from __future__ import annotations

import pytest

from meshwright.base.errors import JobError
from meshwright.model.reader import read_model
from meshwright.scenarios.cast_placement import cast_placement
from meshwright.scenarios.loss_scale import Answers, loss_scale, micro_batches
from meshwright.scenarios.mfu import mfu_of_rate, mfu_of_tokens, published_mfu, published_run
from meshwright.scenarios.training_budget import training_budget
from meshwright.system.system import read_system

QWEN3_8B = read_model("Qwen/Qwen3-8B")
DAY = 86400.0
GROUPS = {
    "short": Answers(count=4, length=2, token_gradient=0.2),
    "long": Answers(count=4, length=3, token_gradient=0.4),
}


def budget(**changes):
    """The chapter's job on 48 RTX 4090."""
    asked = {
        "model": QWEN3_8B, "tokens": 10**11, "sequences": 384, "sequence": 8192, "padding": 0.0,
        "deadline_s": 30 * DAY, "reserve_s": 5 * DAY, "system": read_system("rtx4090-host"), "number_format": "bf16",
        "efficiency": 0.4, "efficiency_kind": "compute", "devices": 48, "state_bytes": 131_100_000_000,
    }  # fmt: skip
    return training_budget(**asked | changes)


def test_48_cards_keep_the_step_budget_and_32_do_not():
    """Section 10.1.3: 67.946 s a step; 52.224 s on 48 cards and 78.336 s on 32."""
    enough, few = budget(), budget(devices=32)
    assert enough.step_budget_s == pytest.approx(67.946, abs=5e-4)
    assert (enough.step_compute_s, few.step_compute_s) == pytest.approx((52.224, 78.336), abs=5e-4)
    assert (enough.in_time, few.in_time) == (True, False)
    assert few.left_s < 0 < enough.left_s


@pytest.mark.parametrize(
    ("system", "fewest"),
    [
        ("rtx4090-host", (41, 31, 25)),
        ("hgx-a100", (22, 17, 14)),
        ("hgx-h100", (7, 6, 5)),
        ("hgx-b200", (4, 3, 2)),
    ],
)
def test_fewest_cards_in_30_days_at_30_40_and_50_percent(system, fewest):
    """Section 10.1.3, figures 10-3 to 10-5, with 2250 TFLOP/s for B200."""
    found = [
        budget(system=read_system(system), efficiency=share, reserve_s=0.0).devices_by_compute
        for share in (0.3, 0.4, 0.5)
    ]
    assert tuple(found) == fewest


def test_capacity_binds_where_computing_is_quick():
    found = budget(deadline_s=3000 * DAY)
    assert (found.devices_by_compute, found.devices_by_capacity, found.binds) == (1, 6, "capacity")
    assert (found.fewest_devices, found.fewest_hosts) == (6, 1)


def test_padding_is_executed_and_is_no_progress():
    plain, padded = budget(), budget(padding=0.25)
    assert padded.executed_tokens_per_step == plain.tokens_per_step == 3_145_728
    assert padded.tokens_per_step == 2_359_296
    assert padded.steps == 42_386
    assert padded.step_compute_s == plain.step_compute_s
    assert padded.job_flops == pytest.approx(plain.job_flops / 0.75)
    assert padded.tokens_per_s == pytest.approx(plain.tokens_per_s * 0.75)


def test_the_last_step_holds_the_remainder():
    found = budget()
    assert (found.steps - 1) * found.tokens_per_step + found.last_step_tokens == 10**11
    assert budget(tokens=3_145_728).last_step_tokens == 3_145_728


def test_an_mfu_leaves_no_communication_to_add():
    assert "already" in budget(efficiency_kind="model-flops").still_to_add[0]
    assert "exposed communication" in budget().still_to_add[0]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"reserve_s": 30 * DAY}, "JOB065"),
        ({"efficiency": 0.0}, "JOB065"),
        ({"padding": 1.0}, "JOB065"),
        ({"padding": 0.9999999}, "JOB065"),
        ({"number_format": "fp4"}, "JOB064"),
        ({"devices": 0}, "JOB001"),
        ({"tokens": 0}, "JOB001"),
    ],
)
def test_a_job_that_cannot_be_is_refused_with_a_fix(changes, code):
    with pytest.raises(JobError, match=code) as caught:
        budget(**changes)
    assert caught.value.fix


def test_a_slow_link_casts_on_the_host_and_a_fast_one_on_the_device():
    """Section 10.2.3: PCIe 4.0 x16 and NVLink-C2C."""
    slow, fast = (cast_placement(12288, 4096, 2, 4, rate, 307.2e9, 1008e9) for rate in (32e9, 450e9))
    assert (slow.cast_on, fast.cast_on) == ("host", "device")
    assert slow.break_even_bytes_per_s == fast.break_even_bytes_per_s == pytest.approx(147.29e9, rel=1e-4)
    assert cast_placement(8, 8, 2, 4, 32e9, 500e9, 400e9).break_even_bytes_per_s is None
    with pytest.raises(JobError, match="JOB062"):
        cast_placement(8, 8, 4, 2, 32e9, 500e9, 400e9)


def test_the_token_mean_is_the_answer_and_the_other_ways_are_refused():
    """Section 10.3.1."""
    found = loss_scale(GROUPS, ranks=8)
    assert found.gradient == pytest.approx(0.32)
    assert [item.gradient for item in found.refused] == pytest.approx([0.30, 0.04, 0.04])
    assert found.rank_sum_scale * sum(part.gradient_sum for part in found.groups.values()) / 8 == pytest.approx(0.32)


def test_equal_lengths_make_the_mean_of_means_right():
    even = {name: Answers(count=3, length=5, token_gradient=group.token_gradient) for name, group in GROUPS.items()}
    found = loss_scale(even, ranks=1)
    assert found.gradient == pytest.approx(found.refused[0].gradient) == pytest.approx(found.refused[2].gradient)


def test_a_step_that_does_not_divide_is_refused_with_the_nearest_that_does():
    assert (micro_batches(384, 32, 1).micro_batches, micro_batches(384, 48, 1).micro_batches) == (12, 8)
    with pytest.raises(JobError, match="JOB061") as caught:
        micro_batches(384, 47, 1)
    assert caught.value.fix == "give sequences=376, or sequences=423, or ranks=48"
    assert micro_batches(376, 47, 1).micro_batches == 8


def test_a_log_line_that_divides_by_the_sparse_peak_is_told_so():
    """NVIDIA/Megatron-LM issues 1565 and 1276: 420 TFLOP/s on an H100 are 42.45 %, and 21.2 % of 1,979."""
    found = mfu_of_rate(420e12, read_system("hgx-h100"), "bf16", 0.212)
    assert (found.claim, found.mfu) == ("sparse peak", pytest.approx(0.4245, abs=5e-4))
    assert "refused" in found.verdict
    assert mfu_of_rate(480e12, read_system("hgx-h100"), "bf16", 0.485).claim == "dense peak"
    assert mfu_of_rate(480e12, read_system("hgx-h100"), "bf16", 0.30).claim == "neither peak"
    assert mfu_of_rate(480e12, read_system("hgx-h100"), "bf16", 0.0).claim == "none"


def test_a_log_line_of_torchtitan_is_reproduced():
    """pytorch/torchtitan issue 1884: Llama 3 8B at 8192, 5,615 tokens/s a device, 325.2 TFLOP/s, 32.88 %."""
    llama = read_model("meta-llama/Meta-Llama-3-8B")
    found = mfu_of_tokens(llama, 8192, "torchtitan", 4 * 5615.0, 4, read_system("hgx-h100"), "bf16", 0.3288)
    assert found.rate_flops_per_s == pytest.approx(325.2e12, rel=1e-3)
    assert (found.claim, found.mfu) == ("dense peak", pytest.approx(0.3288, abs=5e-4))


def test_published_utilisations_name_their_runs():
    found = published_mfu("llama-3-405b")
    assert (found.lowest, found.highest) == (0.38, 0.43)
    assert published_run("llama-3-405b", 16384, 8192).mfu == 0.41
    with pytest.raises(JobError, match="JOB066"):
        published_run("llama-3-405b", 16384, 4096)
    with pytest.raises(JobError, match="JOB063"):
        published_mfu("llama-9")
