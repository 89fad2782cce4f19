"""Programs on vertices of a fabric go in; one table of their sends, each with its path, comes out.

What every depth of time reads: `cost.program_times` round by round, `sim.network` flow by flow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from meshwright.base.errors import CollectiveError
from meshwright.system.graph import Routes

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.system.graph import Fabric
    from meshwright.workload.programs import Program

MOST_SENDS: Final = 4_000_000
"""Sends of all steps, each step once, that fit into memory with their paths."""
MOST_CROSSED: Final = 20_000_000
"""Links of all these paths: columns of more take gigabytes."""
_PROBED: Final = 64


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
class Sends:
    """Columns, one row a send of a step, which repeats `times`; and participants, numbered over all programs.

    kind: which program with which bytes and start.   step: its place in the program.   sender, receiver: participants,
    -1 for background, which starts at start_s.   first, link: the links of send s are rows first[s] to first[s + 1].
    capacity_bytes_per_s: of each link, and after the `links` of the fabric of each limit.   participant_kind,
    participant_start_s: of each participant.
    """

    kind: Ints
    step: Ints
    times: Ints
    sender: Ints
    receiver: Ints
    size_bytes: Floats
    latency_s: Floats
    start_s: Floats
    first: Ints
    link: Ints
    links: int
    capacity_bytes_per_s: Floats
    participant_kind: Ints
    participant_start_s: Floats

    def routes(self, rows: Ints) -> Routes:
        """The paths of some sends."""
        counts = np.diff(self.first)[rows]
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return Routes(first=first, links=self.link[spans(self.first[rows], counts)])


def spans(first: Ints, count: Ints) -> Ints:
    """The numbers first[i] .. first[i] + count[i] - 1, of every i after each other."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(first - (ends - count), count)


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
    check_sends(len(joined["from"]))
    first, link, latency = _paths(fabric, joined.pop("from"), joined.pop("to"))
    owner = owners_of(traffic)
    starts = np.array([item.start_s for item in traffic])
    own = [kinds[id(item.program), item.message_bytes, item.start_s] for item in traffic]
    sends = Sends(
        **joined,
        latency_s=latency,
        first=first,
        link=link,
        links=len(fabric.sender),
        capacity_bytes_per_s=fabric.bandwidth_bytes_per_s,
        participant_kind=np.array(own, np.int64)[owner],
        participant_start_s=starts[owner],
    )
    return _limited(sends, background)


def sent_bytes(sends: Sends) -> Floats:
    """Bytes that programs send over every link of the fabric, all repetitions."""
    size = np.where(sends.sender >= 0, sends.size_bytes * sends.times, 0.0)
    each = np.repeat(size, np.diff(sends.first))
    carried = np.bincount(sends.link, weights=each, minlength=len(sends.capacity_bytes_per_s))
    return cast("Floats", carried[: sends.links])


def owners_of(traffic: tuple[Traffic, ...]) -> Ints:
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
        check_sends(sum(len(one["kind"]) for one in found))
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


def check_sends(sends: int) -> None:
    """Nothing, where so many sends, each step counted once, fit. Raises COL030."""
    if sends > MOST_SENDS:
        cause = f"{sends} sends or more, each step counted once; {MOST_SENDS} fit"
        raise CollectiveError(30, cause, "ask for fewer ranks, or for another algorithm")


def check_crossed(fabric: Fabric, sender: Ints, receiver: Ints) -> None:
    """Nothing, where the paths of all sends fit, told from some of them before any column is made. Raises COL050."""
    if not len(sender):
        return
    probed = np.random.default_rng(0).integers(0, len(sender), _PROBED)
    each = len(fabric.route(sender[probed], receiver[probed]).links) / _PROBED
    if each * len(sender) > MOST_CROSSED:
        cause = f"{len(sender)} sends, each step counted once, that cross about {each * len(sender):.2g} links"
        fix = f"on this network {int(MOST_CROSSED / each)} of its sends fit: ask for fewer ranks (--ranks), or for an "
        raise CollectiveError(50, cause, fix + "algorithm that keeps to neighbours, as --algorithm ring does")


def _paths(fabric: Fabric, sender: Ints, receiver: Ints) -> tuple[Ints, Ints, Floats]:
    """Paths of sends, and what they pay for them once; each pair of vertices is routed once."""
    check_crossed(fabric, sender, receiver)
    pairs, of_send = np.unique(sender * len(fabric.kind) + receiver, return_inverse=True)
    routes = fabric.route(*np.divmod(pairs, len(fabric.kind)))
    hops = np.diff(routes.first)
    owner = np.repeat(np.arange(len(hops)), hops)
    paid = cast("Floats", np.bincount(owner, weights=fabric.latency_s[routes.links], minlength=len(hops)))
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
