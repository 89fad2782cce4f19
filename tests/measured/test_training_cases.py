"""Questions of practitioners about training: each is answered by the command line, or listed with the reason."""

from __future__ import annotations

import math

import pytest

from tests.measured.ask import GIB, table
from tests.measured.training_cases import CASES, asked, checks, stated
from tests.measured.training_report import PAGE, page

_CASES = table(CASES)
_LATER = {"c12", "c14", "c15", "c16", "c17", "c23"}
"""Serving that needs calibration, and latent attention."""


@pytest.mark.parametrize(("name", "index", "check"), checks(), ids=[f"{name}-{index}" for name, index, _ in checks()])
def test_the_command_gives_what_the_case_states(name, index, check):
    found, told = asked(check), f"{name} {index}: {_CASES[name]['question']}"
    expected = stated(check)
    if expected is None:
        assert check.get("above", -math.inf) < found < check.get("below", math.inf), told
    elif isinstance(expected, float | int) and not isinstance(expected, bool):
        assert found == pytest.approx(expected, rel=check.get("rel_tol", 0), abs=check.get("abs_tol", 0)), told
    else:
        assert found == expected, told


def test_every_check_states_a_value_or_a_side():
    for name, index, check in checks():
        sides = sum(word in check for word in ("expected", "expected_gib", "below", "above"))
        assert sides == 1, f"{name} {index}"


def test_every_case_is_held_or_says_why_not():
    for name, case in _CASES.items():
        assert case["source"], name
        assert bool(case.get("checks")) == (case["status"] != "waiting"), name
        assert ("not_held" in case) == (case["status"] == "in_part"), name
        assert ("reason" in case) == (case["status"] == "waiting"), name


def test_four_of_five_cases_from_threads_are_held():
    asked_now = [
        case for name, case in _CASES.items() if case["confidence"].startswith("thread") and name not in _LATER
    ]
    held = [case for case in asked_now if case["status"] == "held"]
    assert (len(held), len(asked_now)) == (12, 14)


def test_with_stored_logits_the_case_in_part_is_answered_otherwise():
    check = _CASES["a03"]["checks"][3]
    changed = check | {"command": check["command"].replace("--loss fused", "--loss materialised"), "code": 1}
    assert asked(check) is True
    assert asked(changed) is False


def test_three_micro_batches_would_fit_where_the_thread_ran_out():
    check = next(item for item in _CASES["a01"]["checks"] if item["value"] == "fits 80 GB")
    three = check | {"command": check["command"].replace("--global-batch 64", "--global-batch 48"), "code": 0}
    assert asked(check) is False
    assert asked(three) is True


def test_adamw_with_moments_of_two_bytes_would_not_pass():
    check = _CASES["a04"]["checks"][0]
    half = check | {"command": check["command"] + " --set recipe.optimizer=adamw_bf16"}
    assert abs(asked(half) / (check["expected_gib"] * GIB) - 1) > check["rel_tol"]


def test_the_page_is_what_the_command_writes():
    assert PAGE.read_text(encoding="utf-8") == page()
