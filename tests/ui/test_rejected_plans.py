"""Wrong answers of chapter "Training systems" that an easy shortcut gives, and `plan train` does not."""

from __future__ import annotations

import pytest

from tests.ui.program import drawn, meshwright

CHAPTER = (
    "plan", "train", "Qwen/Qwen3-8B", "--tokens", "100B", "--sequence", "8192", "--global-batch", "384", "--deadline",
    "30d", "--reserve", "5d", "--usable-memory", "22GiB", "--activation-budget", "10GiB", "--card-mtbf", "337.07d",
    "--storage-write", "7GB/s", "--on", "rtx4090-host x6", "--layout", "dp_shard=48,zero=3,micro_batch=1", "--runs",
    "200",
)  # fmt: skip
FLAT = ("--efficiency", "40%")


def planned(*more, code=0):
    found = drawn(*CHAPTER, *(more if "--efficiency" in more else (*FLAT, *more)), form=("-q", "--format", "json"))
    assert found.code == code, found.err
    return found.answer


# -------------- "the save call returned, so the state is safe"


def test_a_save_that_returns_at_once_still_loses_what_was_not_yet_written():
    """Beside training a save stalls 0 s; until it counts, a failure goes back to the one before."""
    often = ("--card-mtbf", "2d", "--checkpoint-interval", "60s")
    blocking, beside = planned(*often, code=1)["overheads"], planned(*often, "--checkpoint-copy", "0s")["overheads"]
    assert beside["save_fraction"] == 0 < blocking["save_fraction"]
    assert beside["recovery_fraction"] == blocking["recovery_fraction"]
    late = 114_670_295_040 / 7e9 * 48 / (2 * 86_400)
    assert beside["rework_fraction"] - blocking["rework_fraction"] == pytest.approx(late)
    each = [found["drawn"]["redone_s"] / found["drawn"]["failures"] for found in (blocking, beside)]
    assert each[1] > 1.1 * each[0], "a failure loses more, drawn too"


def test_an_interval_that_the_writer_does_not_keep_up_with_is_refused():
    found = meshwright(*CHAPTER, *FLAT, "--checkpoint-copy", "0s", "--checkpoint-interval", "10s")
    assert found.code == 2
    assert found.err.startswith("error[JOB023]")
    assert "--checkpoint-interval 16.3815s or more" in found.err


# -------------------------------------------------------------------------------------- "twice the cards and batch"


def test_twice_the_cards_and_the_batch_are_not_half_the_time_of_a_plan():
    """Section 10.1.1: at a noise scale of 2M tokens 81 % of the days, and never below the limit of all scaling."""
    found = planned("--noise-scale", "2M")["scaling"]
    one, two, *_ = found["table"]["rows"]
    assert two["weak_batch_tokens"] == 2 * one["weak_batch_tokens"]
    assert two["weak_s"] / one["weak_s"] == pytest.approx(0.8057, abs=1e-3)
    assert two["strong_s"] / one["strong_s"] > 0.5, "what is waited for does not shrink"
    limit = one["weak_s"] / found["batch"]["speed_up_limit"]
    assert all(row["weak_s"] > limit for row in found["table"]["rows"])


# ---------------------------------------------------------------------------------------------- "padding as progress"


def test_padded_positions_cost_a_step_and_bring_the_date_no_nearer():
    plain, padded = planned(), planned("--padding", "12%")
    assert padded["executed_step_tokens"] == plain["executed_step_tokens"]
    assert padded["best"]["step"] == plain["best"]["step"]
    assert padded["steps"] == -(-(10**11) // int(0.88 * 3_145_728))
    assert padded["best"]["useful_s"] / plain["best"]["useful_s"] == pytest.approx(padded["steps"] / plain["steps"])
    assert padded["best"]["mfu"] < plain["best"]["mfu"]
    assert padded["best"]["hfu"] == plain["best"]["hfu"]


# -------------------------------------------------------- "communication added to an efficiency that already holds it"


def test_a_flat_rate_of_model_flops_holds_the_update_and_what_is_computed_again():
    """Only what the chapter adds on purpose is added: exposed communication, bubble and waits."""
    full = "dp_shard=48,zero=3,micro_batch=1,recompute=full"
    flat = planned("--layout", full)["best"]["step"]
    assert flat["update_s"] == 0
    assert flat["compute_s"] == planned()["best"]["step"]["compute_s"]
    charged = planned("--layout", full, "--efficiency", "40%", "--efficiency-kind", "compute", code=1)["best"]["step"]
    assert charged["update_s"] > 0
    assert charged["compute_s"] > 1.2 * flat["compute_s"]
    parts = sum(value for name, value in charged.items() if name != "total_s")
    assert parts == pytest.approx(charged["total_s"])


def test_a_busy_channel_is_not_a_wait():
    """Section 10.3.3: 12 s of transfers a step, of which 0.08 s are waited for."""
    found = planned()["best"]
    assert found["channel_s"] > 12
    assert round(found["step"]["exposed_comm_s"], 2) == 0.08


# ------------ flags, as one types them


def test_every_assumption_of_overheads_is_a_flag_and_stands_in_the_inputs():
    typed = {
        "--common-mode-mtbf": ("60d,90d", "common_mode_mtbf", [5_184_000.0, 7_776_000.0]),
        "--checkpoint-copy": ("2s", "checkpoint_copy", 2.0),
        "--slow-sigmas": ("2.5", "slow_sigmas", 2.5),
        "--slow-steps": ("7", "slow_steps", 7),
        "--host-memory": ("512GiB", "host_memory", 2**39),
        "--host-bandwidth": ("300GB/s", "host_bandwidth", 3e11),
        "--host-link": ("30GB/s", "host_link", 3e10),
        "--price": ("0.5", "price", 0.5),
        "--seed": ("3", "seed", 3),
    }
    found = planned(*(word for flag, (text, _, _) in typed.items() for word in (flag, text)))
    for _, name, value in typed.values():
        assert found["inputs"]["options"][name] == value
    assert found["inputs"]["system"]["host"]["link_bandwidth"] == 3e10
    assert found["overheads"]["drawn"]["seed"] == 3
    assert found["best"]["cost"] == pytest.approx(0.5 * found["best"]["gpu_hours_with_stops"])


def test_an_offload_that_is_asked_for_says_where_gradients_are_cast_and_what_is_waited_for():
    """Section 10.2.3: eight cards share the host's 307.2 GB/s, so each casts its own."""
    found = planned("--layout", "dp_shard=48,zero=3,micro_batch=1,offload=optimizer")
    told = found["offload"]
    assert told["cast_on"] == "device"
    assert told["link_bytes_per_s"] == 32e9
    assert told["host_bytes_per_s"] == 307.2e9 / 8
    assert told["wait_s"] == found["best"]["step"]["offload_wait_s"] > 0
    assert told["host_capacity_bytes"] is None
    assert planned()["offload"] is None
