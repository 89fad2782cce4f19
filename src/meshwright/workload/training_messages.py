"""A model goes in; what the ranks of a stage exchange while they train on one micro-batch comes out, layer by layer.

Of the same products as the exchanges of a forward step (`messages`). Gradients and gathered weights are no messages
here: their bytes follow from the ownership table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from meshwright.model.feed_forwards import Experts
from meshwright.model.mixers import LatentAttention
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers import Mixer
    from meshwright.model.model import Model

TrainingOperation: TypeAlias = Literal["all_reduce", "merge", "all_to_all", "ring"]
"""`merge`: of rows that routed experts worked on. An all_reduce where the experts lie among tp ranks, which hold the
rows; a gather where each tp rank routed a part of them to experts elsewhere; nothing under sp, where a rank routes rows
of its own and gets them back."""
NOT_MODELLED: Final = (
    "ep: skewed routing, dropped rows and hierarchical exchange (uniform dropless routing, an even all_to_all)",
    "cp: other than zigzag shards in a ring (K and V go round beside attention; their gradients come back)",
    "sp: gathers of kept inputs before gradients of weights, which run beside gradients of inputs",
    "the reductions of a vocabulary-parallel loss, of gradient norms, of norms under sp, of KV heads that tp repeats",
    "exchanges of adapters over tp",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMessage:
    """One kind of exchange of one layer, or of an end of the model.

    place: the index of its block kind, or `first` or `last` stage.   after: the operator whose result goes out.
    row_elements: of one row.   state: instead of these, the tensors that go round, cut as the ownership table says.
    forward, backward: how often a pass has it; a recomputed operator repeats its forward ones.
    """

    operation: TrainingOperation
    axis: str
    place: int | Literal["first", "last"]
    after: str
    row_elements: int = 0
    state: tuple[Tensor, ...] = ()
    forward: int = 1
    backward: int = 1


@cache
def training_messages(model: Model) -> tuple[TrainingMessage, ...]:
    """Every exchange of one layer of each kind, then of the ends.

    A row-parallel product leaves partial sums, a column-parallel one partial gradients of its input: one all_reduce a
    pass each (as reduce_scatter and all_gather under sp). Experts on other ranks get their rows and return them; a
    shared one is cut over tp as a dense layer is. The ring of cp passes K and V once forward; backward passes them and
    their gradients. Source: Shoeybi et al., Megatron-LM, 2019 (arXiv:1909.08053), section 3; Korthikanti et al., 2022
    (arXiv:2205.05198), section 4.2; Liu et al., Ring Attention, 2023 (arXiv:2310.01889), section 3.
    """
    found: list[TrainingMessage] = []
    for kind, block in enumerate(model.kinds):
        found += _layer(model, kind)
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
    block, layer = model.kinds[kind], model.kinds[kind].feed_forward
    last: TrainingOperation = "merge" if isinstance(layer, Experts) and layer.shared is None else "all_reduce"
    return [
        TrainingMessage(operation="all_reduce", axis="tp", place=kind, after="mixer", row_elements=model.hidden),
        TrainingMessage(operation=last, axis="tp", place=kind, after="feed_forward", row_elements=model.hidden),
        TrainingMessage(
            operation="ring", axis="cp", place=kind, after="attention", state=_passed(block.mixer), backward=2
        ),
    ]


def _passed(mixer: Mixer) -> tuple[Tensor, ...]:
    """What a ring hands on of a position: what is cached of it, or of latent attention the keys and values made of it.

    So no rank makes those of positions that it does not own. Source: Megatron-Core, MultiLatentAttention under context
    parallelism: entered from general knowledge, to be checked.
    """
    if not isinstance(mixer, LatentAttention):
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
