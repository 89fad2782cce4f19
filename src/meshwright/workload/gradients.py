"""A block kind and a length go in; the gradients that each operator's backward holds at once come out, of one sample.

A gradient lives from the operator that makes it to the one that takes it: beside the residual's own, a backward holds
those of what its operator gave and of what it took. Gradients of parameters are not here: they are state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.tensors import Dim
from meshwright.workload.saved_entries import FP32_BITS, Kernels, Maker, Saved

if TYPE_CHECKING:
    from meshwright.model.feed_forwards import FeedForward
    from meshwright.model.model import Model

Groups: TypeAlias = dict[str, tuple[Saved, ...]]
"""By operator, in the order of the forward pass."""


def block_gradients(model: Model, kind: int, positions: Any, kernels: Kernels) -> tuple[Groups, Groups]:
    """Of the half with the mixer, and of that with the feed-forward; the residual's gradient is in each group."""
    made = Maker(model=model, positions=positions, kernels=kernels)
    block, residual = model.kinds[kind], _rows(made, "residual", made.hidden)
    norm = {"norm": _norm(made)} if block.norms else {"norm": ()}
    told = block.mixer.training(model.hidden, kernels.attention, kernels.elementwise).gradients
    of_mixer = {name: tuple(made.told(held)) for name, held in told.items()}
    mixer, feed_forward = (
        {name: (residual, *held) for name, held in groups.items()}
        for groups in ({**norm, **of_mixer}, {**norm, **_feed_forward(made, block.feed_forward)})
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


def _feed_forward(made: Maker, layer: FeedForward) -> Groups:
    if isinstance(layer, Dense):
        return _dense(made, layer, "mlp")
    return _experts(made, layer) if isinstance(layer, Experts) else {"mlp": (_rows(made, "input", made.hidden),)}


def _dense(made: Maker, layer: Dense, name: str) -> Groups:
    width = Dim(role="intermediate", size=layer.intermediate)
    product = _rows(made, f"{name}.product", width)
    unit = tuple(_rows(made, f"{name}.{item}", width) for item in (("gate", "up") if layer.gated else ("up",)))
    inputs = tuple(_rows(made, f"{name}.input_by_{number}", made.hidden) for number in range(len(unit)))
    return {f"{name}.up_proj": (*unit, *inputs), f"{name}.act_fn": (product, *unit), f"{name}.down_proj": (product,)}


def _experts(made: Maker, layer: Experts) -> Groups:
    width = Dim(role="expert_intermediate", size=layer.intermediate)

    def routed(name: str, dim: Dim, bits: int | None = None) -> Saved:
        named = f"mlp.experts.{name}.gradient"
        return made.routed(named, "backward", (dim,), "nonlinear", visits=layer.top_k, bits=bits)

    inner = made.hidden if layer.latent is None else Dim(role="hidden", size=layer.latent)
    output, product, given = routed("output", inner), routed("product", width), routed("input", inner)
    unit = tuple(routed(item, width) for item in (("gate", "up") if layer.gated else ("up",)))
    shared = {} if layer.shared is None else _dense(made, layer.shared, "mlp.shared_expert")
    return {
        "mlp.experts.up_proj": (*unit, given),
        "mlp.experts.act_fn": (product, *unit),
        "mlp.experts.down_proj": (output, product),
        **_weighed(
            made, layer, routed("weighed", inner, FP32_BITS), routed("weighed_output", inner, FP32_BITS), output
        ),
        **shared,
    }


def _weighed(made: Maker, layer: Experts, *held: Saved) -> Groups:
    """Route weights in fp32 make the sum over experts one in fp32; the shared expert's backward is over by then.

    Source: transformers 5.24, DeepseekV3MoE and grouped_mm_experts_forward.
    """
    if not layer.router_fp32 or made.plain == FP32_BITS:
        return {}
    shared = () if layer.shared is None else (_rows(made, "shared_input", made.hidden),)
    return {"mlp.experts.combine": (*shared, _rows(made, "combined", made.hidden, bits=FP32_BITS), *held)}
