"""Bytes and seconds of exchanges of weights and gradients, by what a recipe keeps and what its products read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.cost.training_exchange import state_exchange
from meshwright.job.recipe import Recipe, read_recipe
from meshwright.job.train import TrainJob
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.model import parameter_counts
from meshwright.model.reader import read_model
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios._training_table import training_table
from meshwright.system.system import read_system

_MODEL = read_model("Qwen/Qwen3-8B")
_SYSTEM = read_system("hgx-h100 x2")
_RANKS = 16
_SENT = parameter_counts(_MODEL)["total"] * (_RANKS - 1) / _RANKS
"""What a rank of a ring sends of a byte a parameter."""


def _whole(recipe, name, layout=None):
    """Bytes over all modules. The model has one kind of layer, and its two ends."""
    rows = table([layout or Layout(dp_shard=_RANKS)])
    columns = getattr(state_exchange(_MODEL, _SYSTEM, rows, recipe, "own"), name)
    return float(columns[0] @ np.array([*_MODEL.kind_counts, 1, 1]))


def _sent(recipe, zero, micro_batches=1, **degrees):
    layout = Layout(**{"dp_shard": _RANKS, **degrees}, zero=zero)
    job = TrainJob(tokens=10**9, sequence=1024, global_batch=_RANKS * micro_batches, recipe=recipe)
    return training_table(_MODEL, _SYSTEM, job, TrainOptions(), table([layout])).step.sent_bytes[0]


def test_fsdp2_gathers_the_cast_copy_of_two_bytes_and_reduces_four():
    recipe = read_recipe("fsdp2-adamw")
    assert _whole(recipe, "gather_bytes") == pytest.approx(2 * _SENT)
    assert _whole(recipe, "refresh_bytes") == pytest.approx(4 * _SENT)
    assert _whole(recipe, "reduce_bytes") == pytest.approx(4 * _SENT)


def test_gathering_shards_in_float32_takes_as_long_as_in_bfloat16_where_they_are_cast_before():
    assert _whole(read_recipe("fsdp2-adamw"), "gather_s") == _whole(Recipe(), "gather_s")
    assert _whole(replace(read_recipe("fsdp2-adamw"), compute="fp32"), "gather_s") > 1.9 * _whole(Recipe(), "gather_s")


def test_with_adapters_only_their_gradients_are_reduced_and_only_they_change():
    recipe = read_recipe("bf16-lora")
    adapters = _whole(recipe, "gather_bytes") - 2 * _SENT
    assert 0 < adapters < 0.02 * 2 * _SENT
    assert _whole(recipe, "reduce_bytes") == pytest.approx(adapters)
    assert _whole(recipe, "refresh_bytes") == pytest.approx(adapters)


@pytest.mark.parametrize(("zero", "times"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_a_step_of_one_micro_batch_sends_two_or_three_times_the_weights(zero, times):
    """Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 7: 2 Psi as data parallelism, 3 Psi with parameters."""
    assert _sent(Recipe(), zero) == pytest.approx(times * 2 * _SENT)


@pytest.mark.parametrize(("zero", "times"), [(0, 2), (1, 2), (2, 5), (3, 12)])
def test_of_four_micro_batches_what_is_sharded_is_exchanged_four_times(zero, times):
    assert _sent(Recipe(), zero, 4) == pytest.approx(times * 2 * _SENT)


def test_copies_add_an_all_reduce_of_their_shards():
    weights = parameter_counts(_MODEL)["total"] * 2
    assert _sent(Recipe(), 1, dp_shard=8, dp_replicate=2) == pytest.approx(2 * weights * 7 / 8 + weights / 8)


@pytest.mark.parametrize("zero", range(4))
def test_ranks_of_cp_gather_and_reduce_as_those_of_dp_shard(zero):
    """A step of 16 sequences is four micro-batches of four copies, with cp 4."""
    assert _sent(Recipe(), zero, dp_shard=_RANKS // 4, cp=4) == _sent(Recipe(), zero, 4)


def test_the_ring_over_shards_and_cp_takes_the_slower_of_their_links():
    """In a box of 8 a ring of cp 4 stays inside; that of two such leaves it, with half of the box's NICs."""
    layouts = (Layout(dp_replicate=2, cp=4, tp=2), Layout(dp_shard=2, cp=4, tp=2), Layout(dp_shard=8, tp=2))
    inside, both, shards = (_whole(Recipe(), "reduce_s", layout) for layout in layouts)
    assert both == shards
    assert both == pytest.approx(inside * (7 / 8) / (3 / 4) * 450 / 200, rel=0.05)


def test_experts_are_gathered_over_what_their_view_leaves_of_shards_and_cp():
    """The mixture of 30B: 128 experts of 3 x 2048 x 768 a layer, over 16 ranks of which 4 are a copy of them."""
    model = read_model("Qwen/Qwen3-30B-A3B")
    rows = table([Layout(dp_shard=4, cp=4, ep=ep) for ep in (4, 16)])
    sent = state_exchange(model, _SYSTEM, rows, Recipe(), "own").gather_bytes
    experts = 2 * 128 * 3 * 2048 * 768
    plain = sent[1, 0]
    assert sent[0, 0] - plain == pytest.approx(experts / 4 * 3 / 4)
    assert plain < 0.1 * experts


def _ends_of(column, **degrees):
    """Of Qwen2.5-0.5B, whose head is its token table: a column of its first and of its last end."""
    model = read_model("Qwen/Qwen2.5-0.5B")
    rows = replace(table([Layout(**degrees)]), order=PIPELINE_OUTSIDE)
    found = getattr(state_exchange(model, _SYSTEM, rows, Recipe(), "own"), column)
    return found[0, -2:].tolist()


_TABLE, _NORM = 2 * 151_936 * 896, 2 * 896


def test_a_table_that_is_the_head_too_moves_once_on_one_rank():
    for column in ("gather_bytes", "refresh_bytes", "reduce_bytes"):
        assert _ends_of(column, dp_shard=16) == [_TABLE * 15 / 16, _NORM * 15 / 16]


def test_both_ends_of_a_pipeline_move_their_copy_of_the_table_and_add_up_its_gradients():
    moved = [_TABLE * 3 / 4, (_TABLE + _NORM) * 3 / 4]
    assert _ends_of("reduce_bytes", dp_shard=4, pp=4) == moved
    assert _ends_of("spread_bytes", dp_shard=4, pp=4) == [_TABLE / 4, _TABLE / 4], "2 x 1/2 of a shard"
    far = _SYSTEM.scale_out
    once = 2 * (_SYSTEM.nic_latency + _TABLE / 4 / 2 / far.bandwidth)
    rows = replace(table([Layout(dp_shard=4, pp=4), Layout(dp_shard=16)]), order=PIPELINE_OUTSIDE)
    found = state_exchange(read_model("Qwen/Qwen2.5-0.5B"), _SYSTEM, rows, Recipe(), "own").ends_s
    assert found.tolist() == pytest.approx([once, 0.0])
    assert _whole(Recipe(), "spread_bytes", Layout(dp_shard=4, pp=4)) == 0, "a head of its own"
