"""Wrong answers of chapter "Training systems" that an easy shortcut gives, and the command does not."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of

STEP = (
    "schedule", "--stages", "4", "--micro-batches", "8", "--forward", "10ms", "--backward", "20ms", "--send", "1ms",
    "--update", "1ms",
)  # fmt: skip
SAVES = ("checkpoint", "timeline", "--size", "112GB", "--captures", "20s,40s", "--copy", "0.5s", "--fail", "50s")


def studied(name, *settings):
    return answer_of("study", "run", name, *(word for setting in settings for word in ("--set", setting)))["answer"]


def by_schedule(*more):
    return {row["schedule"]: row for row in answer_of(*STEP, *more)["schedules"]}


# ------------------------------------------------------------------------------ "shorter total service, shorter step"


def test_a_gradient_in_three_buffers_takes_longer_on_the_channel_and_no_longer_holds_the_step():
    """Section 10.3.4: 4.550 ms in one call, 4.590 ms in three; gaps of 2 ms hold each of the three, and not the one."""
    found = studied("gaps")
    whole, split = found["whole"], found["split"]
    assert (round(1e3 * whole["service_s"], 3), round(1e3 * split["service_s"], 3)) == (4.55, 4.59)
    assert (whole["placed"], split["placed"]) == (0, 3)
    assert found["extra_service_s"] > 0
    assert whole["exposed_wait_s"] > 0 == split["exposed_wait_s"]
    assert found["saved_wait_s"] == whole["exposed_wait_s"]


def test_half_the_service_in_one_call_still_waits_where_more_service_in_three_does_not():
    """At 50 GB/s one call of 2.285 ms is half the service of before and does not fit 2 ms either."""
    fast, slow = studied("gaps", "bandwidth_bytes_per_s=50GB/s")["whole"], studied("gaps")["split"]
    assert round(1e3 * fast["service_s"], 3) == 2.285
    assert fast["service_s"] < slow["service_s"]
    assert fast["exposed_wait_s"] > 0 == slow["exposed_wait_s"]


def test_where_the_whole_fits_a_gap_splitting_only_adds_service():
    found = studied("gaps", "gap_s=5ms")
    assert found["whole"]["placed"] == 1
    assert found["extra_service_s"] > 0 == found["saved_wait_s"]


def test_the_bucket_size_with_the_least_service_ends_the_step_last():
    """Fewest starts are one bucket of all layers, which no gradient may leave before the last is there."""
    rows = [row for row in studied("bucket-sizes") if row["order"] == "inputs_first"]
    by_service = sorted(rows, key=lambda row: row["service_s"])
    assert by_service == sorted(rows, key=lambda row: -row["end_s"])
    assert by_service[0]["buckets"] == 1
    assert by_service[0]["exposed_wait_s"] == by_service[0]["service_s"]
    assert by_service[-1]["exposed_wait_s"] < 0.03 * by_service[-1]["service_s"]


def test_an_exchange_and_a_computation_that_slow_each_other_still_end_sooner_than_in_turn():
    """Chapter "Supernodes", experiment 6-5: 17.66 ms of service beside each other, 14.20 ms in turn."""
    found = studied("overlap-pair")
    together = found["communication_together_s"] + found["computation_together_s"]
    assert together > found["sum_alone_s"] > found["finish_s"]


def test_more_messages_do_not_make_a_longer_step_nor_equal_ones_an_equal_step():
    rows = by_schedule()
    assert rows["interleaved"]["messages"] > 2 * rows["one_f_one_b"]["messages"]
    assert rows["interleaved"]["total_s"] < rows["one_f_one_b"]["total_s"]
    assert rows["fill_drain"]["messages"] == rows["one_f_one_b"]["messages"]
    assert rows["fill_drain"]["total_s"] < rows["one_f_one_b"]["total_s"]


# ------------------------------------------------------------------------------------------- "busy time taken as wait"


@pytest.mark.parametrize(
    ("busy", "exposed_ms", "overlapped_ms"), [("0ms", 0, 3), ("2ms", 0, 3), ("4ms", 2, 1), ("6ms", 4, 0)]
)
def test_the_wait_for_a_reduction_is_what_outlasts_the_computation_not_its_3_ms(busy, exposed_ms, overlapped_ms):
    """Section 10.3.3: a window of 5 ms. From 6 ms on the step also waits for the channel: more than the 3 ms."""
    found = studied("bucket", f"busy_s={busy}")
    assert round(1e3 * (found["end_s"] - found["start_s"]), 6) == 3
    assert round(1e3 * found["exposed_wait_s"], 6) == exposed_ms
    assert round(1e3 * found["overlapped_s"], 6) == overlapped_ms


def test_buckets_keep_the_channel_busy_for_half_a_second_and_the_step_waits_14_ms():
    one_layer = studied("bucket-sizes")[0]
    assert (one_layer["order"], one_layer["layers_per_bucket"]) == ("inputs_first", 1)
    assert round(1e3 * one_layer["service_s"], 1) == 504.2
    assert round(1e3 * one_layer["exposed_wait_s"], 1) == 14.0
    assert one_layer["exposed_wait_s"] == pytest.approx(one_layer["end_s"] - one_layer["backward_s"])


def test_one_f_one_b_and_fill_and_drain_send_equally_long_and_wait_16_and_6_ms_for_it():
    """24 activations and as many gradients of 1 ms: 48 ms of the wires, none of which is a rank's wait."""
    rows = by_schedule()
    for name, wait_ms in (("fill_drain", 6), ("one_f_one_b", 16)):
        row = rows[name]
        assert 2 * row["messages"] == 48
        assert round(1e3 * row["transfer_wait_s"], 6) == wait_ms
        assert row["gradients_s"] == pytest.approx(row["compute_s"] + row["transfer_wait_s"])


def test_a_rank_idles_for_its_own_work_less_than_the_step_whatever_its_wires_carry():
    """Eight micro-batches of 30 ms are 240 ms of each rank; the update is neither work nor wait.

    The wires of the ranks in the middle carry twice those of the ends, and all ranks idle equally.
    """
    for row in by_schedule().values():
        assert row["idle_s"] == pytest.approx([row["gradients_s"] - 0.240] * 4)
        assert row["gradients_s"] == pytest.approx(row["total_s"] - 0.001)


def test_an_exchange_that_runs_2_3_times_as_long_beside_a_computation_costs_the_step_50_us():
    """Chapter "Supernodes", experiment 6-5: 6.14 ms of exchange, and 0.05 ms more than the computation alone."""
    found = studied("overlap-pair")
    assert found["communication_together_s"] == pytest.approx(0.00614)
    assert found["finish_s"] - found["computation_alone_s"] == pytest.approx(0.00005)
    assert found["interference_s"] == pytest.approx(0.00005)


@pytest.mark.parametrize(
    ("write", "write_s", "committed_s", "rework_s"),
    [("7GB/s", 16, [36.5, 56.5], 30), ("20GB/s", 5.6, [26.1, 46.1], 10)],
)
def test_an_upload_of_any_length_stops_training_for_its_copy_only(write, write_s, committed_s, rework_s):
    """Section 10.4.2: 1 s for two saves at either rate, though the writer is busy for 32 or 11.2 s."""
    found = answer_of(*SAVES, "--write", write)
    assert found["write_s"] == pytest.approx(write_s)
    assert found["stall_s"] == pytest.approx(1.0)
    assert [item["committed_s"] for item in found["saves"]] == pytest.approx(committed_s)
    assert found["failure"]["rework_s"] == pytest.approx(rework_s)


def test_an_upload_on_the_storage_of_the_input_takes_75_s_and_costs_the_step_11():
    found = studied("save-and-input")
    assert round(found["upload_s"], 2) == 74.67
    assert round(found["wait_s"], 2) == 11.33
