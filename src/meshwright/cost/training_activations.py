"""A model, columns of layouts and a length go in; the activation bytes of one micro-batch come out, by block kind.

Every copy of the model trains on samples of its own, so the data-parallel axes cut nothing of a copy's micro-batch; the
ownership table cuts the rest (state `activations`). Rows routed to experts are dealt evenly, without dropping any.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from meshwright.base.numbers import ceil, divide_up, maximum, minimum, where, whole
from meshwright.base.traced import named
from meshwright.cost.context import context_message_bytes
from meshwright.cost.pipelines import along_rows
from meshwright.layout.context import has_context
from meshwright.layout.layouts import distinct
from meshwright.layout.ownership import fullest_sizes, product
from meshwright.model.feed_forwards import Experts
from meshwright.model.tensors import Dim, Tensor
from meshwright.workload.context_split import RING_OF_ZIGZAG, ContextPlan
from meshwright.workload.expert_rows import EVEN, EVEN_LOADS, ExpertRows, Loads, loads_of
from meshwright.workload.gradients import block_gradients, head_gradients
from meshwright.workload.recomputing import read_recompute
from meshwright.workload.saved import block_saved, embedding_saved, head_saved
from meshwright.workload.saved_entries import AttentionKernel, Elementwise, Kernels, Loss
from meshwright.workload.training_messages import training_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from meshwright.base.numbers import Ints
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.workload.gradients import Groups
    from meshwright.workload.recomputing import Recompute
    from meshwright.workload.saved import BlockSet
    from meshwright.workload.saved_entries import Saved

_SOURCE: Final = 'chapter "Training systems", section 10.2.2'
Stages: TypeAlias = Literal["own", "least"]
_CUTS: Final = ("tp", "sp", "cp")
_EXPERT_CUTS: Final = ("ep", "etp")
_STAGES: Final = ("pp", "virtual_stages")
_CORE: Final = frozenset({"attention", "softmax"})
"""Operators of core attention, which ulysses gives all positions of some heads."""
_RING_BUFFERS: Final = 2
NOT_MODELLED: Final = (
    "uneven routing: every rank of an expert group takes as many rows as it sends",
    "under `uniform_N` and `every_N`, stages with fewer layers than the fullest: taken to keep as much a layer",
    "under `every_N`, layers of a stage that N leaves over: they keep everything, and one in N of their passes repeats",
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
    stages: Stages = "own",
    experts: ExpertRows = EVEN,
    context: ContextPlan = RING_OF_ZIGZAG,
) -> ActivationColumns:
    """Activation bytes of one micro-batch of `micro_batch` samples a copy, each of `sequence` positions.

    Every layer keeps what the row's recompute policy says. stages: `own` virtual stages of each row; `least` gives what
    no virtual stage keeps less of, with at least as many layers as its policy spreads over. context: how ranks of cp
    share a sequence. Raises LAY030 for a policy that is not known.
    """
    kernels = Kernels(attention=kernel, elementwise=elementwise, loss=loss)
    sparse = any(isinstance(block.feed_forward, Experts) for block in model.kinds)
    few, place = distinct(layouts, (*_CUTS, *(_EXPERT_CUTS if sparse else ())))
    sizes = _Sizes(layouts=few, positions=sequence, loads=loads_of(model, experts))
    parts = [_kind_parts(model, kind, replace(sizes, kind=kind), kernels, context) for kind in range(len(model.kinds))]
    ends = (
        sizes.total(head_saved(model, sequence, kernels)),
        sizes.total(embedding_saved(model, sequence, kernels)),
        sizes.most(head_gradients(model, sequence, kernels)),
    )
    by_way, way = _by_policy(model, layouts, parts, stages)
    batch = layouts.degree("micro_batch")
    rows: Any = way * by_way.shape[2] + place
    saved, rebuilt = (along_rows(part.reshape(-1, part.shape[2]), rows) * batch[:, None] for part in by_way)
    head, embedding, transient = np.stack(ends)[:, place] * batch
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
    """Sizes of entries of one sample under columns of cuts; dims that many entries share are cut once (`known`).

    loads: of experts' rows, those of a block kind.
    """

    layouts: Layouts
    positions: Any
    known: dict[tuple[Dim, ...], Any] = field(default_factory=dict[tuple[Dim, ...], Any])
    loads: Loads = EVEN_LOADS
    kind: int | None = None

    def total(self, entries: Sequence[Saved]) -> Ints:
        """Bytes of entries together."""
        held: Any = np.zeros(len(self.layouts), dtype=np.int64)
        for entry in entries:
            held = held + self.of(entry)
        return held

    def most(self, groups: Groups) -> Ints:
        """Bytes of the largest group."""
        return reduce(maximum, (self.total(group) for group in groups.values()))

    def of(self, entry: Saved) -> Ints:
        """Bytes of one entry on the fullest rank."""
        dims = entry.tensor.dims
        if dims not in self.known:
            self.known[dims] = product(fullest_sizes(entry.tensor, self.layouts, "activations"))
        elements = self.known[dims]
        if entry.visits:
            elements = elements * self._visits(entry.visits)
        sized = np.broadcast_to(np.asarray(elements * entry.bits // 8), len(self.layouts))
        return named(sized, f"{entry.tensor.name}_bytes")

    def _visits(self, top_k: int) -> Ints:
        """Rows that the experts of the busiest rank work on: if even, a share of those that its expert group brings.

        A rank of ep x etp = tp x n ranks brings the rows of its tp group with n - 1 other groups, each row once; an etp
        rank works on every row of its experts. Without sp the tp ranks hold the same rows, and ep may be less than tp.
        """
        rows, _ = fullest_sizes(_rows(self.positions), self.layouts, "activations")
        visits: Any = rows * top_k
        shared = divide_up(visits * self.layouts.degree("etp"), self.layouts.degree("tp"))
        alone = maximum(shared, divide_up(visits, self.layouts.degree("ep")))
        even = where(self.layouts.columns["sp"], shared, alone)
        return self.loads.saved(self.kind, self.layouts, rows, even)


def _rows(positions: Any) -> Tensor:
    """The rows that a tp group brings together: cut by cp, and by tp nowhere."""
    dims = (Dim(role="positions", size=positions), Dim(role="heads", size=1))
    return Tensor(name="rows", part="experts", dims=dims)


def _by_policy(model: Model, layouts: Layouts, parts: Sequence[_Parts], stages: Stages) -> tuple[Ints, Ints]:
    """[2, ways, rows of `parts`, kinds] of bytes kept and of bytes beside, of one sample; and the way of each layout.

    A way is a policy; where one treats layers of a stage unlike, also so many layers.
    """
    spread = stages == "own" and any(read_recompute(name).spread for name in layouts.values_of("recompute").values)
    ways, way = distinct(layouts, ("recompute", *(_STAGES if spread else ())))
    layers = divide_up(np.asarray(model.layers), ways.degree("pp") * ways.degree("virtual_stages"))
    found: list[Any] = []
    known: dict[str, list[tuple[Ints, Ints]]] = {}
    for row, name in enumerate(ways.columns["recompute"].tolist()):
        policy = read_recompute(name)
        if name not in known:
            known[name] = [part.treated(policy) for part in parts]
        both = zip(parts, known[name], strict=True)
        count = layers[row] if stages == "own" else policy.every * policy.chunk
        found.append([part.spread(policy, one, count) if policy.spread else one for part, one in both])
    table = np.array(found).reshape(len(ways), len(parts), 2, len(parts[0].whole))
    return np.moveaxis(table, (2, 3), (0, 2)), way


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """Bytes of one layer of a kind. sizes: of each entry of its set.   whole: all it keeps when nothing is made again.

    mixer, feed_forward: gradients of the operator that holds most, in either half.
    """

    block: BlockSet
    sizes: Mapping[tuple[str, int], Ints]
    whole: Ints
    mixer: Ints
    feed_forward: Ints

    def treated(self, policy: Recompute) -> tuple[Ints, Ints]:
        """Bytes kept by a layer that the policy treats, and the most beside them while its backward runs.

        The half with the feed-forward goes first, and what it kept is free before the other half's backward runs.
        """
        kept = {item.storage for item in policy.kept(self.block)}
        halves = self.block.saved[: self.block.mixing], self.block.saved[self.block.mixing :]
        first, second = ([self.sizes[item.storage] for item in half if item.storage not in kept] for half in halves)
        freed = self._sum(self.sizes[item.storage] for item in halves[1] if item.storage in kept)
        held = self._sum(self.sizes[key] for key in sorted(kept))
        if policy.rebuilt == "layer":
            made, freed = self._sum([*first, *second]), freed + self._sum(second)
            return held, made + maximum(self.feed_forward, self.mixer - freed)
        at_once = self._sum if policy.rebuilt == "half" else self._most
        return held, maximum(at_once(second) + self.feed_forward, at_once(first) + self.mixer - freed)

    def _sum(self, columns: Iterable[Ints]) -> Ints:
        return sum(columns, self.whole * 0)

    def _most(self, columns: Iterable[Ints]) -> Ints:
        return reduce(maximum, columns, self.whole * 0)

    def spread(self, policy: Recompute, treated: tuple[Ints, Ints], layers: Any) -> tuple[Ints, Ints]:
        """As `treated`, over the layers of a virtual stage, which keep different things: rounded up to one layer's."""
        kept, beside = treated
        count = layers // policy.every
        stage = kept * divide_up(count, policy.chunk) + self.whole * (layers - count)
        return divide_up(stage, layers), beside + self.whole * (minimum(layers, policy.chunk) - 1)


def _kind_parts(model: Model, kind: int, sizes: _Sizes, kernels: Kernels, context: ContextPlan) -> _Parts:
    block = block_saved(model, kind, sizes.positions, kernels)
    core, mixed = sizes, None
    if context.exchange == "ulysses" and has_context(sizes.layouts):
        core, (block, mixed) = _by_heads(sizes), _with_output(block, kernels)
    held = {
        item.storage: (core if item.operator in _CORE else sizes).of(item)
        for item in (*block.saved, block.input, *block.core_inputs)
    }
    if mixed is not None:  # one rank has its output once
        held[mixed.storage] = where(sizes.layouts.degree("cp") > 1, held[mixed.storage], np.zeros(1, dtype=np.int64))
    mixer, feed_forward = block_gradients(model, kind, sizes.positions, kernels)
    beside = _exchanged(model, kind, sizes, context)
    groups = (_group_size(name, group, sizes, core, beside) for name, group in mixer.items())
    return _Parts(
        block=block,
        sizes=held,
        whole=sum((held[item.storage] for item in block.saved), np.zeros(len(sizes.layouts), dtype=np.int64)),
        mixer=reduce(maximum, groups),
        feed_forward=sizes.most(feed_forward),
    )


def _group_size(name: str, group: tuple[Saved, ...], sizes: _Sizes, core: _Sizes, beside: Ints) -> Ints:
    """Bytes of gradients that an operator of the mixer's half holds, the residual's first, and of what is beside."""
    if not name.startswith("attention"):
        return sizes.total(group)
    return sizes.total(group[:1]) + core.total(group[1:]) + beside


def _by_heads(sizes: _Sizes) -> _Sizes:
    """Sizes of what ulysses deals out by heads: as if the ranks of cp were ranks of tp, and none shared positions."""
    layouts = sizes.layouts
    ones = np.ones(len(layouts), dtype=np.int64)
    return _Sizes(
        layouts=layouts.changed({"tp": layouts.degree("tp") * layouts.degree("cp"), "cp": ones}),
        positions=sizes.positions,
    )


def _with_output(block: BlockSet, kernels: Kernels) -> tuple[BlockSet, Saved | None]:
    """The set with the output of a flash kernel as it was before it went back to its rows: both are kept.

    Source: Dao, FlashAttention-2 (arXiv:2307.08691), algorithm 2, reads the output; Jacobs et al., DeepSpeed Ulysses,
    2023 (arXiv:2309.14509), section 3.1.
    """
    given = {item.tensor.name: item for item in block.saved}.get("attention_output")
    if given is None or kernels.attention != "flash":
        return block, None
    name = replace(given.tensor, name="attention_output_by_heads")
    made = replace(given, tensor=name, operator="attention", core=True)
    saved = (*block.saved[: block.mixing], made, *block.saved[block.mixing :])
    return replace(block, saved=saved, mixing=block.mixing + 1), made


def _exchanged(model: Model, kind: int, sizes: _Sizes, context: ContextPlan) -> Ints:
    """Bytes of keys and values of other ranks, and of their gradients, beside the backward of one layer's attention.

    A ring has two buffers of each, one in use and one on its way; a gather brings all together again, and makes the
    gradients of all. Source: TransformerEngine, context_parallel.py (AttnFuncWithCPAndKVP2P, and its AllGather twin):
    entered from general knowledge, to be checked.
    """
    layouts = sizes.layouts
    none: Any = np.zeros(len(layouts), dtype=np.int64)
    if not has_context(layouts):
        return none
    ranks = layouts.degree("cp")
    rows = divide_up(sizes.positions, ranks)
    held: Any = none
    for message in training_messages(model, context):
        if message.axis == "cp" and message.place == kind and message.operation in {"ring", "all_gather"}:
            each = context_message_bytes(model, layouts, rows, 1, message)
            held = held + each * (_RING_BUFFERS if message.operation == "ring" else ranks) * 2
    return where(ranks > 1, whole(ceil(held)), none)
