"""Wrong answers of chapter "Training systems" that an easy shortcut gives, and the command does not."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of

NOISE = {"500K": 5e5, "2M": 2e6, "20M": 2e7, "200M": 2e8}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("devices", [48, 96, 768])
def test_twice_the_cards_and_the_batch_are_not_half_the_time(devices, noise):
    """Tokens to the same loss grow with the batch, the less so the larger the noise scale."""
    asked = ("--set", f"devices={devices},{2 * devices}", "--set", f"noise_scale={noise}")
    one, two = answer_of("study", "run", "scaling-table", *asked)["answer"]["rows"]
    assert two["weak_batch_tokens"] == 2 * one["weak_batch_tokens"]
    assert 0.5 * one["weak_s"] < two["weak_s"] < one["weak_s"]
    above = one["weak_batch_tokens"] > NOISE[noise]
    assert (one["weak_s"] / two["weak_s"] < 4 / 3) == above


def test_doubling_the_first_48_cards_is_far_from_half_at_the_chapters_noise_scale():
    one, two = answer_of("study", "run", "scaling-table", "--set", "devices=48,96")["answer"]["rows"]
    assert two["weak_s"] / one["weak_s"] > 0.8


def test_a_restart_goes_on_at_the_trained_position_and_not_behind_the_prefetched_one():
    for assigned in (100, 108, 200):
        line = ("study", "run", "data-position", "--set", f"assigned={assigned}", "--set", "trained=100")
        assert answer_of(*line)["answer"] == {"pending": assigned - 100, "resume_batch": 101}
