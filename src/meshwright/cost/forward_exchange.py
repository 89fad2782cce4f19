"""Messages of a forward step and columns of layouts go in; how long each exchange takes, and how often, come out.

All ranks of a dispatch or combine send at once: it lasts as long as its fullest port, that of the rank that sends most
or of the one that most rows reach, and one latency. What leaves a box goes by a device's share of the NICs beside what
stays inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.base.numbers import N, divide_up, maximum, minimum, where
from meshwright.base.result import Basis
from meshwright.base.traced import formula, held, stated, values
from meshwright.cost.collectives import (
    Exchange,
    all_reduce,
    formula_exchange,
    given_exchange,
    program_s,
    send_s,
)
from meshwright.cost.context import rows_of_rank
from meshwright.cost.groups import block_nodes, group_along, group_of, rates
from meshwright.job.expert_load import RoutedReads
from meshwright.layout.axes import EXPERT_AXES
from meshwright.layout.context import by_weights
from meshwright.layout.ownership import sample_ways
from meshwright.layout.placement import boundaries_outside
from meshwright.workload.expert_reach import reach
from meshwright.workload.messages import has_message, messages, mixtures_of, over_copies

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.cost.efficiency import Efficiency
    from meshwright.cost.estimate import Assumptions
    from meshwright.cost.groups import Group
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.system.system import System
    from meshwright.workload.batches import Batch
    from meshwright.workload.messages import Message


def forward_exchanges(  # noqa: PLR0917 - the nouns, and the sessions of a copy
    model: Model, system: System, layouts: Layouts, batch: Batch, own: Ints, assumptions: Assumptions
) -> tuple[tuple[Message, Exchange], ...]:
    """Every exchange that some row has, in the order of a step.

    own: sessions of the fullest copy of attention. Source: chapter "Supernodes", sections 6.2.2, 6.2.6 and 6.3.1.
    """
    routed, several, seen = None, bool(over_copies(layouts.plain()).any()), by_weights(layouts)
    found: list[tuple[Message, Exchange]] = []
    for message in messages(model, assumptions.dispatch, assumptions.combine):
        own_kind = message.where in {"always", "together"}
        if not own_kind and not (several and has_message(message, layouts).any()):
            continue
        if message.where == "dealt":
            routed = routed or _routed(model, system, layouts, batch, own, assumptions)
            found.append((message, _of_experts(system, layouts, message, routed, assumptions)))
        else:
            found.append((message, _exchange(system, seen, rows_of_rank(batch, layouts) * own, message, assumptions)))
    return tuple(found)


def calls(message: Message, layouts: Layouts) -> Ints:
    """How often a step has the exchange; a group of one has none."""
    if message.boundary:
        return layouts.degree("pp") - 1
    return where(has_message(message, layouts), np.asarray(message.count), 0)


def shared_sessions(sessions: Ints, own: Ints, layouts: Layouts) -> Ints:
    """Sessions whose rows one copy of the experts works on: those of the copies of attention over which it lies.

    sessions: of a replica.   own: of the fullest copy of attention.
    """
    plain = layouts.plain()
    if int((plain.degree("dp_replicate") * plain.degree("dp_shard")).max(initial=1)) == 1:
        return sessions
    return minimum(sessions, own * _copies_over(layouts))


def _copies_over(layouts: Layouts) -> Ints:
    """Copies of attention over which one copy of the experts lies, of those that have rows of their own."""
    spread: Any = layouts.degree("ep") * layouts.degree("etp") // layouts.degree("tp")
    return minimum(maximum(spread, 1), sample_ways(layouts))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Routed:
    """Columns of one layer's rows, and of where they go.

    own: rows of the fullest copy of attention.   sender: of them, those that its fullest rank routes.   shared: that
    one copy of the experts works on, by each of the ranks that cut an expert.   boxes: over which it lies.   ranks,
    box: the reach of one row over the groups of ep, and over the boxes.
    """

    own: Any
    sender: Any
    shared: Any
    boxes: Ints
    ranks: _Reached
    box: _Reached


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reached:
    """`Reach` in columns."""

    busiest: Any
    reached: Any
    busiest_choices: Any
    choices: Any


def _routed(  # noqa: PLR0917 - as `forward_exchanges`
    model: Model, system: System, layouts: Layouts, batch: Batch, own: Ints, assumptions: Assumptions
) -> _Routed:
    rows: Any = own * batch.rows
    sessions = np.atleast_1d(np.asarray(batch.sessions))
    shared: Any = shared_sessions(sessions, own, layouts) * (1.0 * batch.rows)
    boxes = block_nodes(system, _in_a_row(layouts), layouts.degree("ep") * layouts.degree("etp"))
    return _Routed(
        own=rows,
        sender=divide_up(rows, layouts.degree("tp")),
        shared=shared / layouts.degree("etp"),
        boxes=boxes,
        ranks=_reached(model, layouts.degree("ep"), assumptions),
        box=_reached(model, minimum(boxes, layouts.degree("ep")), assumptions),
    )


def _in_a_row(layouts: Layouts) -> Layouts:
    """The same ranks with all copies of attention along one axis."""
    both = layouts.degree("dp_shard") * layouts.degree("dp_replicate")
    return layouts.changed({"dp_shard": both, "dp_replicate": np.ones(len(layouts), dtype=np.int64)})


def _reached(model: Model, groups: Ints, assumptions: Assumptions) -> _Reached:
    """The mean over layers with experts of how rows reach groups."""
    asked = assumptions.expert_reads
    reads = asked if isinstance(asked, (tuple, RoutedReads)) else "expected"
    counts, place = np.unique(values(groups), return_inverse=True)
    kinds = [(kind, item, held(count)) for kind, item, count in mixtures_of(model)]
    layers = sum(count for _, _, count in kinds)
    found = np.zeros((4, len(counts)))
    for kind, mixture, count in kinds:
        for column, number in enumerate(counts.tolist()):
            each = reach(model, kind, reads, number)
            own = (each.busiest, each.reached, each.busiest_choices, float(held(mixture.top_k)))
            found[:, column] += np.array(own) * (count / layers)
    told = {"basis": Basis.FORMULA.value, "source": "expected of the routing, experts in order over the groups"}
    names = ("busiest", "reached", "busiest_choices", "choices")
    return _Reached(**{name: stated(found[row][place], groups, name, **told) for row, name in enumerate(names)})


def _of_experts(
    system: System, layouts: Layouts, message: Message, routed: _Routed, assumptions: Assumptions
) -> Exchange:
    """An exchange of rows on their way to experts of other copies of attention, or back."""
    if message.operation == "all_to_all":
        return _dispatch(system, layouts, message, routed, assumptions)
    rows = routed.own
    if message.axis == "etp":  # what came to the group that most rows reach
        rows = routed.shared * routed.ranks.busiest * layouts.degree("etp")
    group = _group(system, layouts, message.axis, assumptions.efficiency.link)
    seconds: Any = program_s("ring", message.operation, group, rows * (1.0 * message.per_row_bytes))
    return formula_exchange(seconds + np.zeros(len(layouts)), "ring", layouts.degree(message.axis) - 1)


def _dispatch(
    system: System, layouts: Layouts, message: Message, routed: _Routed, assumptions: Assumptions
) -> Exchange:
    """Rows to the ranks of their experts, or their outputs by the same paths back.

    What a rank sends in all, its own block included, is spread over the ranks alike; so is what one receives. By boxes,
    a row goes once to the rank with the sender's place in every box, and on from there.
    """
    near, far = rates(system, "own", assumptions.efficiency.link)
    ranks, boxes = layouts.degree("ep"), minimum(routed.boxes, layouts.degree("ep"))
    inside: Any = ranks / boxes
    size, reached, box = 1.0 * message.per_row_bytes, routed.ranks, routed.box
    speeds = (near.bandwidth_bytes_per_s, far.bandwidth_bytes_per_s)
    latency_s = where(boxes > 1, far.latency_s, near.latency_s)
    if assumptions.dedup == "node":
        first = size * maximum(routed.shared / inside * box.busiest, routed.sender * box.reached)
        last = size * maximum(routed.shared * reached.busiest, routed.sender * reached.reached / boxes)
        onward = ports_s(last * ((inside - 1) / inside), speeds[0], 0.0, speeds[1], near.latency_s)
        between = ports_s(0.0, speeds[0], first * ((boxes - 1) / boxes), speeds[1], latency_s)
        seconds = onward + where(boxes > 1, between, np.zeros(1))
        ones = np.ones(len(layouts), dtype=np.int64)
        return formula_exchange(seconds, "by_box", where(boxes > 1, ones * 2, ones))
    once = assumptions.dedup == "rank"
    most = reached.busiest if once else reached.busiest_choices
    sent = size * maximum(routed.shared * most, routed.sender * (reached.reached if once else reached.choices))
    seconds = ports_s(sent * ((inside - 1) / ranks), speeds[0], sent * ((ranks - inside) / ranks), speeds[1], latency_s)
    return formula_exchange(seconds, "at_once", np.ones(len(layouts), dtype=np.int64))


@formula
def ports_s(
    near_bytes: N, near_bandwidth_bytes_per_s: N, far_bytes: Any, far_bandwidth_bytes_per_s: Any, latency_s: Any
) -> N:
    """Seconds of messages that all start at once: of the fuller of a rank's two ports, in its box and beyond.

    Source: chapter "Supernodes", section 6.5.1 (the busiest link). Leaves out queues and what shares these links.
    """
    return latency_s + maximum(near_bytes / near_bandwidth_bytes_per_s, far_bytes / far_bandwidth_bytes_per_s)


def _exchange(system: System, layouts: Layouts, rows: Ints, message: Message, assumptions: Assumptions) -> Exchange:
    sent: Any = message.per_row_bytes * rows
    if message.boundary:
        return _boundaries(system, layouts, sent * 1.0, assumptions.efficiency)
    group = _group(system, layouts, message.axis, assumptions.efficiency.link)
    if assumptions.all_reduce_s is not None:
        return given_exchange(assumptions.all_reduce_s, group)
    return all_reduce(assumptions.all_reduce, group, sent, system)


def _group(system: System, layouts: Layouts, axis: str, link: float) -> Group:
    """The groups along an axis; those of experts lie over neighbours of a stage."""
    if axis not in EXPERT_AXES:
        return group_along(system, layouts, axis, "own", link)
    etp, degree = layouts.degree("etp"), layouts.degree(axis)
    width = etp * layouts.degree("ep") if axis == "ep" else etp
    return group_of(degree, block_nodes(system, _in_a_row(layouts), width), *rates(system, "own", link))


def _boundaries(system: System, layouts: Layouts, sent_bytes: Ints, efficiency: Efficiency) -> Exchange:
    """Mean seconds of one stage boundary: those between boxes pay the NIC, the others the link inside a box."""
    near: Any = send_s(sent_bytes, system.scale_up.latency, system.scale_up.bandwidth * efficiency.link)
    far = near
    if system.scale_out is not None and system.nics_per_node > 0:
        far = send_s(sent_bytes, system.nic_latency, system.nic_bandwidth * efficiency.link)
    outside = boundaries_outside(layouts, system.devices_per_node)
    crossings = maximum(layouts.degree("pp") - 1, 1)
    seconds: Floats = (near * (crossings - outside) + far * outside) / crossings
    return formula_exchange(seconds, "send_recv", np.ones(len(layouts), dtype=np.int64))
