"""Sends on links go in; classes of sends that nothing can tell apart come out, and what crosses what between classes.

Colours are refined until they hold: sends, links and participants of one colour have as many neighbours of every colour
(an equitable partition, as of a graph by its first-order colours). Then all sends of a class start at one time, move at
one rate and end at one time, so that a class stands for all of them, exactly. Source: Weisfeiler and Leman (1968);
Grohe, "Descriptive Complexity, Canonisation, and Definable Graph Structure Theory" (2017), chapter 3. Colours are 64
bits: two that differ could agree once in 2^64 / sends^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.sim.max_min import Crossings
from meshwright.workload.traffic import Sends, spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from meshwright.base.numbers import Ints

    Colours = NDArray[np.uint64]

_MOST_REFINEMENTS: Final = 100
_SENDER: Final = np.uint64(0x9E3779B97F4A7C15)
_RECEIVER: Final = np.uint64(0xD1B54A32D192ED03)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Classes:
    """of_send, of_participant: the class of each.   sends: one send of each class, with participants by class.

    crossings: of the classes of sends over those of links.
    """

    of_send: Ints
    of_participant: Ints
    sends: Sends
    crossings: Crossings


def flow_classes(sends: Sends, *, merge: bool = True) -> Classes:
    """The classes, numbered in the order of their first members. merge: False leaves each in a class of its own."""
    colours = _refined(sends) if merge else None
    if colours is None:
        counts = (len(sends.kind), len(sends.capacity_bytes_per_s), len(sends.participant_kind))
        return _quotient(sends, *(np.arange(count) for count in counts))
    return _quotient(sends, *(_numbered(item) for item in colours))


def _refined(sends: Sends) -> tuple[Colours, Colours, Colours] | None:
    """Colours of sends, links and participants that hold; None where they do not within the limit."""
    by_link = _Sums(sends.link, len(sends.capacity_bytes_per_s))
    at_sender = _Sums(sends.sender + 1, len(sends.participant_kind) + 1)
    at_receiver = _Sums(sends.receiver + 1, len(sends.participant_kind) + 1)
    send, link, participant = _first_colours(sends)
    owner = np.repeat(np.arange(len(send)), np.diff(sends.first))
    known = (0, 0, 0)
    for _ in range(_MOST_REFINEMENTS):
        found = tuple(len(np.unique(item)) for item in (send, link, participant))
        if found == known:
            return send, link, participant
        known = found
        mixed = _mixed(send)
        link = _mixed(link + by_link(mixed[owner]))
        told = at_sender(_mixed(send ^ _SENDER)) + at_receiver(_mixed(send ^ _RECEIVER))
        participant = _mixed(participant + told[1:])
        ends = np.concatenate([np.zeros(1, np.uint64), participant])
        two = _mixed(ends[sends.sender + 1] ^ _SENDER) + _mixed(ends[sends.receiver + 1] ^ _RECEIVER)
        send = _mixed(send + two + _of_rows(_mixed(link)[sends.link], sends.first))
    return None


def _first_colours(sends: Sends) -> tuple[Colours, Colours, Colours]:
    """What each is by itself."""
    own = (sends.kind, sends.step, sends.size_bytes, sends.latency_s, sends.start_s, np.diff(sends.first))
    of_participant = _joined((sends.participant_kind, sends.participant_start_s))
    return _joined(own), _joined((sends.capacity_bytes_per_s,)), of_participant


def _joined(columns: tuple[NDArray[Any], ...]) -> Colours:
    colour = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        kind = np.float64 if column.dtype.kind == "f" else np.int64
        colour = _mixed(colour + np.ascontiguousarray(column, kind).view(np.uint64))
    return colour


def _mixed(colour: Colours) -> Colours:
    """The finalizer of splitmix64: a permutation of 64 bits that leaves no pattern. Arithmetic wraps."""
    value = colour + _SENDER
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


class _Sums:
    """Sums of colours, which wrap, over the rows that name each of `count` keys."""

    def __init__(self, keys: Ints, count: int) -> None:
        self.order = np.argsort(keys, kind="stable")
        self.first = np.searchsorted(keys[self.order], np.arange(count + 1))

    def __call__(self, colours: Colours) -> Colours:
        return _of_rows(colours[self.order], self.first)


def _of_rows(colours: Colours, first: Ints) -> Colours:
    total = np.zeros(len(colours) + 1, np.uint64)
    np.cumsum(colours, out=total[1:])
    return total[first[1:]] - total[first[:-1]]


def _numbered(colours: Colours) -> Ints:
    """Classes by first member."""
    _, place, inverse = np.unique(colours, return_index=True, return_inverse=True)
    rank = np.empty(len(place), np.int64)
    rank[np.argsort(place, kind="stable")] = np.arange(len(place))
    return rank[inverse]


def _members(classes: Ints) -> Ints:
    """The first member of each class."""
    return np.unique(classes, return_index=True)[1]


def _quotient(sends: Sends, of_send: Ints, of_link: Ints, of_participant: Ints) -> Classes:
    send, link, participant = _members(of_send), _members(of_link), _members(of_participant)
    classes = np.concatenate([np.array([-1]), of_participant])
    counts = np.diff(sends.first)[send]
    crossings = _loads(sends, of_send, of_link, link)
    shown = Sends(
        kind=sends.kind[send],
        step=sends.step[send],
        times=sends.times[send],
        sender=classes[sends.sender[send] + 1],
        receiver=classes[sends.receiver[send] + 1],
        size_bytes=sends.size_bytes[send],
        latency_s=sends.latency_s[send],
        start_s=sends.start_s[send],
        first=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        link=of_link[sends.link[spans(sends.first[send], counts)]],
        links=len(link),
        capacity_bytes_per_s=sends.capacity_bytes_per_s[link],
        participant_kind=sends.participant_kind[participant],
        participant_start_s=sends.participant_start_s[participant],
    )
    return Classes(of_send=of_send, of_participant=of_participant, sends=shown, crossings=crossings)


def _loads(sends: Sends, of_send: Ints, of_link: Ints, member: Ints) -> Crossings:
    """How many sends of each class cross the first member of each class of links: as many cross every other.

    A link of unknown bandwidth (infinite) is never full, and so left out.
    """
    first_of = np.full(len(of_link), -1)
    first_of[member] = np.arange(len(member))
    owner = np.repeat(of_send, np.diff(sends.first))
    rows = np.flatnonzero((first_of[sends.link] >= 0) & np.isfinite(sends.capacity_bytes_per_s[sends.link]))
    pairs, load = np.unique(owner[rows] * max(1, len(member)) + first_of[sends.link[rows]], return_counts=True)
    flow, link = np.divmod(pairs, max(1, len(member)))
    flows = int(of_send.max(initial=-1)) + 1
    return Crossings(
        first=np.searchsorted(flow, np.arange(flows + 1)),
        link=link,
        load=load,
        capacity_bytes_per_s=sends.capacity_bytes_per_s[member],
    )
