"""Loss, gradient norm and every weight behind three updates are those of one process, however the model is laid out."""

from __future__ import annotations

from itertools import groupby
from math import isfinite

import numpy as np
import pytest
import torch

from meshwright.layout.layout import Layout
from meshwright.runtime.loop.trainer import Recipe
from meshwright.verify import parity
from meshwright.verify.parity_grid import Choice, axes_of, covering, values_of
from meshwright.workload.recomputing import RECOMPUTE
from meshwright.workload.slots import SCHEDULES
from tests.runtime.cases import (
    HALF,
    MULTIPLE,
    SINGLE,
    TOLERANCE,
    bf16_parity_of,
    block_of,
    case_of,
    choices,
    parity_of,
)
from tests.runtime.ranks import PATIENCE_S, run_ranks

AT_ONCE = 8
LONG_S = 900.0
SAMPLE = covering(choices(), axes_of)


def starts(sample):
    """Cases of one world size, a few in one start of its ranks."""
    found = []
    for size, group in groupby(sorted(sample, key=lambda item: item.layout.world_size), lambda i: i.layout.world_size):
        cases = list(group)
        found += [(size, cases[place : place + AT_ONCE]) for place in range(0, len(cases), AT_ONCE)]
    return found


def check(size, cases, folder, record_property, patience_s=PATIENCE_S):
    by_rank = run_ranks(size, parity_of, ([case_of(item) for item in cases], str(folder)), patience_s)
    record_property("cases", len(cases))
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
        check(size, cases, folder, record_property, LONG_S)


def test_tp_beyond_the_kv_heads_repeats_them(tmp_path, record_property):
    plain = {"tp": 8, "micro_batch": 8, "schedule": "one_f_one_b", "attention": "data_parallel"}
    layouts = [Layout(**plain, sp=sp) for sp in (False, True)]
    check(8, [Choice(model="tiny-llama", layout=item) for item in layouts], tmp_path, record_property)


HALVES = [
    {"tp": 2, "sp": True},
    {"dp_shard": 2, "zero": 3},
    {"pp": 2, "schedule": "zero_bubble_h1", "dp_shard": 2, "zero": 1},
    {"pp": 2, "schedule": "zero_bubble_v", "dp_shard": 2, "zero": 3},
    {"pp": 2, "tp": 2, "schedule": "dualpipe_v", "recompute": "full"},
]


@pytest.mark.parametrize("fields", HALVES)
def test_in_bf16_a_layout_is_as_far_from_float64_as_one_process(fields):
    layout = Layout(**{"schedule": "one_f_one_b", "attention": "data_parallel", **fields})
    case = case_of(Choice(model="tiny-qwen3", layout=layout), Recipe(precision=HALF))
    for (found,) in run_ranks(layout.world_size, bf16_parity_of, [case]):
        assert found.name is None, found
        assert found.worst <= MULTIPLE, found


def test_in_bf16_what_is_no_number_is_not_near():
    """Of the layout, of one process in bf16, or of both: nothing can be said to be as far as the other then."""
    whole, near, broken = torch.ones(2), torch.full((2,), 1.5), torch.tensor([1.0, float("nan")])
    assert parity._multiple(near, whole, near) == 1
    for mine, rounded in ((broken, near), (near, broken), (broken, broken)):
        assert parity._multiple(mine, whole, rounded) == float("inf")
    for mine, rounded in (([float("nan")], [1.5]), ([1.5], [float("nan")]), ([float("nan")], [float("nan")])):
        assert parity._series(mine, [1.0], rounded) == float("inf")


def both_ways(tp):
    """Rows behind a block, of every rank, without and with sequence parallelism."""
    tokens = torch.randint(512, (2, 16), generator=torch.Generator().manual_seed(4))
    return [
        np.stack(
            run_ranks(
                tp, block_of, (case_of(Choice(model="tiny-qwen3", layout=layout), Recipe(precision=SINGLE)), tokens)
            )
        )
        for layout in (Layout(tp=tp, sp=sp, schedule="one_f_one_b", attention="data_parallel") for sp in (False, True))
    ]


def test_of_two_ranks_a_block_under_sequence_parallelism_is_the_same_to_the_bit():
    plain, cut = both_ways(2)
    assert np.array_equal(plain, cut)


def test_of_four_ranks_it_differs_by_the_order_of_sums():
    """gloo's ring adds an element in an order that follows from its place, and scattering moves places: 4 terms.

    In units in the last place of the largest value of a row: an order of four terms moves a sum by at most three
    roundings, and two sums and a norm lie between the rows compared.
    """
    plain, cut = both_ways(4)
    ulp = np.spacing(np.abs(plain).max(-1, keepdims=True))
    assert not np.array_equal(plain, cut)
    assert (np.abs(plain - cut) / ulp).max() <= 4
