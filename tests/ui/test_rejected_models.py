"""Wrong answers about models and their experts that an easy shortcut gives, and the command does not."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of

_ON = ("Qwen/Qwen3-30B-A3B", "--on", "hgx-h100", "--tokens", "512", "--ep", "8")
_ONE = ("--on", "hgx-h100", "--sessions", "1", "--context", "32K", "--new-tokens", "64", "--flips", "none")


def test_combine_is_a_return_of_rows_and_no_all_reduce():
    """Rejected answer 6 of chapter "Supernodes": as many rows come back as went out; nothing is summed over ranks."""
    found = answer_of("experts", *_ON)
    exchange = {way["id"]: way for way in found["exchange"]}
    assert (found["merges"], found["merge_bytes"]) == ([], 0)
    assert (
        exchange["none"]["combine_bytes"]
        == exchange["none"]["dispatch_bytes"]
        == 4096 * exchange["none"]["dispatch_rows"]
    )
    elsewhere = found["choices"] * 7 / 8
    assert exchange["none"]["dispatch_rows"] == pytest.approx(elsewhere, rel=0.01)
    whole = answer_of("experts", *_ON, "--attention", "replicated")  # there, and only there, sums are an all_reduce
    assert (whole["exchange"], len(whole["merges"])) == ([], 1)


@pytest.mark.parametrize("model", ["Qwen/Qwen3-32B", "Qwen/Qwen3-Next-80B-A3B-Instruct"])
def test_stages_shorten_no_lone_session(model):
    """Rejected answer 15: tokens of one session come one after the other, so that no stage works beside another."""
    plan = answer_of("plan", "serve", model, *_ONE, "--layout", "tp=2")
    times = {item["layout"]["pp"]: item["step_time_s"] for item in plan["candidates"] if item["layout"]["ep"] == 1}
    assert {1, 2, 4} <= set(times)
    assert times[1] < times[2] < times[4]
