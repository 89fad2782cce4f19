"""The memory of training state on models of the catalog."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.base.errors import UserError
from meshwright.cost.training_state import stage_totals, state_columns
from meshwright.job.recipe import Recipe, read_recipe
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.model import parameter_counts
from meshwright.model.reader import read_model

DENSE, MIXTURE, TIED = "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen2.5-0.5B"


def per_parameter(model, recipe, layout=None):
    """Bytes of (parameters, gradients, optimizer state) of the whole model on one rank, over its parameters."""
    found = state_columns(model, table([layout or Layout()]), recipe)
    counts = np.array([*model.kind_counts, 1, 1])
    total = parameter_counts(model)["total"]
    columns = (found.parameters, found.gradients, found.optimizer_state)
    return tuple(float(column[0] @ counts) / total for column in columns)


@pytest.mark.parametrize("name", [DENSE, MIXTURE, TIED])
@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("bf16-adamw", (2, 2, 12)),
        ("bf16-adamw-fp32-gradients", (2, 4, 12)),
        ("fp16-adamw", (2, 2, 12)),
        ("fp32-adamw", (4, 4, 8)),
        ("fsdp2-adamw", (4, 4, 8)),
        ("fp8-adamw", (2, 2, 12)),
        ("bf16-sgd", (2, 2, 8)),
    ],
)
def test_bytes_a_parameter_are_exactly_those_of_the_recipe_experts_included(name, recipe, expected):
    assert per_parameter(read_model(name), read_recipe(recipe)) == expected


def test_a_kept_fp8_copy_adds_a_byte_and_a_scale_for_128_x_128_of_every_matrix():
    model = read_model(DENSE)
    plain, kept = Recipe(), Recipe(compute="fp8", fp8_copy="kept")
    extra = (
        state_columns(model, table([Layout()]), kept).parameters
        - state_columns(model, table([Layout()]), plain).parameters
    )
    matrices = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 12288 * 4096
    assert extra.tolist() == [[matrices + matrices // 128**2 * 4, 0, 0]]


def test_a_tied_head_on_a_stage_of_its_own_is_kept_again_in_every_state():
    model = read_model(TIED)
    found = state_columns(model, table([Layout(), Layout(pp=2)]), Recipe())
    embedding = 151936 * 896
    for column, each in ((found.parameters, 2), (found.gradients, 2), (found.optimizer_state, 12)):
        assert (column[1, -1] - column[0, -1]).item() == embedding * each
        assert column[:, -2].tolist() == [embedding * each] * 2


def test_8_bit_moments_have_a_scale_for_256_elements():
    model = read_model(DENSE)
    ends = state_columns(model, table([Layout()]), read_recipe("bf16-adamw-8bit")).optimizer_state[0, -2]
    elements = 151936 * 4096
    assert ends.item() == elements * 4 + 2 * (elements + elements // 256 * 4)


def test_fsdp_gathers_in_the_format_of_the_products():
    model, recipe = read_model(DENSE), read_recipe("fsdp2-adamw")
    found = state_columns(model, table([Layout(dp_shard=8, zero=3), Layout(dp_shard=8, zero=2)]), recipe)
    layer = 192_950_000
    assert found.parameters[0, 0] * 2 == pytest.approx(layer, rel=1e-3)
    assert found.gathered[0, 0] == pytest.approx(2 * layer, rel=1e-3)
    assert found.gathered[1].tolist() == found.parameters[1].tolist()


def test_the_gathered_module_and_its_gradients_do_not_shrink_with_more_shards():
    found = state_columns(read_model(DENSE), table([Layout(dp_shard=d, zero=3) for d in (8, 16)]), Recipe())
    assert (found.parameters[0] == 2 * found.parameters[1]).all()
    assert found.gathered[0].tolist() == found.gathered[1].tolist()
    assert found.gradient_buffer[0].tolist() == found.gradient_buffer[1].tolist()


def test_adapters_are_cut_where_the_matrix_that_they_adapt_is():
    model = read_model(DENSE)
    recipe = replace(Recipe(), lora_rank=16, lora_targets=("q_proj", "o_proj"))
    whole, cut = state_columns(model, table([Layout(), Layout(tp=4)]), recipe).gradients[:, 0].tolist()
    assert whole == 2 * 16 * (4096 + 4096) * 2
    assert cut == 2 * 16 * (4096 + 1024) * 2


def test_a_frozen_base_has_neither_gradients_nor_optimizer_state():
    model, recipe = read_model(MIXTURE), read_recipe("bf16-lora")
    found = state_columns(model, table([Layout()]), recipe)
    assert found.gradients[0, 1:].tolist() == found.optimizer_state[0, 1:].tolist() == [0, 0]
    assert (found.parameters[0] >= state_columns(model, table([Layout()]), Recipe()).parameters[0]).all()


def test_a_target_that_the_model_lacks_is_refused_with_the_nearest():
    recipe = replace(Recipe(), lora_rank=8, lora_targets=("query_proj",))
    with pytest.raises(UserError) as caught:
        state_columns(read_model(DENSE), table([Layout()]), recipe)
    assert caught.value.code == "JOB043"
    assert "q_proj" in caught.value.fix


def test_8_ranks_of_stage_1_2_and_3_keep_4n_12_over_d_and_so_on():
    """Chapter "Training systems", section 10.2.1: 42.0, 28.6 and 15.3 GiB for Qwen3-8B over 8 ranks."""
    model = read_model(DENSE)
    rows = table([Layout(dp_shard=8, zero=zero) for zero in range(4)])
    found = state_columns(model, rows, Recipe())
    counts = np.array([*model.kind_counts, 1, 1])
    held = (found.parameters + found.gradients + found.optimizer_state) @ counts
    parameters = parameter_counts(model)["total"]
    assert held.tolist() == [parameters * each for each in (16, 4 + 12 / 8, 2 + 14 / 8, 16 / 8)]


def test_a_distributed_optimizer_deals_state_over_data_parallel_and_context_ranks():
    """Llama-3.1-70B on 64 ranks, tp 4, cp 2, pp 4, dp 2, as Megatron's distributed optimizer: zero 1 over dp x cp.

    Source: Megatron-LM, `--use-distributed-optimizer`: the sharding group is data parallel with context parallel.
    """
    layout = Layout(tp=4, cp=2, pp=4, dp_shard=2, zero=1)
    model, rows = read_model("meta-llama/Llama-3.1-70B"), table([layout, replace(layout, dp_shard=4, cp=1)])
    recipe = read_recipe("bf16-adamw-fp32-gradients")
    found = stage_totals(model, rows, state_columns(model, rows, recipe, shards="even"))
    matrices = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672
    held = 20 * (matrices // 4 + 2 * 8192) + 128256 * 8192 // 4 + 8192  # the last stage: 20 layers, norm and head
    assert found.stage.tolist() == [3, 3]
    assert found.parameters.tolist() == [2 * held] * 2
    assert found.gradients.tolist() == [4 * held] * 2
    assert found.optimizer_state.tolist() == [12 * held // 4] * 2
    assert found.total[0] / 2**30 == pytest.approx(38.06, abs=0.01)
