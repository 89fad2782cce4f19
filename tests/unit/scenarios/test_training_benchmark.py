"""The measurement behind docs/benchmarks.md runs on the search as it is."""

from __future__ import annotations

from benchmarks.training import measure


def test_the_search_of_training_can_be_timed():
    found = measure(("tiny-qwen3", "hgx-h100", 8, 512), 1)
    assert found.seen.complete
    assert found.rows > 0
    assert found.per_s > 0
