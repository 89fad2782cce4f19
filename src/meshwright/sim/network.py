"""Programs on a fabric, and what else its links carry, go in; when each program ends, and every link's bytes, come out.

Max-min fair flows: a send pays the latency of its path, then moves its bytes at the rate that progressive filling
gives it among all that move at the time; rates change when a flow arrives or ends. Source: Bertsekas and Gallager,
"Data Networks", 2nd edition (1992), section 6.5.2. Left out: queues, packets, congestion control, and the processors'
own work (launches, reductions).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import CollectiveError
from meshwright.sim.flow_classes import Classes, Sends, flow_classes, spans
from meshwright.sim.flow_events import Events, flow_events

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.system.graph import Fabric
    from meshwright.workload.programs import Program

MOST_SENDS: Final = 4_000_000
"""Sends of all steps, each step once, that fit into memory with their paths."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traffic:
    """A program under way. participants: the vertex of each of its ranks, then of its switches.

    message_bytes: as the program counts its message.   start_s: when its ranks enter the first round.
    """

    program: Program
    participants: Ints
    message_bytes: float
    start_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Background:
    """Columns of flows that belong to no program. size_bytes: infinity for one that never ends.

    sender, receiver: vertices.   limit_bytes_per_s: what the flow takes at most; infinity for its fair share.
    """

    sender: Ints
    receiver: Ints
    size_bytes: Floats
    start_s: Floats
    limit_bytes_per_s: Floats


NO_BACKGROUND: Final = Background(
    sender=np.zeros(0, np.int64),
    receiver=np.zeros(0, np.int64),
    size_bytes=np.zeros(0),
    start_s=np.zeros(0),
    limit_bytes_per_s=np.zeros(0),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowTimes:
    """When programs ended, and what it took to find out.

    end_s: of each program, by the clock of its start.   link_bytes: what each link of the fabric carried until the last
    of them ended, of programs and of others.   moments: times at which something started or ended.   classes: kinds of
    sends that differ in anything; those of one kind have one rate at any time.   sends: each step counted once.
    """

    end_s: tuple[float, ...]
    link_bytes: Floats
    moments: int
    classes: int
    sends: int


def run_flows(fabric: Fabric, traffic: tuple[Traffic, ...], background: Background = NO_BACKGROUND) -> FlowTimes:
    """Run every program to its end on the links that they share.

    A send starts when its sender and its receiver have ended all that they send and receive in earlier rounds. Moments
    closer than 1e-11 of the time so far are one. Raises COL030 (more sends than fit), COL031 (more rate changes than
    can be worked out).
    """
    sends = sends_of(fabric, traffic, background)
    classes = flow_classes(sends)
    events = flow_events(classes)
    ends = np.full(len(traffic), -math.inf)
    np.maximum.at(ends, _owner(traffic), events.end_s[classes.of_participant])
    starts = np.array([item.start_s for item in traffic])
    return FlowTimes(
        end_s=tuple(np.where(np.isfinite(ends), ends, starts).tolist()),
        link_bytes=_link_bytes(fabric, sends, classes, events),
        moments=events.moments,
        classes=len(classes.sends.kind),
        sends=len(sends.sender),
    )


def duration_s(fabric: Fabric, traffic: Traffic, background: Background = NO_BACKGROUND) -> float:
    """Seconds of one program from its start to its end. Raises as `run_flows`."""
    return run_flows(fabric, (traffic,), background).end_s[0] - traffic.start_s


def _link_bytes(fabric: Fabric, sends: Sends, classes: Classes, events: Events) -> Floats:
    """Counted as they moved, not as they were to move."""
    moved = events.moved_bytes[classes.of_send]
    each = np.repeat(moved, np.diff(sends.first))
    count = len(sends.capacity_bytes_per_s)
    return np.bincount(sends.link, each, minlength=count)[: len(fabric.sender)]


def sends_of(fabric: Fabric, traffic: tuple[Traffic, ...], background: Background) -> Sends:
    """Every send of every step, once, with its path; then the background."""
    kinds: dict[tuple[int, float, float], int] = {}
    columns: list[dict[str, Any]] = []
    before = 0
    for item in traffic:
        kind = kinds.setdefault((id(item.program), item.message_bytes, item.start_s), len(kinds))
        columns += _of_steps(item, kind, before)
        before += len(item.participants)
    columns.append(_of_background(background, len(kinds)))
    joined = {name: np.concatenate([item[name] for item in columns]) for name in columns[0]}
    _check_number(len(joined["from"]))
    first, link, latency = _paths(fabric, joined.pop("from"), joined.pop("to"))
    owner = _owner(traffic)
    starts = np.array([item.start_s for item in traffic])
    own = [kinds[id(item.program), item.message_bytes, item.start_s] for item in traffic]
    sends = Sends(
        **joined,
        latency_s=latency,
        first=first,
        link=link,
        capacity_bytes_per_s=fabric.bandwidth_bytes_per_s,
        participant_kind=np.array(own, np.int64)[owner],
        participant_start_s=starts[owner],
    )
    return _limited(sends, background)


def _owner(traffic: tuple[Traffic, ...]) -> Ints:
    """The program of each participant."""
    return np.repeat(np.arange(len(traffic)), [len(item.participants) for item in traffic])


def _of_steps(item: Traffic, kind: int, before: int) -> list[dict[str, Any]]:
    """Columns of each step of a program whose first participant has the number `before`."""
    program = item.program
    assert len(item.participants) == program.ranks + program.switches, "a place for every participant"
    piece = item.message_bytes / program.message_pieces
    found: list[dict[str, Any]] = []
    for number, step in enumerate(program.steps):
        count = len(step.sender)
        found.append(
            {
                "from": item.participants[step.sender],
                "to": item.participants[step.receiver],
                "kind": np.full(count, kind),
                "step": np.full(count, number),
                "times": np.full(count, step.times),
                "sender": step.sender + before,
                "receiver": step.receiver + before,
                "size_bytes": step.pieces * piece,
                "start_s": np.zeros(count),
            }
        )
        _check_number(sum(len(one["kind"]) for one in found))
    return found


def _of_background(background: Background, kind: int) -> dict[str, Any]:
    count = len(background.sender)
    return {
        "from": background.sender,
        "to": background.receiver,
        "kind": np.full(count, kind),
        "step": np.zeros(count, np.int64),
        "times": np.ones(count, np.int64),
        "sender": np.full(count, -1),
        "receiver": np.full(count, -1),
        "size_bytes": background.size_bytes,
        "start_s": background.start_s,
    }


def _check_number(sends: int) -> None:
    if sends > MOST_SENDS:
        cause = f"more than {MOST_SENDS} sends of distinct steps"
        raise CollectiveError(30, cause, "ask for fewer ranks, or for --depth alpha-beta")


def _paths(fabric: Fabric, sender: Ints, receiver: Ints) -> tuple[Ints, Ints, Floats]:
    """Paths of sends, and what they pay for them once; each pair of vertices is routed once."""
    pairs, of_send = np.unique(sender * len(fabric.kind) + receiver, return_inverse=True)
    routes = fabric.route(*np.divmod(pairs, len(fabric.kind)))
    hops = np.diff(routes.first)
    owner = np.repeat(np.arange(len(hops)), hops)
    paid = np.bincount(owner, fabric.latency_s[routes.links], minlength=len(hops))
    link = routes.links[spans(routes.first[of_send], hops[of_send])]
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(hops[of_send])]), link, paid[of_send]


def _limited(sends: Sends, background: Background) -> Sends:
    """A flow with a limit crosses, first, a link of its own that has it for bandwidth."""
    own = np.flatnonzero(np.isfinite(background.limit_bytes_per_s))
    if not len(own):
        return sends
    rows = len(sends.kind) - len(background.sender) + own
    links = len(sends.capacity_bytes_per_s) + np.arange(len(own))
    extra = np.zeros(len(sends.first), np.int64)
    extra[rows + 1] = 1
    return replace(
        sends,
        first=sends.first + np.cumsum(extra),
        link=np.insert(sends.link, sends.first[rows], links),
        capacity_bytes_per_s=np.concatenate([sends.capacity_bytes_per_s, background.limit_bytes_per_s[own]]),
    )
