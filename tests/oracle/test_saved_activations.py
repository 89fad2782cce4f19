"""Activations that training keeps, against what autograd keeps of `transformers` models: storages, each once.

Inputs and parameters are left out on both sides. What the columns count otherwise is named here by operator, exactly;
all of it together stays under one per cent, but for the operators of `APART`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.training_activations import activation_columns
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.feed_forwards import Experts
from meshwright.model.mixers import LatentAttention
from meshwright.model.reader import read_config
from meshwright.workload.gradients import block_gradients
from meshwright.workload.saved import block_saved
from meshwright.workload.saved_entries import Kernels
from tests.oracle.saved_tensors import kept_bytes
from tests.oracle.transformers_models import seeded

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from meshwright.model.model import Model

FAMILIES: Final = ("gpt_neox", "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")
MIXTURES: Final = ("mixtral", "qwen3_moe")
LATENT_FAMILIES: Final = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_k2")
KERNELS: Final = {"sdpa": "flash", "eager": "materialised"}
FORMATS: Final = {"fp32": "float32", "bf16": "bfloat16"}
TOLERANCE: Final = 0.01
EXAMPLES: Final = 100  # a family, in the campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One forward pass in training."""

    config: dict[str, Any]
    dtype: str
    attention: str
    recompute: str
    samples: int
    positions: int

    @property
    def model(self) -> Model:
        return read_config({**self.config, "torch_dtype": FORMATS[self.dtype]}, "model")

    @property
    def element_bytes(self) -> int:
        return {"fp32": 4, "bf16": 2}[self.dtype]

    @property
    def rows(self) -> int:
        return self.samples * self.positions

    @property
    def whole_layers(self) -> list[int]:
        """The kinds of the layers that keep everything."""
        kinds = self.model.kind_of_layer
        if self.recompute in {"none", "attention"}:
            return list(kinds)
        step = int(self.recompute.removeprefix("every_")) if self.recompute != "full" else 1
        return [kind for number, kind in enumerate(kinds, start=1) if number % step]

    @property
    def mixtures(self) -> list[Experts]:
        """The feed-forwards with experts, of layers that keep everything."""
        found = [self.model.kinds[kind].feed_forward for kind in self.whole_layers]
        return [layer for layer in found if isinstance(layer, Experts)]


def _rotary_tables(run: Run) -> int:
    """cos and sin of every position, made once and kept by every layer's rotation alike."""
    share = 0.25 if run.config["model_type"] == "gpt_neox" else 1
    mixer, wide = run.model.kinds[0].mixer, run.element_bytes
    if run.config["model_type"] == "deepseek_v2":  # complex numbers of two fp32 for each pair of columns
        share, wide = 0.5, 4
    width = (mixer.rope_dim if isinstance(mixer, LatentAttention) else mixer.head_dim) * share
    return int(2 * run.positions * width * wide) if run.whole_layers else 0


def _loss_weight(run: Run) -> int:
    """nll_loss keeps how many targets it counted: one fp32 a model."""
    return 4


def _group_offsets(run: Run) -> int:
    """grouped_mm keeps where each expert's rows end: int32."""
    return sum(4 * layer.experts for layer in run.mixtures)


def _normalised_weights(run: Run) -> int:
    """Route weights divided by their sum keep both in fp32; Mixtral then multiplies in fp32 too."""
    normalised = run.config["model_type"] == "mixtral" or run.config.get("norm_topk_prob", False)
    normalised = normalised and run.config["model_type"] not in LATENT_FAMILIES
    wide = 4 - run.element_bytes if run.config["model_type"] == "mixtral" else 0
    return sum(run.rows * (4 + 4 * layer.top_k + wide * layer.top_k) for layer in run.mixtures if normalised)


def _router_in_fp32(run: Run) -> int:
    """Weights of the routes stay in fp32; with groups, numbers of the best two of each, of the chosen, and a mask."""
    total = 0
    for layer in run.mixtures if run.config["model_type"] in LATENT_FAMILIES else ():
        total += layer.top_k * (4 - run.element_bytes)
        if run.config["model_type"] != "deepseek_v2":
            total += 8 * (2 * run.config["n_group"] + run.config["topk_group"]) + layer.experts
            total += 4 + 4 * layer.top_k if run.config.get("norm_topk_prob", True) else 0
    return run.rows * total


def _layer_norm_statistics(run: Run) -> int:
    """LayerNorm on a CPU keeps mean and rstd in the format of its input; on a GPU, and in the columns, in fp32."""
    norms = 2 * len(run.whole_layers) + 1 if run.config["model_type"] == "gpt_neox" else 0
    return -norms * 2 * run.rows * (4 - run.element_bytes)


def _mask(run: Run) -> int:
    """Attention made again keeps its mask: one square a sample for the whole model, in the format of the scores."""
    return run.rows * run.positions * run.element_bytes if run.recompute == "attention" else 0


DIFFERENCES: Final[dict[str, Callable[[Run], int]]] = {
    "apply_rotary_pos_emb": _rotary_tables,
    "nll_loss": _loss_weight,
    "grouped_mm": _group_offsets,
    "router": _normalised_weights,
    "group_limited_router": _router_in_fp32,
    "layer_norm": _layer_norm_statistics,
    "eager_attention_forward": _mask,
}


def _fused_projection(run: Run) -> int:
    """Values are a view of query_key_value, whose queries and keys stay with them; eager products copy them."""
    mixer = run.model.kinds[0].mixer
    kept = run.config["model_type"] == "gpt_neox" and run.attention == "sdpa"
    if not kept:
        return 0
    return 2 * mixer.heads * mixer.head_dim * run.rows * run.element_bytes * len(run.whole_layers)


def _output_copy(run: Run) -> int:
    """Partly rotated queries lie head by head, the CPU kernel's output as they do, and `dense` keeps a copy by rows."""
    mixer = run.model.kinds[0].mixer
    if isinstance(mixer, LatentAttention) and run.attention == "sdpa":
        return mixer.heads * mixer.value_dim * run.rows * run.element_bytes * len(run.whole_layers)
    return _fused_projection(run) // 2


APART: Final[dict[str, Callable[[Run], int]]] = {"query_key_value": _fused_projection, "dense": _output_copy}


def columns(run: Run) -> int:
    layouts = table([Layout(recompute=run.recompute, micro_batch=run.samples)])
    model = run.model
    found = activation_columns(model, layouts, sequence=run.positions, kernel=KERNELS[run.attention])
    return int(found.saved[0] @ model.kind_counts + found.head[0] + found.embedding[0])


def storages(run: Run, *, fake: bool = True) -> int:
    """grouped_mm has no kernel for tensors without contents in fp32: those run for real."""
    real = run.dtype == "fp32" and any(isinstance(block.feed_forward, Experts) for block in run.model.kinds)
    return kept_bytes(
        run.config,
        dtype=run.dtype,
        attention=run.attention,
        recompute=run.recompute,
        samples=run.samples,
        positions=run.positions,
        fake=fake and not real,
    )


def assert_agrees(run: Run, *, rounding: int = 0) -> None:
    """rounding: bytes by which the columns may be above, where they spread a stage's bytes over its layers."""
    mine, theirs = columns(run), storages(run)
    named = {operator: difference(run) for operator, difference in DIFFERENCES.items()}
    apart = sum(difference(run) for difference in APART.values())
    assert 0 <= mine + sum(named.values()) + apart - theirs <= rounding, (run, named)
    assert abs(theirs - apart - mine) <= TOLERANCE * theirs, (run, named)


def random_sizes(family: str, rng: Random) -> dict[str, Any]:
    """At least two heads and 64 columns, so that what is kept once a model stays small beside its layers.

    Widths of experts are whole 16 bytes, as grouped products want.
    """
    kv_heads = rng.randint(2 if family == "gpt_neox" else 1, 4)
    heads = kv_heads * (1 if family == "gpt_neox" else rng.randint(2 if kv_heads == 1 else 1, 4))
    least = -(-8 // heads)
    head_dim = 8 * rng.randint(least, max(least, 3))
    config = {
        "model_type": family,
        "vocab_size": rng.randint(50, 400),
        "hidden_size": heads * head_dim,
        "intermediate_size": 8 * rng.randint(4, 30),
        "num_hidden_layers": rng.randint(2, 3),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": 256,
        "tie_word_embeddings": rng.random() < 0.5,
        "sliding_window": None,
    }
    if family == "gpt_neox":
        config["use_parallel_residual"] = False
    if family in {"qwen3", "qwen3_moe"}:
        config |= {"head_dim": 8 * rng.randint(1, 3), "attention_bias": rng.random() < 0.5}
    if family in MIXTURES:
        experts = rng.randint(2, 9)
        config |= {"num_local_experts": experts, "num_experts_per_tok": rng.randint(1, experts)}
    if family == "qwen3_moe":
        config |= {
            "num_experts": config.pop("num_local_experts"),
            "moe_intermediate_size": 8 * rng.randint(2, 10),
            "norm_topk_prob": rng.random() < 0.5,
            "mlp_only_layers": rng.choice([[], [0], [1]]),
        }
    return config


def random_run(family: str, rng: Random, **fixed: str) -> Run:
    chosen = {
        "dtype": rng.choice(["fp32", "bf16"]),
        "attention": rng.choice(["sdpa", "eager"]),
        "recompute": rng.choice(["none", "full"]),
        **fixed,
    }
    return Run(config=random_sizes(family, rng), samples=rng.randint(3, 5), positions=rng.randint(5, 40), **chosen)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_saved_bytes_are_those_of_autograd(family, dtype, attention):
    rng = seeded("saved", family, dtype, attention)
    assert_agrees(random_run(family, rng, dtype=dtype, attention=attention, recompute="none"))


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_saved_bytes_of_blocks_made_again_are_those_of_autograd(family, dtype):
    assert_agrees(random_run(family, seeded("full", family, dtype), dtype=dtype, recompute="full"))


@pytest.mark.campaign
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**64))
def test_saved_bytes_of_any_random_config_are_those_of_autograd(family, seed):
    assert_agrees(random_run(family, seeded(seed)))


@pytest.mark.parametrize("family", ["qwen3", "qwen3_moe", "gpt_neox"])
def test_tensors_without_contents_are_kept_as_real_ones(family):
    run = random_run(family, seeded("real", family), dtype="bf16", recompute="none")
    assert storages(run, fake=False) == storages(run)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("family", ["llama", "mixtral", "qwen3"])
def test_core_attention_made_again_keeps_its_inputs(family, dtype):
    rng = seeded("attention", family, dtype)
    assert_agrees(random_run(family, rng, dtype=dtype, attention="eager", recompute="attention"))


@pytest.mark.parametrize("step", [2, 3])
def test_one_of_every_n_blocks_is_made_again(step):
    """Over a number of layers that N divides: the columns spread what a stage keeps over its layers."""
    run = random_run("qwen3", seeded("every", step), recompute=f"every_{step}")
    run.config["num_hidden_layers"] = 2 * step
    assert_agrees(run, rounding=2 * step * run.samples)


def test_a_parallel_residual_shares_the_input_of_both_norms():
    """What `not_modelled` names: the columns keep one more input of a norm in every layer."""
    run = random_run("gpt_neox", seeded("parallel"), dtype="fp32", attention="eager", recompute="none")
    run.config["use_parallel_residual"] = True
    named = sum(difference(run) for difference in DIFFERENCES.values())
    shared = run.rows * run.model.hidden * run.element_bytes * run.model.layers
    assert storages(run) - columns(run) == named - shared


LATENT: Final[dict[str, Any]] = {
    "model_type": "deepseek_v3",
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 40,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 24,
    "first_k_dense_replace": 3,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}


MIXED: Final[dict[str, Any]] = {
    **LATENT,
    "num_hidden_layers": 2,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "n_group": 4,
    "topk_group": 2,
    "n_shared_experts": 1,
    "index_topk": 8,
    "index_n_heads": 2,
    "index_head_dim": 16,
}


def latent_run(config: dict[str, Any], dtype: str, attention: str, recompute: str = "none") -> Run:
    return Run(config=config, dtype=dtype, attention=attention, recompute=recompute, samples=3, positions=33)


@pytest.mark.parametrize("rank", [24, None])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_saved_bytes_of_latent_attention_are_those_of_autograd(dtype, attention, rank):
    assert_agrees(latent_run({**LATENT, "q_lora_rank": rank}, dtype, attention))


@pytest.mark.parametrize("recompute", ["none", "full", "attention"])
@pytest.mark.parametrize("family", LATENT_FAMILIES)
def test_saved_bytes_of_latent_mixtures_after_a_dense_block_are_those_of_autograd(family, recompute):
    """What routers keep beside probabilities is no small part of so small a layer, and named exactly."""
    attention = "sdpa" if recompute == "full" else "eager"
    run = latent_run({**MIXED, "model_type": family}, "bf16", attention, recompute)
    mine, theirs = columns(run), storages(run)
    named = sum(difference(run) for difference in DIFFERENCES.values())
    assert mine + named + sum(difference(run) for difference in APART.values()) == theirs


def test_a_sparse_kernel_keeps_the_row_that_all_heads_read_and_the_choice():
    """Absorbed, a query is as wide as the row; keys and values of heads are never made."""
    config = {**MIXED, "model_type": "deepseek_v32"}
    model = read_config({**config, "torch_dtype": "bfloat16"}, "model")
    columns_of = {
        item.tensor.name: (item.tensor.dims[-1].size, item.bits)
        for item in block_saved(model, 0, 33, Kernels(attention="flash")).saved
    }
    assert {name: columns_of[name] for name in ("latent_query", "latent_row", "latent_output", "chosen_rows")} == {
        "latent_query": (4 * (40 + 8), 16),
        "latent_row": (48, 16),
        "latent_output": (4 * 40, 16),
        "chosen_rows": (8, 32),
    }
    assert "keys_and_values" not in columns_of
    held = block_gradients(model, 0, 33, Kernels(attention="flash"))[0]["attention"]
    assert {item.tensor.name: item.bits for item in held}[
        "latent_row.gradient"
    ] == 32  # summed over the queries that read it
