"""The pages of worked studies: every number in their prose stands in an output that they quote."""

from __future__ import annotations

import re

import pytest

from meshwright.sweep.study import read_study, run_study
from tests.ui.program import ROOT
from tests.ui.quoted import commands

_STUDY = "supernode-choice"
_NUMBERS = {"supernode-choice": 30, "scaling": 15, "scale-sweep": 8, "rtx4090-training": 30}
"""The studies that have a page, and how many numbers its prose holds at least."""
_NUMBER = re.compile(r"\d+\.\d+(?: (?:ms|us|GB|kJ|d|h)\b)?|\d+ (?:ms|us|GB|kJ|d|h)\b")


def page(study):
    return (ROOT / "docs" / f"study-{study}.md").read_text(encoding="utf-8")


def prose(study):
    """The page without its blocks of code, its code spans, its links and the places of the chapter that it names."""
    text = re.sub(r"^```.*?^```$|^    [^\n]*$|`[^`]*`|\]\([^)]*\)", "", page(study), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?:section|equation|figure|experiment)s? [\d.-]+\d", "", " ".join(text.split()))


@pytest.mark.parametrize("study", _NUMBERS)
def test_every_number_of_the_prose_stands_in_a_quoted_output(study):
    quoted = " ".join("\n".join(item.output or "" for item in commands(page(study))).split())
    numbers = _NUMBER.findall(prose(study))
    assert len(numbers) > _NUMBERS[study]
    assert [number for number in numbers if number not in quoted] == []


@pytest.mark.parametrize("study", _NUMBERS)
def test_every_step_of_the_study_is_quoted(study):
    lines = [item.arguments for item in commands(page(study)) if "--step" in item.arguments]
    assert {line[line.index("--step") + 1] for line in lines} == {step.name for step in read_study(study).steps}


def test_the_speed_up_of_the_throughput_is_that_of_the_scaling_table():
    answers = run_study(_STUDY, {}, ("scaling",)).body["answer"]["scaling"]
    step = {row["tp"]: row["step_s"] for row in answers}
    stated = next(item for item in read_study(_STUDY).steps if item.name == "throughput").inputs["speed_up"]
    assert stated == pytest.approx(step[1] / step[8], abs=0.005)
