"""Questions of practitioners about pipeline schedules: each is answered by `schedule`, or listed with the reason."""

from __future__ import annotations

import math

import pytest

from tests.measured.ask import table
from tests.measured.schedule_cases import asked, checks

_CASES = table("schedule-cases")


@pytest.mark.parametrize(("name", "index", "check"), checks(), ids=[f"{name}-{index}" for name, index, _ in checks()])
def test_schedule_gives_what_the_case_states(name, index, check):
    found, told = asked(check), f"{name} {index}: {_CASES[name]['question']}"
    if "expected" in check:
        assert found == pytest.approx(check["expected"], rel=check.get("rel_tol", 0), abs=0), told
    else:
        assert check.get("above", -math.inf) < found < check.get("below", math.inf), told


def test_every_check_states_a_value_or_a_side():
    for name, index, check in checks():
        assert ("expected" in check) + ("above" in check) + ("below" in check) == 1, f"{name} {index}"


def test_every_case_is_asked_or_says_why_not():
    assert sorted(_CASES) == ["e01", "e06"]
    for name, case in _CASES.items():
        assert case["source"], name
        assert case.get("checks") or case.get("not_asked"), name


def test_more_virtual_stages_of_another_number_would_not_pass():
    check = _CASES["e01"]["checks"][2]
    assert abs(asked(check | {"over": {"virtual_stages": 4}}) / check["expected"] - 1) > check["rel_tol"]


def test_the_stated_bubble_is_also_how_long_each_rank_of_the_simulated_step_waits():
    check = _CASES["e06"]["checks"][0]
    idle = [asked(check | {"path": f"schedules[0].idle_s[{rank}]"}) for rank in range(8)]
    assert idle == pytest.approx([check["expected"]] * 8)
