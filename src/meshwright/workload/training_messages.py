"""A model goes in; what the ranks of a stage exchange while they train on one micro-batch comes out, layer by layer.

Of the same products as the exchanges of a forward step (`messages`). Gradients and gathered weights are no messages
here: their bytes follow from the ownership table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from meshwright.layout.ownership import AXIS_OF_ROLE
from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.mixers import LatentAttention
from meshwright.model.tensors import Dim, Tensor
from meshwright.workload.context_split import RING_OF_ZIGZAG, ContextPlan

if TYPE_CHECKING:
    from meshwright.model.mixers import Mixer
    from meshwright.model.mixers.told import SessionState
    from meshwright.model.model import Model

TrainingOperation: TypeAlias = Literal["all_reduce", "merge", "all_to_all", "ring", "all_gather", "pass"]
"""`merge`: of rows that routed experts worked on. An all_reduce where the experts lie among tp ranks, which hold the
rows; a gather where each tp rank routed a part of them to experts elsewhere; nothing under sp, where a rank routes rows
of its own and gets them back. `pass`: of state of fixed size from one rank of cp to the next, as positions follow."""
NOT_MODELLED: Final = (
    "ep: skewed routing, dropped rows and hierarchical exchange (uniform dropless routing, an even all_to_all)",
    "cp: rounds of a ring over rows that tokens choose, or that stand for several positions: taken to be alike",
    "sp: gathers of kept inputs before gradients of weights, which run beside gradients of inputs",
    "the reductions of a vocabulary-parallel loss, of gradient norms, of norms under sp, of KV heads that tp repeats",
    "exchanges of adapters over tp",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMessage:
    """One kind of exchange of one layer, or of an end of the model.

    place: the index of its block kind, or `first` or `last` stage.   after: the operator whose result goes out.
    row_elements: of one row.   state: instead of these, the tensors of a row that go to other ranks of cp, cut as the
    ownership table says.   heads: the same of activations that go by heads.   sessions: state of a whole sequence.
    forward, backward: how often a pass has it; a recomputed operator repeats its forward ones.
    """

    operation: TrainingOperation
    axis: str
    place: int | Literal["first", "last"]
    after: str
    row_elements: int = 0
    state: tuple[Tensor, ...] = ()
    heads: tuple[Tensor, ...] = ()
    sessions: tuple[SessionState, ...] = ()
    forward: int = 1
    backward: int = 1


@cache
def training_messages(model: Model, context: ContextPlan = RING_OF_ZIGZAG) -> tuple[TrainingMessage, ...]:
    """Every exchange of one layer of each kind, then of the ends.

    A row-parallel product leaves partial sums, a column-parallel one partial gradients of its input: one all_reduce a
    pass each (as reduce_scatter and all_gather under sp). Experts on other ranks get their rows and return them; a
    shared one is cut over tp as a dense layer is. The ring of cp passes K and V once forward; backward passes them and
    their gradients, and so do a gather and, of gradients, a reduction. Ulysses brings heads of Q, K and V together and
    takes outputs back. State of fixed size passes from rank to rank. Source: Shoeybi et al., Megatron-LM, 2019
    (arXiv:1909.08053), section 3; Korthikanti et al., 2022 (arXiv:2205.05198), section 4.2; Liu et al., Ring Attention,
    2023 (arXiv:2310.01889), section 3; Jacobs et al., DeepSpeed Ulysses, 2023 (arXiv:2309.14509), section 3.
    """
    found: list[TrainingMessage] = []
    for kind, block in enumerate(model.kinds):
        found += [*_layer(model, kind), *_over_cp(model, kind, context)]
        layer = block.feed_forward
        if isinstance(layer, Experts):
            rows = layer.top_k * (model.hidden if layer.latent is None else layer.latent)
            after = "experts"
            found += [
                TrainingMessage(
                    operation="all_to_all",
                    axis="ep",
                    place=kind,
                    after=after,
                    row_elements=rows,
                    forward=2,
                    backward=2,
                ),
                TrainingMessage(operation="all_reduce", axis="etp", place=kind, after=after, row_elements=rows),
            ]
    return (*found, *_ends(model))


def _layer(model: Model, kind: int) -> list[TrainingMessage]:
    layer, found = model.kinds[kind].feed_forward, _after_mixer(model, kind)
    if isinstance(layer, (Dense, Experts)):
        last: TrainingOperation = "merge" if isinstance(layer, Experts) and layer.shared is None else "all_reduce"
        width = model.hidden
        found.append(TrainingMessage(operation=last, axis="tp", place=kind, after="feed_forward", row_elements=width))
    return found


def _after_mixer(model: Model, kind: int) -> list[TrainingMessage]:
    """Of rows of the model's width, and of narrower ones that matrices of a mixer hand to each other.

    A matrix that tp does not cut gives every rank the same row; where cut matrices or heads read it, each has a part of
    its gradient. Under sp these rows are gathered and their gradients reduced in place of the model's: both passes
    together send as much as here. Source: Megatron-Core, MultiLatentAttention (linear_q_down_proj and
    linear_kv_down_proj duplicated over tp): entered from general knowledge, to be checked.
    """
    mixer = model.kinds[kind].mixer
    weights = {tensor.name: tensor for tensor in mixer.weights(model.hidden)}
    used = [weights[f"{item.name}.weight"] for item in mixer.matrix_products("expanded") if item.backward]
    sums, gradients, summed, read = 0, 0, 0, 0
    for tensor in used:
        out, inner = tensor.dims[-2], tensor.dims[-1]
        partial, cut = _on_tp(inner) and not _on_tp(out), _on_tp(out)
        if out.role != "hidden" and not cut:
            sums, gradients = sums + out.size * partial, gradients + out.size
        summed |= out.role == "hidden" and partial
        read |= inner.role == "hidden" and cut
    usual = TrainingMessage(operation="all_reduce", axis="tp", place=kind, after="mixer", row_elements=model.hidden)
    inside = replace(usual, after="low_rank_rows")
    rows = [
        replace(usual, forward=int(summed), backward=int(read)),
        replace(inside, row_elements=sums, backward=0),
        replace(inside, row_elements=gradients, forward=0),
    ]
    return [item for item in rows if item.row_elements and item.forward + item.backward]


def _on_tp(dim: Dim) -> bool:
    return AXIS_OF_ROLE.get(dim.role) == "tp"


def _over_cp(model: Model, kind: int, context: ContextPlan) -> list[TrainingMessage]:
    """What the ranks that share a sequence exchange in a layer.

    Under zigzag a rank has an early and a late stretch, so state passes through all ranks and back. Source: Sun et al.,
    "Linear attention sequence parallelism", 2024 (arXiv:2404.02882), section 3 (state from rank to rank).
    """
    mixer, found = model.kinds[kind].mixer, list[TrainingMessage]()
    sessions, met = mixer.session_state(), mixer.pair_products("expanded")
    whole = TrainingMessage(operation="all_gather", axis="cp", place=kind, after="attention", backward=2)
    if context.exchange == "ulysses" and met:
        found += _by_heads(mixer, replace(whole, operation="all_to_all", backward=1), whole)
    elif met:
        operation: TrainingOperation = "ring" if context.exchange == "ring" else "all_gather"
        found.append(replace(whole, operation=operation, state=_passed(mixer)))
    if sessions:
        times = context.stretches
        passed = TrainingMessage(operation="pass", axis="cp", place=kind, after="recurrence", sessions=sessions)
        found.append(replace(passed, forward=times, backward=times))
    return found


def _by_heads(mixer: Mixer, exchange: TrainingMessage, gather: TrainingMessage) -> list[TrainingMessage]:
    """Queries, keys and values of heads to who scores them, and outputs back; rows that all heads read are gathered."""
    met, state = [item for item in mixer.pair_products("expanded") if item.values.elements], _passed(mixer)
    queries, mixed = tuple(item.scores for item in met), tuple(item.values for item in met)
    roles = {dim.role for tensor in state for dim in tensor.dims}
    kept = state if "kv_heads" in roles else ()
    made = state if "heads" in roles else ()
    shared = [] if kept or made else [replace(gather, state=state)]
    inputs = replace(exchange, after="projections", state=kept, heads=(*queries, *made))
    return [inputs, *shared, replace(exchange, heads=mixed)]


def _passed(mixer: Mixer) -> tuple[Tensor, ...]:
    """What a ring hands on of a position: what is cached of it, or of latent attention the keys and values made of it.

    So no rank makes those of positions that it does not own. Source: Megatron-Core, MultiLatentAttention under context
    parallelism: entered from general knowledge, to be checked.
    """
    if not isinstance(mixer, LatentAttention) or mixer.top_k is not None:
        return tuple(item.tensor for item in mixer.token_state())
    widths = {"key": mixer.nope_dim + mixer.rope_dim, "value": mixer.value_dim}
    dims = {name: Dim(role="heads", size=mixer.heads * width, grain=width) for name, width in widths.items()}
    return tuple(Tensor(name=name, part="kv_cache", dims=(dim,)) for name, dim in dims.items())


def _ends(model: Model) -> list[TrainingMessage]:
    """The sum over a vocabulary-parallel embedding, and over the gradients that the head's shards leave."""
    return [
        TrainingMessage(
            operation="all_reduce",
            axis="tp",
            place="first",
            after="embedding",
            row_elements=model.hidden,
            backward=0,
        ),
        TrainingMessage(
            operation="all_reduce", axis="tp", place="last", after="lm_head", row_elements=model.hidden, forward=0
        ),
    ]
