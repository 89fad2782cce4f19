"""Loss, gradient norm and every weight behind three updates are those of one process, however the model is laid out."""

from __future__ import annotations

from itertools import groupby
from math import isfinite

import pytest

from meshwright.layout.layout import Layout
from meshwright.verify.parity_grid import Choice, axes_of, covering, values_of
from meshwright.workload.recomputing import RECOMPUTE
from meshwright.workload.slots import SCHEDULES
from tests.runtime.cases import TOLERANCE, case_of, choices, parity_of
from tests.runtime.ranks import run_ranks

AT_ONCE = 8
SAMPLE = covering(choices(), axes_of)


def starts(sample):
    """Cases of one world size, a few in one start of its ranks."""
    found = []
    for size, group in groupby(sorted(sample, key=lambda item: item.layout.world_size), lambda i: i.layout.world_size):
        cases = list(group)
        found += [(size, cases[place : place + AT_ONCE]) for place in range(0, len(cases), AT_ONCE)]
    return found


def check(size, cases, folder, record_property):
    record_property("cases", len(cases))
    by_rank = run_ranks(size, parity_of, ([case_of(item) for item in cases], str(folder)))
    wrong = {
        cases[place].id: item
        for found in by_rank
        for place, item in enumerate(found)
        if not (isfinite(item.worst) and item.worst <= TOLERANCE)
    }
    assert not wrong


@pytest.mark.parametrize(
    ("size", "cases"), starts(SAMPLE), ids=[f"{size}-ranks-{place}" for place, (size, _) in enumerate(starts(SAMPLE))]
)
def test_a_layout_trains_as_one_process_does(size, cases, tmp_path, record_property):
    check(size, cases, tmp_path, record_property)


def test_the_sample_has_every_schedule_policy_axis_and_model_and_every_pair_of_axes():
    assert len(SAMPLE) >= 50
    assert {item.layout.schedule for item in SAMPLE} == set(SCHEDULES.names())
    assert {item.layout.recompute.removesuffix("_2") for item in SAMPLE} == set(RECOMPUTE.names())
    axes = ("tp", "pp", "dp_shard", "dp_replicate")
    for one in axes:
        for other in axes:
            assert any(getattr(i.layout, one) > 1 and getattr(i.layout, other) > 1 for i in SAMPLE), (one, other)
    assert {item.layout.zero for item in SAMPLE} == {0, 1, 2, 3}


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(2))
def test_every_pair_of_values_trains_as_one_process_does(seed, tmp_path, record_property):
    sample = covering(choices(), values_of, seed)
    for place, (size, cases) in enumerate(starts(sample)):
        folder = tmp_path / str(place)
        folder.mkdir()
        check(size, cases, folder, lambda *_: None)
    record_property("cases", len(sample))


def test_tp_beyond_the_kv_heads_repeats_them(tmp_path, record_property):
    layouts = [Layout(tp=8, sp=sp, schedule="one_f_one_b", attention="data_parallel") for sp in (False, True)]
    check(8, [Choice(model="tiny-llama", layout=item) for item in layouts], tmp_path, record_property)
