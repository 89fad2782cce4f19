"""A model and a length go in; the tensors that training keeps of one sample from forward to backward come out.

Each has its dims with roles, the bits of an element, and the operator that keeps it; tensors that share storage are one
(q, k and v share their input; gate and up theirs). It is what autograd keeps of the operators as transformers 5.24
calls them, one by one; kernels that keep less, or more, have names:

    attention     flash          q, k, v with their own heads, output, logsumexp
                  materialised   q, and k and v copied to every query head; the square of probabilities, fp32 and cast
                  causal_pairs   q, k, v with their own heads; probabilities of the pairs that the mask leaves
    elementwise   eager          norms: input in fp32, rstd, normed input; gated units: gate, activated gate, up
                  fused          norms: input, rstd; gated units: gate, up
    loss          materialised   log-probabilities in fp32
                  fused          one logsumexp a row: the backward makes the logits again, block by block
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from meshwright.model.feed_forwards import Dense, Experts, Linear, NoFeedForward
from meshwright.model.mixers import NoMixer
from meshwright.model.tensors import Dim
from meshwright.workload.saved_entries import FP32_BITS, INDEX_BITS, Kernels, Maker, Saved

if TYPE_CHECKING:
    from meshwright.model.feed_forwards import FeedForward
    from meshwright.model.model import Block, Model
    from meshwright.model.tensors import Part
    from meshwright.workload.saved_entries import Need

NOT_MODELLED: Final = (
    "activation functions that keep other than their input: a ReLU keeps its result alone, a composed GELU more",
    "a parallel residual, whose two norms share their input",
    "rotary tables and attention masks, kept once a model; dropout, taken as 0",
    "storage that outlives the part in use: a fused query_key_value",
)

_ROUTER: Final = "what a router in fp32 that limits experts to groups keeps beside probabilities: numbers, and a mask"
_PREDICTORS: Final = "training of the layers that predict further tokens (MTP): they are counted apart, and not planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSet:
    """What one block keeps of one sample.

    saved: when nothing is made again, in the order of the forward pass; the first `mixing` of them are those of the
    half with the mixer, whose backward comes last.   input: all that a block made again whole keeps.   core_inputs:
    what core attention made again needs and nobody else keeps: keys and values with their own heads, where copies are.
    """

    saved: tuple[Saved, ...]
    mixing: int
    input: Saved
    core_inputs: tuple[Saved, ...]


def block_saved(model: Model, kind: int, positions: Any, kernels: Kernels) -> BlockSet:
    """The set of one block of a kind for one sample of so many positions. Raises MOD030 for what no mixer tells."""
    made = Maker(model=model, positions=positions, kernels=kernels)
    block = model.kinds[kind]
    before, between, after = _halves(block)
    mixed, worked = not isinstance(block.mixer, NoMixer), not isinstance(block.feed_forward, NoFeedForward)
    told = block.mixer.training(model.hidden, kernels.attention, kernels.elementwise)
    found: list[Saved] = []
    if before is not None:
        found += made.norm(before, made.hidden, (), "hidden", "self_attn.q_proj")
    elif mixed:
        found.append(made.kept("hidden", "self_attn.q_proj", (made.hidden,), "product_input", "attention"))
    found += made.told(told.kept)
    mixing = len(found)
    first, read = _first_product(block.feed_forward), "middle" if mixed else "hidden"
    if between is not None:
        found += made.norm(between, made.hidden, (), read, first)
    elif worked and before is None:
        found.append(made.kept(read, first, (made.hidden,), "product_input", "feed_forward"))
    found += _feed_forward(made, block.feed_forward)
    for name in after:
        found += made.norm(name, made.hidden, (), f"{name}.input", None)
    whole = made.kept("hidden", "block", (made.hidden,), "copy", "norms")
    core_inputs = tuple(made.told(told.core_inputs))
    return BlockSet(saved=tuple(found), mixing=mixing, input=whole, core_inputs=core_inputs)


def left_out(model: Model) -> tuple[str, ...]:
    """What is not counted in the training of this model, beside `NOT_MODELLED`. Raises as `block_saved` does."""
    kernels = Kernels()
    found: list[str] = []
    for block in model.kinds:
        found += block.mixer.training(model.hidden, kernels.attention, kernels.elementwise).left_out
        if isinstance(block.feed_forward, Experts) and block.feed_forward.router_fp32:
            found.append(_ROUTER)
    if any(item.name == "mtp" for item in model.apart):
        found.append(_PREDICTORS)
    return tuple(dict.fromkeys(found))


def head_saved(model: Model, positions: Any, kernels: Kernels) -> tuple[Saved, ...]:
    """What the end of the last stage keeps: the final norm, the head's input, the loss over the vocabulary.

    Source of the fused loss: Wijmans et al., Cut Your Losses in Large-Vocabulary Language Models (arXiv:2411.09009).
    """
    made = Maker(model=model, positions=positions, kernels=kernels)
    vocab = Dim(role="vocab", size=model.vocab)
    found: list[Saved] = []
    if model.ends.final_norm:
        found += made.norm("norm", made.hidden, (), "norm.input", "lm_head")
    else:
        found.append(made.kept("norm.output", "lm_head", (made.hidden,), "product_input", "head"))
    if kernels.loss == "materialised":
        found.append(made.kept("log_probabilities", "loss", (vocab,), "nonlinear", "head", bits=FP32_BITS))
    else:
        found.append(made.kept("logsumexp_of_logits", "loss", (), "nonlinear", "head", bits=FP32_BITS))
    return (*found, made.kept("targets", "loss", (), "index", "head", bits=INDEX_BITS))


def embedding_saved(model: Model, positions: Any, kernels: Kernels) -> tuple[Saved, ...]:
    """What the first stage keeps beside its blocks and the token numbers: the norm of the embedded tokens, if any."""
    made = Maker(model=model, positions=positions, kernels=kernels)
    return made.norm("embed_norm", made.hidden, (), "embed_norm.input", None) if model.ends.embedding_norm else ()


def _halves(block: Block) -> tuple[str | None, str | None, tuple[str, ...]]:
    """The norm before the mixer, the norm before the feed-forward, and those after a half, by their usual names.

    Where the feed-forward has none of its own it reads what the mixer reads (one norm for both), or the residual as it
    is (norms after each half alone).
    """
    after_both = "post_feedforward_layernorm" in block.norms
    behind = ("post_attention_layernorm", "post_feedforward_layernorm") if after_both else ()
    ahead = [name for name in block.norms if name not in behind]
    if isinstance(block.mixer, NoMixer):
        ahead.insert(0, "")
    first, second, *_ = (*ahead, "", "")
    return first or None, second or None, tuple(name for name in block.norms if name in behind)


def _first_product(layer: FeedForward) -> str:
    if isinstance(layer, Experts):
        return "mlp.gate"
    return "mlp.gate_proj" if isinstance(layer, Dense) and layer.gated else "mlp.up_proj"


def _feed_forward(made: Maker, layer: FeedForward) -> list[Saved]:
    """Beside its input, which is all that one matrix keeps."""
    if isinstance(layer, NoFeedForward | Linear):
        return []
    if isinstance(layer, Dense):
        return _dense(made, layer, "mlp", "feed_forward")
    found = [*_router(made, layer), *_experts(made, layer)]
    if layer.latent is not None:
        wide = (Dim(role="hidden", size=layer.latent),)
        found.append(made.kept("latent_output", "mlp.fc2_latent_proj", wide, "product_input", "experts"))
    if layer.shared is not None:
        found += _dense(made, layer.shared, "mlp.shared_expert", "experts")
    if layer.shared_gate:
        found.append(made.kept("shared_output", "mlp.shared_expert_gate", (made.hidden,), "nonlinear", "experts"))
        found.append(made.kept("shared_gate", "mlp.shared_expert_gate", (), "nonlinear", "router"))
    return found


def _dense(made: Maker, layer: Dense, name: str, part: Part) -> list[Saved]:
    width = (Dim(role="intermediate", size=layer.intermediate),)
    unit = [
        made.kept(f"{name}.{item}", f"{name}.act_fn", width, "nonlinear", part) for item in _unit(made, layer.gated)
    ]
    down = f"{name}.down_proj"
    return [*unit, made.kept(f"{name}.product", down, width, "product_input", part, product=layer.gated)]


def _unit(made: Maker, gated: bool) -> tuple[str, ...]:  # noqa: FBT001 - a shape of the model
    """What the unit between the products keeps: of activation(gate) x up, or of activation(up)."""
    if not gated:
        return ("up",)
    return ("gate", "activated", "up") if made.kernels.elementwise == "eager" else ("gate", "up")


def _router(made: Maker, layer: Experts) -> list[Saved]:
    """Probabilities in fp32; of each visit its expert, its weight, and its place in the order of the experts.

    A router in fp32 keeps its input so. Source: transformers 5.24, Qwen3MoeTopKRouter, DeepseekV3TopkRouter and
    grouped_mm_experts_forward.
    """
    routes, visits = Dim(role="routes", size=layer.experts), Dim(role="routes", size=layer.top_k)
    order = ("source_rows", "permutation", "inverse_permutation")
    wide = layer.router_fp32 and made.plain != FP32_BITS
    read = made.kept("route_input", "mlp.gate", (made.hidden,), "copy", "router", bits=FP32_BITS)
    return [
        *((read,) if wide else ()),
        made.kept("route_probabilities", "mlp.gate", (routes,), "nonlinear", "router", bits=FP32_BITS),
        made.kept("route_experts", "mlp.gate", (visits,), "index", "router", bits=INDEX_BITS),
        made.routed("route_weights", "mlp.experts.combine", (), "nonlinear", visits=layer.top_k),
        *(
            made.routed(name, "mlp.experts.dispatch", (), "index", visits=layer.top_k, bits=INDEX_BITS)
            for name in order
        ),
    ]


def _experts(made: Maker, layer: Experts) -> list[Saved]:
    """Rows as grouped products keep them, a copy a visit, in and out. Source: as `_router`."""
    width, name = (Dim(role="expert_intermediate", size=layer.intermediate),), "mlp.experts"
    hidden = (made.hidden if layer.latent is None else Dim(role="hidden", size=layer.latent),)
    first = "gate_proj" if layer.gated else "up_proj"

    def routed(item: str, by: str, dims: tuple[Dim, ...], need: Need, *, product: bool = False) -> Saved:
        return made.routed(f"{name}.{item}", f"{name}.{by}", dims, need, visits=layer.top_k, product=product)

    return [
        routed("input", first, hidden, "product_input"),
        *(routed(item, "act_fn", width, "nonlinear") for item in _unit(made, layer.gated)),
        routed("product", "down_proj", width, "product_input", product=layer.gated),
        routed("output", "combine", hidden, "nonlinear"),
    ]
