"""Weights, state, work and room of models at a long context."""

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.model.model import Rope
from meshwright.model.reader import CATALOG, read_model
from meshwright.scenarios.fit import FitOptions, fit, replica_layout
from meshwright.scenarios.long_context import balanced_experts, compare_contexts, stretched_positions
from meshwright.system.system import read_system

BOX = read_system("hgx-h100")
DENSE, SPARSE = "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B"


def compare(*models, batch=64, context=32768, devices=(1, 2), workspace=2 * 2**30):
    return compare_contexts(models, BOX, batch, context, devices, workspace).rows


@pytest.mark.parametrize("name", CATALOG.names())
def test_one_session_reads_the_same_experts_however_they_are_chosen(name):
    row = compare(name.replace("--", "/"), batch=1)[0]
    assert row.balanced_step_weight_bytes == pytest.approx(row.one_step_weight_bytes)
    assert row.uniform_step_weight_bytes == row.one_step_weight_bytes


def test_even_choices_reach_every_expert_and_random_ones_nearly():
    row = compare(SPARSE)[0]
    assert row.one_step_weight_bytes < row.uniform_step_weight_bytes < row.balanced_step_weight_bytes
    assert compare(SPARSE, batch=4096)[0].uniform_step_weight_bytes == pytest.approx(row.balanced_step_weight_bytes)
    assert row.balanced_step_weight_bytes == compare(SPARSE, batch=16)[0].balanced_step_weight_bytes
    assert compare(SPARSE, batch=15)[0].balanced_step_weight_bytes < row.balanced_step_weight_bytes


def test_balanced_choices_reach_no_more_experts_than_there_are():
    assert [balanced_experts(128, 8, rows) for rows in (1, 15, 16, 17)] == [8, 120, 128, 128]


def test_a_dense_model_reads_its_weights_whatever_the_batch():
    one, many = compare(DENSE, batch=1)[0], compare(DENSE)[0]
    assert one.balanced_step_weight_bytes == many.balanced_step_weight_bytes == many.uniform_step_weight_bytes
    assert many.step_flops == 64 * one.step_flops
    assert many.step_state_bytes == 64 * one.step_state_bytes


@pytest.mark.parametrize("name", [DENSE, SPARSE])
@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_room_by_tensor_parallel_is_what_fit_says_and_never_above_the_pool(name, devices):
    room = compare(name, devices=(devices,))[0].room[0]
    model = read_model(name)
    fitted = fit(model, BOX, replica_layout(model, devices, 1, 1), FitOptions(context=32768))
    assert room.tensor_parallel_sessions == fitted.body["memory"]["max_sessions"]
    assert room.tensor_parallel_sessions <= room.pooled_sessions


def test_the_pool_ignores_that_heads_are_never_cut():
    apart = compare(SPARSE, devices=(8,))[0].room[0]
    assert apart.tensor_parallel_sessions < apart.pooled_sessions * 0.6


def test_a_count_of_devices_that_no_tensor_parallel_takes_has_a_pool_only():
    room = compare(DENSE, devices=(3,))[0].room[0]
    assert room.tensor_parallel_sessions is None
    assert room.pooled_sessions > compare(DENSE, devices=(2,))[0].room[0].pooled_sessions


def test_the_first_model_is_what_the_others_are_measured_against():
    first, second = compare(DENSE, SPARSE)
    assert (first.times_fewer_flops, first.times_less_state) == (1.0, 1.0)
    assert second.times_fewer_flops == pytest.approx(first.step_flops / second.step_flops)
    assert second.times_less_state == pytest.approx(first.step_state_bytes / second.step_state_bytes)


@pytest.mark.parametrize(
    ("models", "changes", "code"),
    [
        ((), {}, "JOB001"),
        ((DENSE,), {"batch": 0}, "JOB001"),
        ((DENSE,), {"context": 0}, "JOB001"),
        ((DENSE,), {"devices": (0,)}, "JOB001"),
        ((DENSE,), {"workspace": 2**62}, "JOB001"),
        (("Qwen/Qwen3-33B",), {}, "MOD001"),
    ],
)
def test_what_cannot_be_compared_is_refused(models, changes, code):
    with pytest.raises(MeshwrightError) as caught:
        compare(*models, **changes)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("factor", "original", "positions"), [(4.0, 32768, 131072), (None, 32768, 32768), (4.0, None, None)]
)
def test_positions_stretch_by_the_factor_of_the_config(factor, original, positions):
    assert stretched_positions(Rope(kind="yarn", factor=factor, original_positions=original)) == positions
