"""One layer's choices, and where its experts lie, go in; its rows come out: loads, bytes, drops, exchanges, times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.traced import cell, held
from meshwright.cost.collectives import all_reduce, port_bytes, program_s
from meshwright.cost.experts import Busiest, distinct_bytes, exchange, expert_bytes, experts_s
from meshwright.cost.groups import group_along
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.scenarios._experts_options import ExpertsOptions, exact_factor, expert_layers
from meshwright.search.assign import assign, hot_copies
from meshwright.workload.expert_batches import (
    DROPPED,
    Executed,
    Slots,
    capacity_rows,
    dealt,
    executed,
    least_factor,
    relayed,
    rows_sent,
    skipping,
    without_own,
)
from meshwright.workload.feed_forward import distinct_experts, found_by
from meshwright.workload.routing import batch, inclusion
from meshwright.workload.row_formats import row_format_bytes

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.cost.experts import Wires
    from meshwright.job.routing import Routing
    from meshwright.model.feed_forwards import Experts
    from meshwright.model.model import Model
    from meshwright.search.assign import Assignment
    from meshwright.system.system import System

WAYS: Final = ("none", "rank", "node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """An all_reduce of all tokens' rows in one layer. sent_bytes: by each rank of a ring."""

    after: str
    axis: str
    ranks: int
    message_bytes: Any
    sent_bytes: Any
    time_s: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all layers share. wired: None where nothing is sent.   merges: where attention is replicated."""

    model: Model
    system: System
    routing: Routing
    layout: Layout
    options: ExpertsOptions
    wired: Wires | None
    merges: tuple[Merge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """One layer. Rows are (token, expert) pairs; a group is a rank, or the etp ranks that cut the same experts.

    slots_read: copies of experts that run rows, those of padding too.   weight_bytes: of them, on all groups.
    even_over_read: what an even batch reads over that.   expert_rows, group_rows: chosen, of each.   busiest_rows: the
    most of group_rows.   run_rows: the most that a group runs, after drops and with padding.   bound_rows: what the
    busiest group has at least under any placement.   least_capacity_factor: that drops nothing.   etp_s: in which the
    ranks of a group gather their rows and add up their outputs.   combine_s: the return, or where attention is
    replicated the sums over the ranks.   slot_groups: where each expert lies, or with copies each slot, whose experts
    are slot_experts (empty without copies).
    """

    layer: int
    distinct_experts: int
    slots_read: int
    expected_distinct_experts: Any
    weight_bytes: Any
    expected_weight_bytes: Any
    even_over_read: float
    hottest_expert: int
    max_expert_rows: int
    min_expert_rows: int
    mean_expert_rows: float
    busiest_group: int
    busiest_rows: int
    run_rows: int
    mean_rows: float
    busiest_over_mean: float
    bound_rows: int
    proven: bool
    contiguous_rows: int
    round_robin_rows: int
    gain_fraction: float
    capacity_rows: int | None
    least_capacity_factor: float
    dropped: int
    dropped_fraction: float
    padding: int
    padding_fraction: float
    skipped_tokens: int
    dispatch_s: float
    etp_s: float
    experts_s: Any
    combine_s: float
    time_s: Any
    expert_rows: tuple[int, ...]
    group_rows: tuple[int, ...]
    slot_groups: tuple[int, ...]
    slot_experts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One layer's exchange one way. rows: that leave their rank.   between_rows: of them, to another box."""

    dispatch_rows: int
    between_rows: int
    most_sent_rows: int
    dispatch: tuple[Busiest, ...]
    combine: tuple[Busiest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer and its exchanges by way."""

    row: LayerRow
    ways: dict[str, Way]


def layer_of(setting: Setting, layer: int, place: int, kind: int, mixture: Experts) -> Layer:
    """Everything about one layer. place: its place among the layers of the routing."""
    options, tokens = setting.options, int(held(setting.options.tokens))
    experts, top_k = int(held(mixture.experts)), int(held(mixture.top_k))
    choices = batch(setting.routing, place, experts, top_k, tokens, int(held(options.seed)))
    rows = np.bincount(choices.reshape(-1), minlength=experts)
    slots, placed, others = _placed(rows, options)
    capacity = None
    if options.capacity_factor is not None:
        capacity = capacity_rows(exact_factor(held(options.capacity_factor)), tokens, top_k, len(slots.expert))
    run = executed(choices, slots, capacity)
    groups = int(held(options.ep))
    group_rows, group_run = (
        np.bincount(slots.group, weights=item, minlength=groups).astype(np.int64) for item in (run.asked, run.rows)
    )
    group_read = np.bincount(slots.group, weights=run.rows > 0, minlength=groups)
    ways = _ways(setting, mixture, run, slots, tokens)
    own = ways.get(options.dedup)
    merged = 0.0 if own else sum(item.time_s for item in setting.merges if item.after == "experts")
    seconds = experts_s(setting.model, setting.system, table([setting.layout]), kind, group_run, group_read)
    times: dict[str, Any] = {
        "dispatch_s": sum(item.seconds for item in own.dispatch) if own else 0.0,
        "etp_s": _etp_s(setting, mixture, run, slots),
        "experts_s": cell(seconds, int(np.argmax(held_all(seconds)))),
        "combine_s": sum(item.seconds for item in own.combine) if own else merged,
    }
    row = LayerRow(
        layer=layer,
        **_read(setting, kind, mixture, place, rows, run),
        hottest_expert=int(np.argmax(rows)),
        max_expert_rows=int(rows.max()),
        min_expert_rows=int(rows.min()),
        mean_expert_rows=tokens * top_k / experts,
        busiest_group=int(np.argmax(group_rows)),
        busiest_rows=int(group_rows.max()),
        run_rows=int(group_run.max()),
        mean_rows=float(group_rows.mean()),
        busiest_over_mean=float(group_rows.max() / group_rows.mean()),
        bound_rows=placed.bound,
        proven=placed.proven,
        contiguous_rows=others["contiguous"],
        round_robin_rows=others["round_robin"],
        gain_fraction=1.0 - placed.most / others["contiguous"],
        capacity_rows=capacity,
        least_capacity_factor=least_factor(int(run.asked.max()), tokens, top_k, len(run.asked)),
        dropped=run.dropped,
        dropped_fraction=run.dropped / (tokens * top_k),
        padding=run.padding,
        padding_fraction=run.padding / max(1, int(run.rows.sum())),
        skipped_tokens=int(np.count_nonzero(skipping(run.slot))),
        **times,
        time_s=sum(times.values()),
        expert_rows=tuple(rows.tolist()),
        group_rows=tuple(group_rows.tolist()),
        slot_groups=tuple(slots.group.tolist()),
        slot_experts=tuple(slots.expert.tolist()) if len(slots.expert) > experts else (),
    )
    return Layer(row=row, ways=ways)


def held_all(column: Any) -> Any:
    """A column without traces."""
    return np.array([held(item) for item in column], dtype=np.float64)


def _placed(rows: Ints, options: ExpertsOptions) -> tuple[Slots, Assignment, dict[str, int]]:
    """The slots, where they lie, and the busiest group of the placements that know no loads."""
    groups = int(held(options.ep))
    copies = hot_copies(rows, int(held(options.replicas)))
    expert = np.repeat(np.arange(len(rows)), copies)
    number = np.arange(len(expert)) - np.repeat(np.cumsum(copies) - copies, copies)
    loads = rows[expert] // copies[expert] + (number < rows[expert] % copies[expert])
    placed = assign(loads, groups, options.placement)
    others = {name: assign(loads, groups, name).most for name in ("contiguous", "round_robin")}
    return Slots(expert=expert, group=placed.bin), placed, others


def _read(  # noqa: PLR0917 - a layer, its choices and what runs
    setting: Setting, kind: int, mixture: Experts, place: int, rows: Ints, run: Executed
) -> dict[str, Any]:
    """Experts that have rows, as they are and as choices made apart would have them, and the bytes of their weights."""
    layout, tokens = setting.layout, setting.options.tokens
    piece = cell(np.atleast_1d(expert_bytes(setting.model, table([layout]), kind)), 0) * layout.etp
    experts, top_k = int(held(mixture.experts)), int(held(mixture.top_k))
    if setting.routing.law in {"uniform", "even"}:
        expected: Any = distinct_experts(mixture.experts, mixture.top_k, tokens)
    else:
        expected = float(found_by(inclusion(setting.routing, place, experts, top_k), int(held(tokens))).sum())
    slots_read = int(np.count_nonzero(run.rows))
    even = min(experts, int(held(tokens)) * top_k)
    found: dict[str, Any] = {
        "distinct_experts": int(np.count_nonzero(rows)),
        "slots_read": slots_read,
        "expected_distinct_experts": expected,
        "weight_bytes": distinct_bytes(slots_read, piece),
        "expected_weight_bytes": distinct_bytes(expected, piece),
        "even_over_read": even / max(1, slots_read),
    }
    return found


def _ways(setting: Setting, mixture: Experts, run: Executed, slots: Slots, tokens: int) -> dict[str, Way]:
    """Each way to send the rows, and to return them by the same paths; none where every group has all tokens."""
    if setting.wired is None:
        return {}
    source, target = _ends(setting, run, slots, tokens)
    ranks, boxes = setting.wired.ranks, int(held(setting.system.devices_per_node))
    found: dict[str, Way] = {}
    for way in WAYS:
        once = way != "none"
        parts = (
            relayed(source, target, ranks, boxes)
            if way == "node"
            else (rows_sent(source, target, ranks, ranks, once=once),)
        )
        found[way] = _way(setting, mixture, setting.wired, tuple(without_own(part) for part in parts))
    return found


def _way(setting: Setting, mixture: Experts, wired: Wires, parts: tuple[Ints, ...]) -> Way:
    model, options = setting.model, setting.options
    out, back = (
        float(held(row_format_bytes(model, name, mixture.latent))) for name in (options.dispatch, options.combine)
    )
    box = np.arange(wired.ranks) // int(held(setting.system.devices_per_node))
    apart = box[:, None] != box
    return Way(
        dispatch_rows=sum(int(part.sum()) for part in parts),
        between_rows=sum(int(part[apart].sum()) for part in parts),
        most_sent_rows=int(np.sum([part.sum(axis=1) for part in parts], axis=0).max()),
        dispatch=tuple(exchange(wired, part, out) for part in parts),
        combine=tuple(exchange(wired, part.T, back) for part in reversed(parts)),
    )


def _ends(setting: Setting, run: Executed, slots: Slots, tokens: int) -> tuple[Ints, Ints]:
    """[tokens] and [tokens, top_k] ranks: where each token stands, and where its choices are run.

    Of the ranks that cut an expert between them a token goes to the one that stands in its group as the sender does in
    its own. A pool's ranks come after those of attention.
    """
    etp, beside = int(held(setting.options.etp)), int(held(setting.options.attention_ranks or 0))
    source = dealt(tokens, beside or int(held(setting.options.ep)) * etp)
    first = beside + slots.group * etp
    target = np.where(run.slot == DROPPED, DROPPED, first[run.slot] + (source % etp)[:, None])
    return source, target


def _etp_s(setting: Setting, mixture: Experts, run: Executed, slots: Slots) -> float:
    """Of the group at which most tokens arrive: an all_gather of their rows, and a reduce_scatter of the outputs."""
    etp = int(held(setting.options.etp))
    if setting.wired is None or etp == 1:
        return 0.0
    groups = int(held(setting.options.ep))
    group = np.where(run.slot == DROPPED, DROPPED, slots.group[run.slot])
    arrived = rows_sent(np.zeros(len(group), dtype=np.int64), group, 1, groups, once=True).max()
    inner = group_along(setting.system, table([Layout(tp=etp, dp_replicate=groups)]), "tp", "own")
    formats, width = ("plain", setting.options.combine), mixture.latent
    out, back = (arrived * 1.0 * held(row_format_bytes(setting.model, name, width)) for name in formats)
    both = program_s("ring", "all_gather", inner, out) + program_s("ring", "reduce_scatter", inner, back)
    return float(held(both[0]))


def merges_of(model: Model, system: System, layout: Layout, options: ExpertsOptions) -> tuple[Merge, ...]:
    """What a layer adds up where every group has all tokens: attention over tp, an expert over etp, groups over ep.

    Ranks that cut an expert are neighbours; groups are added up over the ranks with the same place in each.
    Source: chapter "Supernodes", section 6.3.1.
    """
    if layout.attention != "replicated":
        return ()
    inside = next(iter(expert_layers(model).values()))[1].latent
    found: list[Merge] = []
    for after, axis, degree, inner in (
        ("attention", "tp", layout.tp, layout.tp),
        ("experts", "etp", layout.etp, layout.etp),
        ("experts", "ep", layout.ep, layout.etp),
    ):
        mesh = table([Layout(tp=inner, dp_replicate=layout.world_size // inner)])
        group = group_along(system, mesh, "dp_replicate" if axis == "ep" else "tp", "own")
        width = inside if after == "experts" else None
        sent: Any = np.array([options.tokens * row_format_bytes(model, options.combine, width)])
        if degree > 1:
            seconds = cell(all_reduce("auto", group, sent, system).seconds, 0)
            ring = cell(port_bytes("ring", "all_reduce", group, sent * 1.0), 0)
            found.append(
                Merge(
                    after=after,
                    axis=axis,
                    ranks=degree,
                    message_bytes=cell(sent, 0),
                    sent_bytes=ring,
                    time_s=seconds,
                )
            )
    return tuple(found)
