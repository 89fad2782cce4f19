"""Damaged configs through inspect, fit and plan serve: always an answer or one coded message, never a traceback."""

from __future__ import annotations

import random

import pytest

from tests.ui.fuzz.configs import mutated
from tests.ui.fuzz.judge import complaint
from tests.ui.program import meshwright

_VERBS = (
    ("inspect",),
    ("inspect", "--batch", "64", "--context", "32K"),
    ("fit", "--on", "hgx-h100"),
    ("fit", "--on", "hgx-h100 x4", "--tp", "8", "--pp", "2", "--context", "8K", "--sessions", "16"),
    ("fit", "--on", "l40s-host", "--tp", "2", "--weights", "fp16"),
    ("plan", "serve", "--on", "hgx-h100", "--sessions", "2", "--context", "4K", "--new-tokens", "16"),
    ("plan", "serve", "--on", "rtx4090-host", "--sessions", "3", "--context", "1", "--new-tokens", "1"),
)  # fmt: skip
_CHUNKS, _SIZE = 10, 50


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_a_damaged_config_ends_in_an_answer_or_a_coded_message(chunk, tmp_path):
    run_cases(f"configs {chunk}", _SIZE, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("chunk", range(20))
def test_campaign_of_damaged_configs(chunk, tmp_path, record_property):
    run_cases(f"configs {random.SystemRandom().randrange(2**48)}", 250, tmp_path)
    record_property("cases", 250)


def run_cases(seed, count, folder):
    """`count` configs of one seed. A failure names the seed and the case, and shows the config."""
    dice = random.Random(seed)  # noqa: S311 - test cases, not secrets
    for case in range(count):
        name = dice.choice(("config.json", "config.json", "model.json", "odd name's.json"))
        file = folder / str(case) / name
        file.parent.mkdir()
        file.write_bytes(mutated(dice))
        verb = _VERBS[case % len(_VERBS)]
        cut = 2 if verb[0] == "plan" else 1
        outcome = meshwright(*verb[:cut], str(file), *verb[cut:], "--format", "json")
        found = complaint(outcome)
        assert found is None, (
            f"{found}: seed {seed!r}, case {case}, {verb}\n{file.read_bytes()[:3000]!r}\n{outcome.err}"
        )
