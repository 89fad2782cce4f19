"""A model goes in; what the ranks of a stage exchange while they train on one micro-batch comes out, layer by layer.

Of the same products as the exchanges of a forward step (`messages`). Gradients and gathered weights are no messages
here: their bytes follow from the ownership table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from meshwright.model.feed_forwards import Experts
from meshwright.workload.context_split import RING_OF_ZIGZAG, ContextPlan

if TYPE_CHECKING:
    from meshwright.model.mixers.told import SessionState
    from meshwright.model.model import Model
    from meshwright.model.tensors import Tensor

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
            rows = layer.top_k * model.hidden
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
    layer = model.kinds[kind].feed_forward
    last: TrainingOperation = "merge" if isinstance(layer, Experts) and layer.shared is None else "all_reduce"
    return [
        TrainingMessage(operation="all_reduce", axis="tp", place=kind, after="mixer", row_elements=model.hidden),
        TrainingMessage(operation=last, axis="tp", place=kind, after="feed_forward", row_elements=model.hidden),
    ]


def _over_cp(model: Model, kind: int, context: ContextPlan) -> list[TrainingMessage]:
    """What the ranks that share a sequence exchange in a layer.

    Under zigzag a rank has an early and a late stretch, so state passes through all ranks and back. Source: Sun et al.,
    "Linear attention sequence parallelism", 2024 (arXiv:2404.02882), section 3 (state from rank to rank).
    """
    mixer = model.kinds[kind].mixer
    state = tuple(item.tensor for item in mixer.token_state())
    sessions = mixer.session_state()
    found: list[TrainingMessage] = []
    if context.exchange == "ulysses":
        met = mixer.pair_products("expanded")
        queries, mixed = tuple(item.scores for item in met), tuple(item.values for item in met if item.values.elements)
        own = any(dim.role == "kv_heads" for tensor in state for dim in tensor.dims)
        inputs = queries if own else (*queries, *queries, *mixed)
        kept = state if own else ()
        found += [
            TrainingMessage(
                operation="all_to_all", axis="cp", place=kind, after="projections", state=kept, heads=inputs
            ),
            TrainingMessage(operation="all_to_all", axis="cp", place=kind, after="attention", heads=mixed),
        ]
    else:
        operation: TrainingOperation = "ring" if context.exchange == "ring" else "all_gather"
        found.append(
            TrainingMessage(operation=operation, axis="cp", place=kind, after="attention", state=state, backward=2)
        )
    if sessions:
        times = context.stretches
        passed = TrainingMessage(operation="pass", axis="cp", place=kind, after="recurrence", sessions=sessions)
        found.append(replace(passed, forward=times, backward=times))
    return found


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
