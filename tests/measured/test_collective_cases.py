"""Questions of practitioners about collectives: each is answered by the command line, or listed with the reason."""

from __future__ import annotations

import math

import pytest

from tests.measured.ask import table
from tests.measured.collective_cases import CASES, PAGE, asked, checks, page

_CASES = table(CASES)


@pytest.mark.parametrize(("name", "index", "check"), checks(), ids=[f"{name}-{index}" for name, index, _ in checks()])
def test_the_command_gives_what_the_case_states(name, index, check):
    found, told = asked(name, check), f"{name} {index}: {_CASES[name]['question']}"
    if "expected" not in check:
        assert check["above"] <= found <= check["below"], told
    elif isinstance(check["expected"], float):
        assert found == pytest.approx(check["expected"], rel=check["rel_tol"]), told
    else:
        assert found == check["expected"], told


def test_every_check_states_a_value_or_two_sides():
    for name, index, check in checks():
        assert ("expected" in check) != ("above" in check and "below" in check), f"{name} {index}"


def test_every_case_is_held_or_says_why_not():
    assert len(_CASES) == 9
    for name, case in _CASES.items():
        assert case["source"], name
        assert bool(case.get("checks")) == (case["status"] != "waiting"), name
        assert ("not_held" in case) == (case["status"] == "in_part"), name


def test_all_but_one_case_of_threads_are_held():
    threads = [case for case in _CASES.values() if case["confidence"].startswith("thread")]
    assert (sum(case["status"] == "held" for case in threads), len(threads)) == (7, 8)


def test_what_the_case_in_part_leaves_open_is_inside_the_interval():
    check = next(item for item in _CASES["d01"]["checks"] if item["value"] == "a ring")
    of_h100 = check | {"command": check["command"].replace("hgx-h200", "hgx-h100")}
    low, high = (asked("d01", of_h100 | {"path": f"rows[0].{side}_bytes_per_s"}) for side in ("low", "high"))
    assert low < 368e9 < high
    assert not math.isclose(asked("d01", of_h100), 368e9, rel_tol=0.04)


def test_the_page_is_what_the_command_writes():
    assert PAGE.read_text(encoding="utf-8") == page()
