"""Mistyped command lines: always an answer or one coded message, never a traceback."""

from __future__ import annotations

import random

import pytest

from tests.ui.fuzz.judge import complaint
from tests.ui.fuzz.lines import mutated
from tests.ui.program import meshwright

_CHUNKS, _SIZE = 6, 50


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_a_mistyped_line_ends_in_an_answer_or_a_coded_message(chunk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_lines(f"lines {chunk}", _SIZE, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("chunk", range(10))
def test_campaign_of_mistyped_lines(chunk, tmp_path, monkeypatch, record_property):
    monkeypatch.chdir(tmp_path)
    run_lines(f"lines {random.SystemRandom().randrange(2**48)}", 150, tmp_path)
    record_property("cases", 150)


def run_lines(seed, count, folder):
    """`count` lines of one seed. A failure names the seed and the case, and shows the line."""
    dice = random.Random(seed)  # noqa: S311 - test cases, not secrets
    for case in range(count):
        line = mutated(dice, folder)
        style = "human" if dice.random() < 0.1 else "json"
        outcome = meshwright(*line, "--format", style)
        found = complaint(outcome, as_json=style == "json" and (outcome.code == 2 or not _answers_otherwise(line)))
        assert found is None, f"{found}: seed {seed!r}, case {case}\n{line!r}\n{outcome.err}"


def _answers_otherwise(line):
    """Whether a line, when it is right, prints something else than one JSON document: help, or nothing but a file."""
    return bool({"-h", "--help", "--version", "-o", "--output"} & set(line)) or len(line) < 2
