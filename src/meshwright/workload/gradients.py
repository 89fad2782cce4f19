"""A block kind and a length go in; the gradients that each operator's backward holds at once come out, of one sample.

A gradient lives from the operator that makes it to the one that takes it: beside the residual's own, a backward holds
those of what its operator gave and of what it took. Gradients of parameters are not here: they are state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from meshwright.model.feed_forwards import Dense, Experts, usual_feed_forward
from meshwright.model.mixers import LatentAttention, plain_attention
from meshwright.model.tensors import Dim
from meshwright.workload.attention import scores
from meshwright.workload.saved_entries import FP32_BITS, Kernels, Maker, Saved
from meshwright.workload.saved_latent import latent_gradients

if TYPE_CHECKING:
    from meshwright.model.model import Model

Groups: TypeAlias = dict[str, tuple[Saved, ...]]
"""By operator, in the order of the forward pass."""


def block_gradients(model: Model, kind: int, positions: Any, kernels: Kernels) -> tuple[Groups, Groups]:
    """Of the half with the mixer, and of that with the feed-forward; the residual's gradient is in each group."""
    made = Maker(model=model, positions=positions, kernels=kernels)
    layer = usual_feed_forward(model.kinds[kind].feed_forward, "saved activations")
    norm = {"norm": _norm(made)} if model.kinds[kind].norms else {}
    own = _dense(made, layer, "mlp") if isinstance(layer, Dense) else _experts(made, layer)
    residual = _rows(made, "residual", made.hidden)
    mixer, feed_forward = (
        {name: (residual, *held) for name, held in groups.items()}
        for groups in ({**norm, **_attention(made, kind)}, {**norm, **own})
    )
    return mixer, feed_forward


def head_gradients(model: Model, positions: Any, kernels: Kernels) -> Groups:
    """What the backward of the end holds at once.

    Loss: gradients in fp32 of log-probabilities and of logits; a fused one makes both block by block, and holds that of
    the head's input alone. Source: torch 2.13, cross_entropy_loss = log_softmax, then nll_loss, whose backwards each
    give a tensor of their own.
    """
    made = Maker(model=model, positions=positions, kernels=kernels)
    vocab, given = Dim(role="vocab", size=model.vocab), _rows(made, "head_input", made.hidden)
    names = ("log_probabilities", "logits")
    whole = tuple(_rows(made, name, vocab, bits=FP32_BITS) for name in names)
    loss = (given,) if kernels.loss == "fused" else whole
    return {"norm": (given, *_norm(made)), "loss": loss} if model.ends.final_norm else {"loss": loss}


def _rows(made: Maker, name: str, *dims: Dim, bits: int | None = None) -> Saved:
    return made.kept(f"{name}.gradient", "backward", dims, "nonlinear", "other", bits=bits)


def _norm(made: Maker) -> tuple[Saved, ...]:
    """Of the output, and operator by operator of the normed values, of both factors, in fp32."""
    if made.model.norm != "rms" or made.kernels.elementwise == "fused":
        return (_rows(made, "output", made.hidden),)
    steps = ("normed", "input_by_product", "input_by_statistics")
    return tuple(_rows(made, name, made.hidden, bits=FP32_BITS) for name in steps)


def _attention(made: Maker, kind: int) -> Groups:
    given = made.model.kinds[kind].mixer
    if isinstance(given, LatentAttention) and given.top_k is None:
        return latent_gradients(made, given)
    mixer = plain_attention(given, "saved activations")
    heads, keys = scores(mixer).dims[0], mixer.token_state()[0].tensor.dims[-1]
    mixed, query = _rows(made, "attention_output", heads), _rows(made, "query", heads)
    key, value = _rows(made, "key", keys), _rows(made, "value", keys)
    inputs = {"self_attn.q_proj": (query, key, value, _rows(made, "normed", made.hidden))}
    output = {"self_attn.o_proj": (mixed,)}
    if made.kernels.attention == "flash":
        return {**inputs, "attention": (mixed, query, key, value), **output}
    pairs = Dim(role="positions", size=made.positions * made.positions, grain=made.positions)
    count = Dim(role="heads", size=mixer.heads)
    square = {
        name: made.scores(f"{name}.gradient", "backward", (count, pairs), "nonlinear", bits=bits)
        for name, bits in (("probabilities", FP32_BITS), ("scores", FP32_BITS), ("products", made.plain))
    }
    steps = {
        "attention.scores": (value, square["products"], query, key),
        "attention.softmax": (value, square["probabilities"], square["scores"]),
        "attention.values": (mixed, value, square["products"]),
    }
    return {**inputs, **steps, **output}


def _dense(made: Maker, layer: Dense, name: str) -> Groups:
    width = Dim(role="intermediate", size=layer.intermediate)
    product = _rows(made, f"{name}.product", width)
    unit = tuple(_rows(made, f"{name}.{item}", width) for item in (("gate", "up") if layer.gated else ("up",)))
    inputs = tuple(_rows(made, f"{name}.input_by_{number}", made.hidden) for number in range(len(unit)))
    return {f"{name}.up_proj": (*unit, *inputs), f"{name}.act_fn": (product, *unit), f"{name}.down_proj": (product,)}


def _experts(made: Maker, layer: Experts) -> Groups:
    width = Dim(role="expert_intermediate", size=layer.intermediate)

    def routed(name: str, dim: Dim) -> Saved:
        return made.routed(f"mlp.experts.{name}.gradient", "backward", (dim,), "nonlinear", visits=layer.top_k)

    output, product, given = routed("output", made.hidden), routed("product", width), routed("input", made.hidden)
    unit = tuple(routed(item, width) for item in (("gate", "up") if layer.gated else ("up",)))
    shared = {} if layer.shared is None else _dense(made, layer.shared, "mlp.shared_expert")
    return {
        "mlp.experts.up_proj": (*unit, given),
        "mlp.experts.act_fn": (product, *unit),
        "mlp.experts.down_proj": (output, product),
        **shared,
    }
