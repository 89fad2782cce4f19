"""A model, columns of layouts and a length go in; the activation bytes of one micro-batch come out, by block kind.

Every copy of the model trains on samples of its own, so the data-parallel axes cut nothing of a copy's micro-batch; the
ownership table cuts the rest (state `activations`). Rows routed to experts are dealt evenly, without dropping any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.numbers import divide_up, maximum, minimum, where
from meshwright.base.traced import named
from meshwright.cost.pipelines import along_rows
from meshwright.layout.layouts import distinct
from meshwright.layout.ownership import fullest_sizes, product
from meshwright.model.feed_forwards import Experts
from meshwright.model.tensors import Dim, Tensor
from meshwright.workload.gradients import block_gradients, head_gradients
from meshwright.workload.recomputing import read_recompute
from meshwright.workload.saved import block_saved, embedding_saved, head_saved
from meshwright.workload.saved_entries import AttentionKernel, Elementwise, Kernels, Loss

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meshwright.base.numbers import Ints
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.workload.recomputing import Recompute
    from meshwright.workload.saved import BlockSet
    from meshwright.workload.saved_entries import Saved

_SOURCE: Final = 'chapter "Training systems", section 10.2.2'
_CUTS: Final = ("tp", "sp", "cp")
_EXPERT_CUTS: Final = ("ep", "etp")
NOT_MODELLED: Final = (
    "uneven routing: every rank of an expert group takes as many rows as it sends",
    "ends of a stage that `uniform_N` does not divide, where a chunk is shorter",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActivationColumns:
    """Bytes of one micro-batch on the fullest rank. [rows, kinds] of one layer, or [rows] of an end.

    saved: kept from a layer's forward to its backward.   rebuilt: alive beside while one layer's backward runs: what
    recompute makes again, and the gradients of the operator that holds most.   head: kept by the end of the last stage.
    embedding: kept by the start of the first, beside token numbers.   head_transient: alive beside while the loss's
    backward runs.
    """

    saved: Ints
    rebuilt: Ints
    head: Ints
    embedding: Ints
    head_transient: Ints


def activation_columns(
    model: Model,
    layouts: Layouts,
    *,
    sequence: int,
    kernel: AttentionKernel = "flash",
    loss: Loss = "materialised",
    elementwise: Elementwise = "eager",
) -> ActivationColumns:
    """Activation bytes of one micro-batch of `micro_batch` samples a copy, each of `sequence` positions.

    Every layer keeps what the row's recompute policy says. Raises LAY030 for a policy that is not known.
    """
    kernels = Kernels(attention=kernel, elementwise=elementwise, loss=loss)
    experts = any(isinstance(block.feed_forward, Experts) for block in model.kinds)
    few, place = distinct(layouts, (*_CUTS, *(_EXPERT_CUTS if experts else ())))
    sizes = _Sizes(layouts=few, positions=sequence)
    parts = [_kind_parts(model, kind, sizes, kernels) for kind in range(len(model.kinds))]
    ends = (
        head_saved(model, sequence, kernels),
        embedding_saved(model, sequence, kernels),
        head_gradients(model, sequence, kernels),
    )
    by_way, way = _by_policy(model, layouts, parts)
    batch = layouts.degree("micro_batch")
    rows: Any = way * by_way.shape[2] + place
    saved, rebuilt = (along_rows(part.reshape(-1, part.shape[2]), rows) * batch[:, None] for part in by_way)
    head, embedding, transient = np.stack([sizes.total(entries) for entries in ends])[:, place] * batch
    return ActivationColumns(
        saved=named(saved, "saved_activations_bytes", _SOURCE),
        rebuilt=named(rebuilt, "rebuilt_activations_bytes", _SOURCE),
        head=named(head, "head_activations_bytes"),
        embedding=named(embedding, "embedding_activations_bytes"),
        head_transient=named(transient, "head_gradients_bytes"),
    )


def entry_bytes(entries: Sequence[Saved], layouts: Layouts, positions: Any) -> tuple[Ints, ...]:
    """Bytes of each entry of one sample on the fullest rank, one column an entry."""
    sizes = _Sizes(layouts=layouts, positions=positions)
    return tuple(sizes.of(entry) for entry in entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """Sizes of entries of one sample under columns of cuts."""

    layouts: Layouts
    positions: Any
    known: dict[tuple[tuple[Dim, ...], int], Ints | int] = field(default_factory=dict[Any, Any])

    def total(self, entries: Sequence[Saved]) -> Ints:
        """Bytes of entries together."""
        held: Any = np.zeros(len(self.layouts), dtype=np.int64)
        for entry in entries:
            held = held + self.of(entry)
        return held

    def of(self, entry: Saved) -> Ints:
        """Bytes of one entry on the fullest rank."""
        elements = self._elements(entry)
        sized = np.broadcast_to(np.asarray(elements * entry.bits // 8), len(self.layouts))
        return named(sized, f"{entry.tensor.name}_bytes")

    def _elements(self, entry: Saved) -> Any:
        """Elements of an entry; those of equal dims, which are cut alike, are counted once."""
        key = (entry.tensor.dims, entry.visits)
        if key not in self.known:
            elements: Any = product(fullest_sizes(entry.tensor, self.layouts, "activations"))
            self.known[key] = elements * self._visits(entry.visits) if entry.visits else elements
        return self.known[key]

    def _visits(self, top_k: int) -> Ints:
        """Rows that the experts of one rank work on, an equal share of those that its expert group brings.

        A rank of ep x etp = tp x n ranks brings the rows of its tp group with n - 1 other groups, each row once; an etp
        rank works on every row of its experts. Without sp the tp ranks hold the same rows, and ep may be less than tp.
        """
        rows, _ = fullest_sizes(_rows(self.positions), self.layouts, "activations")
        visits: Any = rows * top_k
        shared = divide_up(visits * self.layouts.degree("etp"), self.layouts.degree("tp"))
        alone = maximum(shared, divide_up(visits, self.layouts.degree("ep")))
        return where(self.layouts.columns["sp"], shared, alone)


def _rows(positions: Any) -> Tensor:
    """The rows that a tp group brings together: cut by cp, and by tp nowhere."""
    dims = (Dim(role="positions", size=positions), Dim(role="heads", size=1))
    return Tensor(name="rows", part="experts", dims=dims)


def _by_policy(model: Model, layouts: Layouts, parts: Sequence[_Parts]) -> tuple[Ints, Ints]:
    """[2, ways, rows of `parts`, kinds] of bytes kept and of bytes beside, of one sample; and the way of each layout.

    A way is a policy; where one treats layers of a stage unlike, also so many layers.
    """
    ways, way = distinct(layouts, ("recompute",))
    if any(read_recompute(name).spread for name in ways.columns["recompute"].tolist()):
        ways, way = distinct(layouts, ("recompute", "pp", "virtual_stages"))
    layers = divide_up(np.asarray(model.layers), ways.degree("pp") * ways.degree("virtual_stages"))
    found: list[Any] = []
    known: dict[str, list[tuple[Ints, Ints]]] = {}
    for row, name in enumerate(ways.columns["recompute"].tolist()):
        policy = read_recompute(name)
        if name not in known:
            known[name] = [part.treated(policy) for part in parts]
        both = zip(parts, known[name], strict=True)
        found.append([part.spread(policy, one, layers[row]) if policy.spread else one for part, one in both])
    beside = np.stack([part.gradients for part in parts], axis=1)
    kept, again = np.moveaxis(np.array(found), (2, 3), (0, 2))
    return np.stack([kept, again + beside]), way


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """Bytes of one layer of a kind, one column an entry of its set. whole: all it keeps when nothing is made again."""

    block: BlockSet
    sizes: Mapping[tuple[str, int], Ints]
    whole: Ints
    gradients: Ints

    def treated(self, policy: Recompute) -> tuple[Ints, Ints]:
        """Bytes kept by a layer that the policy treats, and bytes there at once of what its backward makes again."""
        kept = {item.storage for item in policy.kept(self.block)}
        again = [item.storage for item in self.block.saved if item.storage not in kept]
        none = self.whole * 0
        held = sum((self.sizes[key] for key in sorted(kept)), none)
        if policy.rebuilt == "one_by_one":
            return held, reduce(maximum, (self.sizes[key] for key in again), none)
        return held, sum((self.sizes[key] for key in again), none)

    def spread(self, policy: Recompute, treated: tuple[Ints, Ints], layers: Any) -> tuple[Ints, Ints]:
        """As `treated`, over the layers of a virtual stage, which keep different things: rounded up to one layer's."""
        kept, again = treated
        count = layers // policy.every
        stage = kept * divide_up(count, policy.chunk) + self.whole * (layers - count)
        return divide_up(stage, layers), again + self.whole * (minimum(layers, policy.chunk) - 1)


def _kind_parts(model: Model, kind: int, sizes: _Sizes, kernels: Kernels) -> _Parts:
    block = block_saved(model, kind, sizes.positions, kernels)
    held = {item.storage: sizes.of(item) for item in (*block.saved, block.input, *block.core_inputs)}
    groups = block_gradients(model, kind, sizes.positions, kernels).values()
    return _Parts(
        block=block,
        sizes=held,
        whole=sizes.total(block.saved),
        gradients=reduce(maximum, (sizes.total(group) for group in groups)),
    )
