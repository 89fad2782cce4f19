"""Latent attention and a length go in; what training keeps of it, and the gradients that its backward holds, come out.

As transformers 5.24 runs it (DeepseekV3Attention), expanded: kv_b makes keys and values of every head in one tensor,
keys are copied beside the shared rotary part, and values stay a view of that tensor, which therefore lives as long.

    flash          query, key, keys and values as they were made, output, logsumexp
    materialised   query, key, a copy of the values, output, probabilities
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshwright.model.tensors import Dim
from meshwright.workload.saved_entries import FP32_BITS, Maker, Saved, core_scores

if TYPE_CHECKING:
    from meshwright.model.mixers import LatentAttention


def latent_saved(made: Maker, mixer: LatentAttention) -> tuple[list[Saved], tuple[Saved, ...]]:
    """What it keeps beside its input, and the inputs of its core that nobody keeps."""
    found: list[Saved] = []
    if mixer.query_rank is not None:
        found += _norm(made, "q_a_layernorm", mixer.query_rank, "q_b_proj")
    read, *normed = _norm(made, "kv_a_layernorm", mixer.kv_rank, "kv_b_proj")
    found += [_whole_row(made, mixer, read), *normed]

    def kept(name: str, dim: Dim, *, core: bool = False, operator: str = "attention") -> Saved:
        return made.kept(name, operator, (dim,), "product_input", "attention", core=core)

    heads = _columns(mixer)
    own, copied = kept("keys_and_values", heads["made"]), made.kernels.attention == "materialised"
    found += [kept("query", heads["query"]), kept("key", heads["query"])]
    found.append(kept("value_copy", heads["value"], core=True) if copied else own)
    found += core_scores(made, mixer.heads, None)
    found.append(kept("attention_output", heads["value"], operator="self_attn.o_proj"))
    return found, (own,) if copied else ()


def latent_gradients(made: Maker, mixer: LatentAttention) -> dict[str, tuple[Saved, ...]]:
    """By operator, in the order of the forward pass, as in `gradients`."""
    heads = {name: _row(made, name, dim) for name, dim in _columns(mixer).items()}
    query, value, both = heads["query"], heads["value"], heads["made"]
    key, normed = _row(made, "key", _columns(mixer)["query"]), _row(made, "normed", made.hidden)
    latent = _row(made, "latent", Dim(role="latent", size=mixer.kv_rank + mixer.rope_dim))
    low = query if mixer.query_rank is None else _row(made, "q_a", Dim(role="latent", size=mixer.query_rank))
    inputs = {
        "self_attn.kv_a_proj_with_mqa": (latent, low, normed),
        "self_attn.kv_b_proj": (query, both, latent),
        "self_attn.keys": (query, key, value, both),
    }
    output = {"self_attn.o_proj": (value,)}
    if made.kernels.attention == "flash":
        return {**inputs, "attention": (_row(made, "mixed", _columns(mixer)["value"]), query, key, value), **output}
    pairs = Dim(role="positions", size=made.positions * made.positions, grain=made.positions)
    count = Dim(role="heads", size=mixer.heads)
    square = {
        name: made.scores(f"{name}.gradient", "backward", (count, pairs), "nonlinear", bits=bits)
        for name, bits in (("probabilities", FP32_BITS), ("scores", FP32_BITS), ("products", made.plain))
    }
    steps = {
        "attention.scores": (value, square["products"], query, key),
        "attention.softmax": (value, square["probabilities"], square["scores"]),
        "attention.values": (_row(made, "mixed", _columns(mixer)["value"]), value, square["products"]),
    }
    return {**inputs, **steps, **output}


def _columns(mixer: LatentAttention) -> dict[str, Dim]:
    widths = {
        "query": mixer.nope_dim + mixer.rope_dim,
        "value": mixer.value_dim,
        "made": mixer.nope_dim + mixer.value_dim,
    }
    return {name: Dim(role="heads", size=mixer.heads * width, grain=width) for name, width in widths.items()}


def _norm(made: Maker, name: str, size: int, product: str) -> tuple[Saved, ...]:
    """A norm of a low-rank row, and its output, which the product after it takes."""
    row = Dim(role="latent", size=size)
    return made.norm(f"self_attn.{name}", row, (), f"self_attn.{name}.input", f"self_attn.{product}")


def _whole_row(made: Maker, mixer: LatentAttention, read: Saved) -> Saved:
    """What the norm reads: a view of the row with its rotary part, unless it is copied into fp32."""
    if read.bits != made.plain:
        return read
    wide = Dim(role="latent", size=mixer.kv_rank + mixer.rope_dim)
    return replace(read, tensor=replace(read.tensor, dims=(*read.tensor.dims[:-1], wide)))


def _row(made: Maker, name: str, dim: Dim) -> Saved:
    return made.kept(f"{name}.gradient", "backward", (dim,), "nonlinear", "other")
