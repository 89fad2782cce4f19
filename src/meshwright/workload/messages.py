"""A model goes in; what its ranks exchange in one forward step comes out: operation, axis, bytes and count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from meshwright.base.numbers import N
from meshwright.base.traced import formula
from meshwright.layout.ownership import AXIS_OF_ROLE
from meshwright.model.feed_forwards import Dense, Experts

if TYPE_CHECKING:
    from meshwright.model.model import Model
    from meshwright.model.tensors import Dim

Operation: TypeAlias = Literal["all_reduce", "send_recv", "merge", "ring", "all_gather", "all_to_all", "pass"]
"""`merge`: of what ranks of cp say of their positions. The last four between these share a prompt, as in training."""
NOT_MODELLED: Final = (
    "the all_reduce after a vocabulary-parallel embedding and the gather of its logits (per step one each)",
    "the return of a sampled token from the last stage to the first",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One kind of exchange.

    axis: whose group exchanges.   per_row_bytes: whole bytes of one token's row.   count: how often a step has it;
    `boundary` messages happen once at each stage boundary instead.   after: the operator whose result is exchanged.
    kind: whose layers have it, of what is not alike in all; its bytes are a column of layouts.
    """

    operation: Operation
    axis: str
    after: str
    per_row_bytes: Any
    count: int
    boundary: bool = False
    kind: int | None = None


def messages(model: Model) -> tuple[Message, ...]:
    """The exchanges of a forward step.

    A row-parallel product leaves partial sums on every rank of the tp group: one all_reduce after the mixer, one after
    the feed-forward (experts over ep x etp = tp ranks are merged by the same one); a mixer with another such product
    inside has one more, of that width. A block without a half has none for it. A stage hands the full row from each
    rank to its counterpart, of a model with residual streams all of them. Source: chapter "Supernodes", sections 6.2.2,
    6.3.1.
    """
    row = model.hidden * model.plain.bits // 8
    mixers = _after_mixers(model)
    layers = zip(model.kinds, model.kind_counts, strict=True)
    merged = sum(count for block, count in layers if isinstance(block.feed_forward, (Dense, Experts)))
    return (
        *(
            Message(operation="all_reduce", axis="tp", after=after, per_row_bytes=width, count=count)
            for (after, width), count in mixers.items()
        ),
        Message(operation="all_reduce", axis="tp", after="feed_forward", per_row_bytes=row, count=merged),
        Message(
            operation="send_recv",
            axis="pp",
            after="stage",
            per_row_bytes=row * model.streams,
            count=0,
            boundary=True,
        ),
    )


def _after_mixers(model: Model) -> dict[tuple[str, int], int]:
    """How often a step sums what a mixer's matrices leave partial, by name and bytes of a row."""
    found: dict[tuple[str, int], int] = {("mixer", model.hidden * model.plain.bits // 8): 0}
    for block, count in zip(model.kinds, model.kind_counts, strict=True):
        for tensor in block.mixer.weights(model.hidden):
            if len(tensor.dims) < 2 or not _on_tp(tensor.dims[-1]) or _on_tp(tensor.dims[0]):  # noqa: PLR2004 - [out, in]
                continue
            width = tensor.dims[0].size * model.plain.bits // 8
            name = "mixer" if tensor.dims[0].size == model.hidden else tensor.name.removesuffix(".weight")
            found[name, width] = found.get((name, width), 0) + count
    return found


def _on_tp(dim: Dim) -> bool:
    return AXIS_OF_ROLE.get(dim.role) == "tp"


@formula
def row_bytes(rows: N, hidden: int, element_bytes: N) -> N:
    """Bytes of the hidden states of `rows` tokens. Source: chapter "Supernodes", section 6.1.3."""
    return rows * hidden * element_bytes


@formula
def boundary_bytes(rows: N, hidden: int, element_bytes: N, stage_ranks: int) -> N:
    """Bytes that cross a stage boundary when every rank of a stage holds the full row and sends it to its counterpart.

    Source: chapter "Supernodes", section 6.3.1.
    """
    return row_bytes(rows, hidden, element_bytes) * stage_ranks
