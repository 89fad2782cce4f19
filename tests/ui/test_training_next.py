"""What a training plan says to type next is the same question: nothing that was stated is lost or undone."""

from __future__ import annotations

import shlex

import pytest

from tests.ui.program import answer_of

_PLAN = ("plan", "train", "Qwen/Qwen3-8B", "--tokens", "100B", "--sequence", "8K", "--global-batch", "384")
_QUICK = ("--flips", "none", "--runs", "0", "--finalists", "0", "--layout", "tp=1,pp=1,recompute=none")


def test_the_interval_to_ask_for_is_of_the_saves_and_failures_that_the_plan_stated():
    stated = ("--card-mtbf", "300d", "--common-mode-mtbf", "20d,30d", "--checkpoint-copy", "2s")
    answer = answer_of(*_PLAN, "--on", "hgx-h100 x4", *_QUICK, *stated, "--storage-write", "7GB/s")
    best = answer["overheads"]["best_retry"]
    interval = answer_of(*shlex.split(answer["next_commands"][0])[1:], "--runs", "0")
    assert interval["retry"]["interval_s"] == pytest.approx(best["interval_s"], rel=1e-9)


def test_a_late_plan_on_boxes_that_were_set_asks_for_more_of_them():
    late = ("--on", "hgx-h100", "--set", "system.nodes=4", "--deadline", "1d", "--efficiency", "40%")
    (command,) = answer_of(*_PLAN, *late, *_QUICK, code=1)["next_commands"]
    assert command.count("system.nodes=") == 1
    more = answer_of(*shlex.split(command)[1:])
    assert more["verdict"]["answer"] == "yes"
    assert more["systems"][0]["nodes"] > 4


def test_padding_is_told_again():
    answer = answer_of(*_PLAN, "--on", "hgx-h100 x4", *_QUICK, "--padding", "5%")
    again = answer_of(*shlex.split(answer["next_commands"][-1])[1:])
    assert again["inputs"]["job"] == answer["inputs"]["job"]
    assert again["best"] == answer["best"]
