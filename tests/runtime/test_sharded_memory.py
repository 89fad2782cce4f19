"""FSDP2 on one, two and four processes: state halves, the peak falls by less, and the difference is foreseen."""

from __future__ import annotations

from functools import cache

import pytest

from meshwright.job.recipe import read_recipe
from meshwright.layout.layout import Layout
from meshwright.model.reader import read_arithmetic, read_model
from meshwright.verify.run import measure, rows_of
from meshwright.verify.setting import setting_of

WITHIN = 0.05
SAMPLES = 2


@cache
def ran(ranks):
    """The record of the first rank, and its rows; every rank has two samples."""
    layout = Layout(dp_shard=ranks, zero=3 if ranks > 1 else 0, micro_batch=1)
    given = setting_of(read_model("tiny-qwen3"), layout, read_recipe("fp32-adamw"), SAMPLES * ranks, 64, 1, 0)
    record = measure(given, read_arithmetic("tiny-qwen3"), timeout_s=90)[0].record
    return record, rows_of(given, 0, 0, record)


def state(record):
    return record.left["parameters"] + record.held["gradients"] + record.left["optimizer_state"]


def peak(ranks):
    return next(row for row in ran(ranks)[1] if row.quantity == "peak")


@pytest.mark.parametrize("ranks", [2, 4])
def test_resident_state_is_an_equal_share_and_the_counters_of_steps(ranks):
    whole, part = ran(1)[0], ran(ranks)[0]
    counters = 4 * 47
    assert state(part) - counters == (state(whole) - counters) // ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_peak_falls_by_less_than_the_state(ranks):
    fallen = 1 - peak(ranks).measured / peak(1).measured
    assert 0 < fallen < 1 - 1 / ranks
    assert peak(1).measured - peak(ranks).measured < state(ran(1)[0]) - state(ran(ranks)[0])


@pytest.mark.parametrize("ranks", [2, 4])
def test_how_far_the_peak_falls_is_foreseen(ranks):
    measured, predicted = (getattr(peak(1), name) - getattr(peak(ranks), name) for name in ("measured", "predicted"))
    assert predicted == pytest.approx(measured, rel=WITHIN)


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_tape_names_what_takes_the_room(ranks):
    """Whole modules and whole gradients, which one rank alone does not have."""
    assert "comm_buffers" not in ran(1)[0].peak
    assert ran(ranks)[0].peak["comm_buffers"] > 0
