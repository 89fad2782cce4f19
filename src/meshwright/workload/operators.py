"""The operator table: a model goes in; every distinct matrix product it runs comes out, by block kind.

An operator names the tensors it multiplies by, and the ownership table says how much of them a rank holds: so FLOPs and
bytes of any layout follow from the table without a second list of shards. Norms, biases, rotary embedding, softmax,
activation functions and sampling are not operators here (`NOT_MODELLED`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from meshwright.model.mixers.told import ALL, Form, PositionState, Recurrence, Span
from meshwright.model.model import Model, block_weights, first_weights, last_weights
from meshwright.model.tensors import Tensor
from meshwright.workload import feed_forward

if TYPE_CHECKING:
    from meshwright.workload.batches import Batch

FormChoice: TypeAlias = Literal["by_phase", "expanded", "absorbed"]
Rows: TypeAlias = Literal["tokens", "positions", "routed"]
NOT_MODELLED: Final = (
    "norms, biases, rotary embedding, softmax, activation functions, residual adds and sampling",
    "activation traffic of matrix products (weights and cached state are counted)",
)


NO_SCORES: Final = Tensor(name="none", part="attention", dims=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One kind of matrix product.

    kind: index of the block kind it belongs to, or None at an end.   count: how often the model runs it a step.
    sampled: only rows whose next token is sampled go through it (the head).
    weights: tensors it reads and multiplies by ([..., out, in]).   rows: every token, every position that a token
    reads, or those routed to an expert.   experts, top_k: of a routed operator.
    state, scores, values, span: of attention, as in `PairProduct`.   recurrence: of state of fixed size.   backward:
    whether training takes gradients through it.
    """

    name: str
    kind: int | None
    count: int
    weights: tuple[Tensor, ...] = ()
    rows: Rows = "tokens"
    sampled: bool = False
    experts: int = 0
    top_k: int = 0
    state: tuple[PositionState, ...] = ()
    scores: Tensor = NO_SCORES
    values: Tensor = NO_SCORES
    span: Span = ALL
    recurrence: Recurrence | None = None
    backward: bool = True

    @property
    def shape(self) -> tuple[int, int] | None:
        """(columns out, columns in) of the whole matrix, or None for what has none."""
        return (self.weights[0].shape[-2], self.weights[0].shape[-1]) if self.weights else None


@cache
def operators(model: Model, form: Form = "expanded") -> tuple[Operator, ...]:
    """Every operator of a model, by block kind, then the projections at its ends, if any, then the head.

    form: of latent attention; of other mixers it changes nothing.
    """
    found: list[Operator] = []
    for kind in range(len(model.kinds)):
        found += [*_mixer_operators(model, kind, form), *_feed_forward_operators(model, kind)]
        found += _stream_operators(model, kind)
    return (*found, *_end_operators(model))


def form_of(batch: Batch, choice: FormChoice) -> Form:
    """The form of latent attention in a step: absorbed where each session has one new token, unless it is chosen."""
    if choice != "by_phase":
        return choice
    return "absorbed" if batch.rows == 1 else "expanded"


def _end_operators(model: Model) -> list[Operator]:
    """Every token goes through the projections, also the one before the head: source transformers 5.24, OPTDecoder."""
    ends = (*first_weights(model), *last_weights(model))
    projections = [
        Operator(name=tensor.name.removesuffix(".weight"), kind=None, count=1, weights=(tensor,))
        for tensor in ends
        if tensor.part == "other" and len(tensor.dims) > 1
    ]
    head = next(tensor for tensor in ends if tensor.part == "head")
    return [*projections, Operator(name="lm_head", kind=None, count=1, weights=(head,), sampled=True)]


def _mixer_operators(model: Model, kind: int, form: Form) -> list[Operator]:
    mixer, count = model.kinds[kind].mixer, model.kind_counts[kind]
    matrices = [
        Operator(
            name=item.name,
            kind=kind,
            count=count,
            weights=(_weight(model, kind, item.name),),
            rows=item.rows,
            backward=item.backward,
        )
        for item in mixer.matrix_products(form)
    ]
    pairs = [
        Operator(
            name=item.name,
            kind=kind,
            count=count,
            state=item.state,
            scores=item.scores,
            values=item.values,
            span=item.span,
            backward=item.backward,
        )
        for item in mixer.pair_products(form)
    ]
    turned = [Operator(name=item.name, kind=kind, count=count, recurrence=item) for item in mixer.recurrences()]
    return [*matrices, *pairs, *turned]


def _feed_forward_operators(model: Model, kind: int) -> list[Operator]:
    return [
        Operator(
            name=product.name,
            kind=kind,
            count=model.kind_counts[kind],
            weights=(_weight(model, kind, product.name),),
            rows="routed" if product.routed else "tokens",
            experts=product.experts,
            top_k=product.top_k,
        )
        for product in feed_forward.products(model.kinds[kind].feed_forward)
    ]


def _stream_operators(model: Model, kind: int) -> list[Operator]:
    """The products that weigh residual streams, before the mixer and before the feed-forward."""
    return [
        Operator(name=tensor.name.removesuffix(".fn"), kind=kind, count=model.kind_counts[kind], weights=(tensor,))
        for tensor in block_weights(model, kind)
        if tensor.part == "other" and tensor.name.endswith(".fn")
    ]


def _weight(model: Model, kind: int, name: str) -> Tensor:
    return next(tensor for tensor in block_weights(model, kind) if tensor.name == f"{name}.weight")
