"""A model goes in; what its ranks exchange in one forward step comes out: operation, axis, bytes and count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from meshwright.base.numbers import N
from meshwright.base.traced import formula
from meshwright.layout.context import by_weights
from meshwright.layout.ownership import AXIS_OF_ROLE
from meshwright.model.feed_forwards import Dense, Experts
from meshwright.workload.row_formats import row_format_bytes

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.model.tensors import Dim

Operation: TypeAlias = Literal[
    "all_reduce", "send_recv", "all_to_all", "all_gather", "reduce_scatter", "merge", "ring", "pass"
]
"""`merge`: of what ranks of cp say of their positions; `ring`, `pass`: between these, of a prompt, as in training."""
Where: TypeAlias = Literal["always", "together", "apart", "dealt", "repeated"]
"""Which layouts have an exchange. `together`: experts lie among the ranks of one copy of attention, which hold the rows
already; `apart`: over several copies, which have rows of their own (`dealt`) or all the same ones (`repeated`)."""
DISPATCH: Final = "router"
COMBINE: Final = "experts"
"""After what an exchange of the experts' rows stands."""
NOT_MODELLED: Final = (
    "the all_reduce after a vocabulary-parallel embedding and the gather of its logits (per step one each)",
    "the return of a sampled token from the last stage to the first",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One kind of exchange.

    axis: whose group exchanges.   per_row_bytes: whole bytes of one token's row.   count: how often a step has it;
    `boundary` messages happen once at each stage boundary instead.   after: the operator whose result is exchanged.
    where: the layouts that have it.   kind: whose layers have it, of what is not alike in all; its bytes are a column
    of layouts.
    """

    operation: Operation
    axis: str
    after: str
    per_row_bytes: Any
    count: int
    boundary: bool = False
    where: Where = "always"
    kind: int | None = None


def messages(model: Model, dispatch: str = "plain", combine: str = "plain") -> tuple[Message, ...]:
    """The exchanges of a forward step.

    A row-parallel product leaves partial sums on every rank of the tp group: one all_reduce after the mixer, one after
    the feed-forward (experts over ep x etp = tp ranks are merged by the same one); a mixer with another such product
    inside has one more, of that width. A block without a half has none for it. A stage hands the full row from each
    rank to its counterpart, of a model with residual streams all of them. Experts over several copies of attention are
    sent their rows and return them (`_apart`). dispatch, combine: formats of these rows, as in `row_formats`. Source:
    chapter "Supernodes", sections 6.2.2, 6.2.6, 6.3.1.
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
        Message(
            operation="all_reduce",
            axis="tp",
            after="feed_forward",
            per_row_bytes=row,
            count=merged,
            where="together" if mixtures_of(model) else "always",
        ),
        *_apart(model, merged, dispatch, combine),
        Message(
            operation="send_recv",
            axis="pp",
            after="stage",
            per_row_bytes=row * model.streams,
            count=0,
            boundary=True,
        ),
    )


def mixtures_of(model: Model) -> list[tuple[int, Experts, int]]:
    """Every kind of block with experts, these, and its layers."""
    layers = enumerate(zip(model.kinds, model.kind_counts, strict=True))
    return [
        (kind, block.feed_forward, count) for kind, (block, count) in layers if isinstance(block.feed_forward, Experts)
    ]


def _apart(model: Model, merged: int, dispatch: str, combine: str) -> tuple[Message, ...]:
    """What a step has where the experts lie over several copies of attention.

    Copies with rows of their own: dispatch sends a row to the ranks of its experts, those that cut an expert between
    them gather what came, and add up its outputs in shards; combine returns the outputs, whose order the sender
    restores and which it adds up by their weights: no sum of the network's. The tp ranks of a copy route a part of its
    rows each, and gather the sums. Copies with the same rows: every group has its input, and sums over etp and ep
    merge the outputs. A dense layer and a shared expert are cut by tp either way. Source: chapter "Supernodes",
    sections 6.2.6 and 6.3.1.
    """
    mixtures = mixtures_of(model)
    if not mixtures:
        return ()
    whole = row_format_bytes(model, "plain")
    cut = merged - sum(layers for _, mixture, layers in mixtures if mixture.shared is None)
    found = [_sum("tp", "feed_forward", whole, cut, "apart")] if cut else []
    for width in dict.fromkeys(mixture.latent for _, mixture, _ in mixtures):
        count = sum(layers for _, mixture, layers in mixtures if mixture.latent == width)
        row, sent, back = (row_format_bytes(model, name, width) for name in ("plain", dispatch, combine))
        moved: tuple[tuple[Operation, str, str, int], ...] = (
            ("all_to_all", "ep", DISPATCH, sent),
            ("all_gather", "etp", DISPATCH, row),
            ("reduce_scatter", "etp", COMBINE, back),
            ("all_to_all", "ep", COMBINE, back),
            ("all_gather", "tp", COMBINE, whole),
        )
        found += [
            Message(operation=name, axis=axis, after=after, per_row_bytes=size, count=count, where="dealt")
            for name, axis, after, size in moved
        ]
        found += [_sum(axis, COMBINE, back, count, "repeated") for axis in ("etp", "ep")]
    return tuple(found)


def _sum(axis: str, after: str, size: int, count: int, where: Where) -> Message:
    return Message(operation="all_reduce", axis=axis, after=after, per_row_bytes=size, count=count, where=where)


def has_message(message: Message, layouts: Layouts) -> Bools:
    """The rows that have an exchange: those of its layouts whose group has more than one rank."""
    layouts = layouts.plain()
    seen = layouts if message.axis == "cp" else by_weights(layouts)
    grouped: Bools = seen.degree(message.axis) > 1
    if message.where == "always":
        return grouped
    apart = over_copies(layouts)
    if message.where in {"together", "apart"} or not apart.any():
        return grouped & (~apart if message.where == "together" else apart)
    dealt = layouts.columns["attention"] == "data_parallel"
    found: Bools = grouped & apart & (dealt if message.where == "dealt" else ~dealt)
    return found


def over_copies(layouts: Layouts) -> Bools:
    """The rows whose experts lie over several copies of attention."""
    spread: Bools = layouts.degree("ep") * layouts.degree("etp") > by_weights(layouts).degree("tp")
    return spread


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
