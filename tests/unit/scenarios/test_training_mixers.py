"""Training plans of models with latent attention and with recurrent mixers, and published numbers about them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from meshwright.base.errors import ModelError
from meshwright.cost.model_flops import active_parameters, flops_per_token
from meshwright.cost.training_work import operator_flops
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.reader import read_config, read_model
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.mfu import mfu_of_tokens, published_run
from meshwright.scenarios.training import plan_of_layout
from meshwright.system.system import read_system
from meshwright.workload.context_split import ContextPlan
from meshwright.workload.gradients import block_gradients
from meshwright.workload.operators import operators
from meshwright.workload.saved import block_saved, left_out
from meshwright.workload.saved_entries import Kernels
from meshwright.workload.training_messages import training_messages

V3 = "deepseek-ai/DeepSeek-V3"
COMPRESSED = ("deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4-Pro", "deepseek-ai/DeepSeek-V4.1-Flash")
LATENT = (V3, "deepseek-ai/DeepSeek-V3.2-Exp", "moonshotai/Kimi-K2.5", "moonshotai/Kimi-K3", "zai-org/GLM-5")
HYBRIDS = (
    *("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen/Qwen3.5-9B", "moonshotai/Kimi-Linear-48B-A3B-Instruct"),
    *("nvidia/Nemotron-H-56B-Base-8K", "nvidia/Llama-3_3-Nemotron-Super-49B-v1", "deepseek-ai/DeepSeek-V2-Lite"),
)
PIPELINE = Layout(
    dp_shard=64, tp=2, pp=16, ep=64, sp=True, zero=1, micro_batch=1, recompute="full", schedule="one_f_one_b"
)


@pytest.fixture(scope="module")
def plan():
    job = TrainJob(tokens=14_800 * 10**9, sequence=4096, global_batch=15_360)
    return plan_of_layout(read_model(V3), read_system("dgx-h100 x256"), job, TrainOptions(efficiency=0.3894), PIPELINE)


@pytest.mark.parametrize("name", [*LATENT, *HYBRIDS])
def test_every_kind_of_block_says_what_training_keeps_of_it(name):
    model = read_model(name)
    for kind, elementwise in product(range(len(model.kinds)), ("eager", "fused")):
        kernels = Kernels(elementwise=elementwise)
        storages = [item.storage for item in block_saved(model, kind, 4096, kernels).saved]
        assert len(set(storages)) == len(storages)
        assert all(groups for groups in block_gradients(model, kind, 4096, kernels))


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_attention_is_refused_with_the_reason(name):
    with pytest.raises(ModelError, match=r"MOD030.*compressed attention.*no published kernel says"):
        left_out(read_model(name))


@pytest.mark.parametrize(("name", "published"), [("deepseek-ai/DeepSeek-V3", 250e9), ("DeepSeek-V2", 155e9)])
def test_flops_of_a_token_are_those_that_its_makers_publish(name, published):
    """arXiv 2505.09343, table 2: training cost a token at 4,096, from general knowledge, to be checked."""
    model = read_config(V2, name) if name == "DeepSeek-V2" else read_model(name)
    assert flops_per_token(model, 4096) == pytest.approx(published, rel=0.003)


def test_the_utilisation_of_a_published_run_follows_from_its_tokens():
    """272.80 billion tokens a day, 38.94 %; and 14.8 T tokens in 2.664 M hours (arXiv 2412.19437, table 1): 39.1 %."""
    model, system, run = read_model(V3), read_system("hgx-h100"), published_run("deepseek-v3", 2048, 4096)
    found = mfu_of_tokens(model, 4096, "shapes", 272.80e9 / 86_400, run.devices, system, "bf16", run.mfu)
    assert found.mfu == pytest.approx(run.mfu, rel=0.003)
    assert found.rate_flops_per_s == pytest.approx(run.tflops_per_device * 1e12, rel=0.003)
    hours = mfu_of_tokens(model, 4096, "shapes", 14.8e12 / (2.664e6 * 3600), 1, system, "bf16", 0.0)
    assert hours.mfu == pytest.approx(0.391, abs=1e-3)
    assert active_parameters(model) == pytest.approx(37e9, rel=0.02)


def test_a_plan_of_latent_attention_answers_with_what_it_leaves_out(plan):
    assert plan.verdict.answer == "yes"
    for said in ("further tokens (MTP)", "low-rank rows", "limits experts to groups"):
        assert any(said in item for item in plan.not_modelled), said
    best = plan.best
    assert best.memory["activations_bytes"] > 0
    kept_with_all = replace(PIPELINE, recompute="none")
    job = TrainJob(tokens=10**9, sequence=4096, global_batch=15_360)
    wide = plan_of_layout(read_model(V3), read_system("dgx-h100 x256"), job, TrainOptions(), kept_with_all)
    assert wide.candidates[0].memory["activations_bytes"] > 5 * best.memory["activations_bytes"]


@pytest.mark.parametrize("name", HYBRIDS)
def test_a_plan_of_a_hybrid_model_answers(name):
    job, layout = TrainJob(tokens=10**9, sequence=8192, global_batch=256), replace(PIPELINE, dp_shard=4, pp=1, ep=1)
    layout = replace(layout, tp=2, zero=3, schedule=None)
    found = plan_of_layout(read_model(name), read_system("hgx-h100"), job, TrainOptions(efficiency=0.4), layout)
    assert found.candidates[0].memory["activations_bytes"] > 0
    assert found.candidates[0].measures["step"]["total_s"] > 0


def test_a_low_rank_product_is_done_by_every_rank_of_tp_or_under_sp_shared():
    model = read_model(V3)
    rows = table([replace(PIPELINE, sp=sp) for sp in (False, True)])
    found = {item.name: operator_flops(rows, 4096, item) for item in operators(model) if item.kind == 0}
    whole, shared = found["self_attn.kv_a_proj_with_mqa"]
    assert whole == 2 * 4096 * 576 * 7168 == 2 * shared
    assert len(set(found["self_attn.kv_b_proj"].tolist())) == 1


def test_gradients_of_low_rank_rows_are_summed_over_tp_in_place_of_the_models_width():
    at_once = read_model("deepseek-ai/DeepSeek-V2-Lite")
    for model, wide, narrow in ((read_model(V3), 0, 1536 + 576), (at_once, 1, 576)):
        found = {item.after: item for item in training_messages(model) if item.axis == "tp" and item.place == 0}
        assert (found["mixer"].forward, found["mixer"].backward) == (1, wide)
        rows = found["low_rank_rows"]
        assert (rows.row_elements, rows.forward, rows.backward) == (narrow, 0, 1)


def test_a_mixer_with_a_row_parallel_product_inside_sums_it_both_ways():
    model = read_config({"model_type": "jamba", "hidden_size": 64, "num_hidden_layers": 1, "mamba_dt_rank": 6}, "jamba")
    inner = [item for item in training_messages(model) if item.after == "low_rank_rows"]
    assert [(item.row_elements, item.forward, item.backward) for item in inner] == [(38, 1, 0), (38, 0, 1)]


def test_cp_hands_on_keys_and_values_of_heads_or_the_row_that_all_heads_read():
    """DeepSeek-V3: 128 heads of 192 and 128 columns; V3.2 reads the latent row of 576 and an indexer's key of 128."""
    heads, row = {"key": 128 * 192, "value": 128 * 128}, {"latent_cache": 576, "index_key_cache": 128}
    for name, passed in ((V3, heads), ("deepseek-ai/DeepSeek-V3.2-Exp", row)):
        ring, by_heads = (
            [item for item in training_messages(read_model(name), ContextPlan(exchange=exchange)) if item.axis == "cp"]
            for exchange in ("ring", "ulysses")
        )
        assert {item.name: item.elements for item in ring[0].state} == passed
        gathered = [item for item in by_heads if item.operation == "all_gather"]
        assert [sum(tensor.elements for tensor in item.state) for item in gathered[:1]] == (
            [704] if passed is row else []
        )
        width = 128 * (192 + 192 + 128) if passed is heads else 128 * 576
        assert sum(tensor.elements for tensor in by_heads[0].heads) == width


def test_no_gradient_goes_through_an_indexer():
    model = read_model("deepseek-ai/DeepSeek-V3.2-Exp")
    lone = [item for item in operators(model) if not item.backward]
    assert {item.name for item in lone} == {
        *(f"self_attn.indexer.{name}" for name in ("wq_b", "wk", "weights_proj")),
        "indexer",
    }
    assert any("indexer" in item for item in left_out(model))


def test_states_between_chunks_are_held_by_the_backward_and_not_kept():
    model = read_model("Qwen/Qwen3-Next-80B-A3B-Instruct")
    linear = next(kind for kind, block in enumerate(model.kinds) if block.mixer.kind == "linear_attention")
    mixer = model.kinds[linear].mixer
    names = {item.tensor.name for item in block_saved(model, linear, 4096, Kernels()).saved}
    assert not any("states" in name for name in names)
    rule = block_gradients(model, linear, 4096, Kernels())[0]["delta_rule"]
    states = [item.tensor for item in rule if item.tensor.name.startswith("states")]
    assert [np.prod(item.shape) for item in states] == [
        4096 // mixer.chunk * mixer.value_heads * mixer.key_dim * mixer.value_dim
    ] * 2


V2 = {
    "model_type": "deepseek_v2",
    "vocab_size": 102_400,
    "hidden_size": 5120,
    "intermediate_size": 12_288,
    "num_hidden_layers": 60,
    "num_attention_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "moe_intermediate_size": 1536,
    "n_routed_experts": 160,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "tie_word_embeddings": False,
}
"""DeepSeek-AI, "DeepSeek-V2" (arXiv 2405.04434), section 3.1.2."""
