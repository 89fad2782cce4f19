"""Questions of practitioners about fitting and degrees: each is answered by `fit`, or listed with the reason."""

from __future__ import annotations

import pytest

from tests.measured.ask import checked, family_of, table

_CASES = table("cases")
_CHECKS = [(name, index, check) for name, case in _CASES.items() for index, check in enumerate(case.get("checks", ()))]
_ANSWERED = [item for item in _CHECKS if family_of(item[2]["model"]) is None]
"""Those whose family is read: a check joins when its family does; until then docs/kv-truth.md names the family."""


@pytest.mark.parametrize(("name", "index", "check"), _ANSWERED, ids=[f"{name}-{index}" for name, index, _ in _ANSWERED])
def test_fit_gives_what_the_case_states(name, index, check):
    found, stated = checked(check)
    if "rel_tol" in check or "abs_tol" in check:
        stated = pytest.approx(stated, rel=check.get("rel_tol", 0), abs=check.get("abs_tol", 0))
    assert found == stated, f"{name} {index}: {_CASES[name]['question']}"


def test_every_case_is_asked_or_says_why_not():
    assert len(_CASES) == 24
    for name, case in _CASES.items():
        assert case["source"], name
        asked = [check for check in case.get("checks", ()) if "says" not in check]
        assert case.get("checks") or case.get("reason"), name
        assert not (asked and case.get("reason")), name


def test_the_cases_of_families_that_are_read_are_answered():
    assert {"b01", "b02", "b03", "b07", "b17", "b18", "k23"} <= {name for name, _, _ in _ANSWERED}


def test_a_wrong_list_of_degrees_would_not_pass():
    found, stated = checked(table("cases")["b03"]["checks"][0] | {"not_refused_by": "LAY003"})
    assert found == [1, 2, 4, 7, 14, 28] != stated
