"""The page of the worked study: every number in its prose stands in an output that it quotes."""

from __future__ import annotations

import re

import pytest

from meshwright.sweep.study import read_study, run_study
from tests.ui.program import ROOT
from tests.ui.quoted import commands

_PAGE = (ROOT / "docs" / "study-supernode-choice.md").read_text(encoding="utf-8")
_STUDY = "supernode-choice"
_NUMBER = re.compile(r"\d+\.\d+(?: (?:ms|us|GB|kJ))?|\d+ (?:ms|us|GB|kJ)")


def prose():
    """The page without its blocks of code, its code spans, its links and the places of the chapter that it names."""
    text = re.sub(r"^```.*?^```$|^    [^\n]*$|`[^`]*`|\]\([^)]*\)", "", _PAGE, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?:section|equation|figure|experiment)s? [\d.-]+\d", "", " ".join(text.split()))


def test_every_number_of_the_prose_stands_in_a_quoted_output():
    quoted = " ".join("\n".join(item.output or "" for item in commands(_PAGE)).split())
    numbers = _NUMBER.findall(prose())
    assert len(numbers) > 30
    assert [number for number in numbers if number not in quoted] == []


def test_every_step_of_the_study_is_quoted():
    named = {item.arguments[item.arguments.index("--step") + 1] for item in commands(_PAGE)}
    assert named == {step.name for step in read_study(_STUDY).steps}


def test_the_speed_up_of_the_throughput_is_that_of_the_scaling_table():
    answers = run_study(_STUDY, {}, ("scaling",)).body["answer"]["scaling"]
    step = {row["tp"]: row["step_s"] for row in answers}
    stated = next(item for item in read_study(_STUDY).steps if item.name == "throughput").inputs["speed_up"]
    assert stated == pytest.approx(step[1] / step[8], abs=0.005)
