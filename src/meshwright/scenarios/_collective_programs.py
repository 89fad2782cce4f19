"""Algorithms, groups of devices and their fabric go in; programs that fit the machine, at their places, come out.

A program may take a shape: ranks of a node are those that stand in one box, extents of a torus are those of the fabric,
and the switch that adds is the nearest one that joins all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import signature
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import CollectiveError
from meshwright.cost.collectives import COLLECTIVES
from meshwright.system.graph import SWITCH, Routes
from meshwright.workload.channels import box_orders, in_channels, in_channels_of
from meshwright.workload.traffic import Traffic, check_crossed, check_sends, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meshwright.base.numbers import Ints
    from meshwright.system.graph import Fabric
    from meshwright.workload.programs import Program

_ALL_PAIRS: Final = ("direct", "one_shot")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placed:
    """A program at the places of every group, and the fabric that knows the way to its switches."""

    fabric: Fabric
    program: Program
    channels: int
    traffic: tuple[Traffic, ...]


def placed(  # noqa: PLR0917 - a program and its places
    name: str,
    operation: str,
    groups: tuple[Ints, ...],
    fabric: Fabric,
    message_bytes: float,
    channels: int | None,
) -> Placed:
    """The program of an algorithm for groups of equally many devices (numbers of ranks of the fabric).

    channels: of rings and trees over several boxes; None for one a rank of a box, 1 where boxes hold unequal parts.
    Raises COL001, COL002, COL010 (algorithm), COL030 (too many sends), COL033 (ranks not even over boxes), COL034 (no
    switch that joins all ranks), COL050 (paths to it that are too long together).
    """
    module: Any = COLLECTIVES.module(name)
    ranks = len(groups[0])
    shape = _shape(name, module, groups, fabric)
    orders = _orders(module, operation, groups, fabric, channels)
    program: Program = module.program(operation, ranks, **shape)
    program = in_channels(program, orders) if len(orders) > 1 else program
    places = [fabric.devices[group] for group in groups]
    if program.switches:
        fabric, switch = _with_switches(fabric, places)
        places = [np.append(place, own) for place, own in zip(places, switch, strict=True)]
    traffic = tuple(Traffic(program=program, participants=place, message_bytes=message_bytes) for place in places)
    return Placed(fabric=fabric, program=program, channels=max(1, len(orders)), traffic=traffic)


def _shape(name: str, module: Any, groups: tuple[Ints, ...], fabric: Fabric) -> dict[str, Any]:
    """What the program asks the machine for."""
    ranks = len(groups[0])
    asked = signature(module.program).parameters
    found: dict[str, Any] = {}
    if "node_size" in asked:
        size = _in_box(name, groups, fabric)
        found = {"node_size": size} if size < ranks else {}
    if "box_size" in asked and len(sizes := _box_sizes(groups, fabric)) == 1:
        found["box_size"] = sizes.pop()
    if "extents" in asked and prod(fabric.extents) == ranks == len(fabric.devices):
        found["extents"] = fabric.extents
    if name in _ALL_PAIRS:  # told before columns of so many are made
        check_sends(ranks * (ranks - 1) * len(groups))
    return found


def _orders(
    module: Any, operation: str, groups: tuple[Ints, ...], fabric: Fabric, channels: int | None
) -> tuple[Ints, ...]:
    """Orders of the ranks, one a channel; none where the program runs as it is."""
    sizes = _box_sizes(groups, fabric)
    ranks = len(groups[0])
    most = sizes.pop() if len(sizes) == 1 else 1
    if ranks % most or not in_channels_of(module, operation, np.arange(ranks) // most):
        return ()
    return box_orders(ranks, most)[: channels or most]


def _in_box(name: str, groups: tuple[Ints, ...], fabric: Fabric) -> int:
    """Ranks of a group that follow each other in one box: as many in every box of every group. Raises COL033."""
    sizes = _box_sizes(groups, fabric)
    if len(sizes) > 1:
        many = ", ".join(map(str, sorted(sizes)))
        raise CollectiveError(33, f"{name}: boxes hold {many} ranks of a group", "give every box as many ranks")
    return sizes.pop()


def _box_sizes(groups: tuple[Ints, ...], fabric: Fabric) -> set[int]:
    """How many ranks of a group follow each other in a box, over all boxes and groups."""
    sizes: set[int] = set()
    for group in groups:
        box = fabric.box[fabric.devices[group]]
        starts = np.flatnonzero(np.diff(box, prepend=box[0] - 1) != 0)
        sizes |= set(np.diff(np.append(starts, len(box))).tolist())
    return sizes


# ------------------------------------------------------------------------------------------------------------- switches


def _with_switches(fabric: Fabric, places: list[Ints]) -> tuple[Fabric, list[int]]:
    """A fabric that routes between each group's ranks and the switch that adds for it, and these switches.

    The way to the switch is the part before it of the way to another rank, half the group away; the way back likewise.
    """
    found = [_joining(fabric, place) for place in places]
    ways = {(sender, receiver): links for item in found for (sender, receiver), links in item[1].items()}
    return replace(fabric, route=_known_first(fabric, ways)), [switch for switch, _ in found]


def _joining(fabric: Fabric, place: Ints) -> tuple[int, dict[tuple[int, int], Ints]]:
    """The switch of a group, nearest first, and the links between it and every rank. Raises COL034, COL050."""
    for other in _partners(fabric, place):
        check_crossed(fabric, place, other)
        out, back = (_paths(fabric.route(*ends)) for ends in ((place, other), (other, place)))
        common = _on_all(fabric, (*out, *back))
        if common:
            break
    else:
        cause = "in_switch: no one switch lies on a way of every rank to another"
        cause = cause if np.any(fabric.kind == SWITCH) else f"in_switch: {fabric.title} has no switch"
        raise CollectiveError(34, cause, "choose another algorithm, or ranks that one switch joins")
    near = {switch: sum(_before(fabric, links, switch) for links in out) for switch in common}
    switch = min(near, key=lambda item: (near[item], item))
    ways: dict[tuple[int, int], Ints] = {}
    for rank, going, coming in zip(place.tolist(), out, back, strict=True):
        ways[rank, switch] = going[: _before(fabric, going, switch)]
        ways[switch, rank] = coming[_before(fabric, coming, switch) :]
    return switch, ways


def _partners(fabric: Fabric, place: Ints) -> Iterator[Ints]:
    """For every rank another, in turn: the one half the group away, then of a group over boxes one of another box."""
    if not np.any(fabric.kind == SWITCH):
        return
    yield np.roll(place, -max(1, len(place) // 2))
    box = fabric.box[place]
    beyond = np.flatnonzero(box != box[0])
    if len(beyond):
        yield np.where(box == box[0], place[beyond[0]], place[0])


def _on_all(fabric: Fabric, ways: Iterable[Ints]) -> set[int]:
    """The switches that lie on every one of these ways."""
    common: set[int] | None = None
    for links in ways:
        inner = fabric.receiver[links[:-1]]
        own = set(inner[fabric.kind[inner] == SWITCH].tolist())
        common = own if common is None else common & own
    return common or set()


def _before(fabric: Fabric, links: Ints, switch: int) -> int:
    """How many links of a path lead to a switch on it."""
    return int(np.flatnonzero(fabric.receiver[links] == switch)[0]) + 1


def _paths(routes: Routes) -> list[Ints]:
    return [routes.links[start:end] for start, end in zip(routes.first[:-1], routes.first[1:], strict=True)]


def _known_first(fabric: Fabric, ways: dict[tuple[int, int], Ints]) -> Any:
    """Routing by what is known, and else as the fabric does."""

    def route(sender: Ints, receiver: Ints) -> Routes:
        pairs = list(zip(sender.tolist(), receiver.tolist(), strict=True))
        known = np.array([pair in ways for pair in pairs], dtype=np.bool_)
        rest = fabric.route(sender[~known], receiver[~known])
        lengths = np.zeros(len(pairs), np.int64)
        lengths[~known] = np.diff(rest.first)
        own = [ways[pair] for pair, here in zip(pairs, known.tolist(), strict=True) if here]
        lengths[known] = [len(links) for links in own]
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        links = np.zeros(int(first[-1]), np.int64)
        links[spans(first[:-1][~known], lengths[~known])] = rest.links
        links[spans(first[:-1][known], lengths[known])] = np.concatenate(own) if own else links[:0]
        return Routes(first=first, links=links)

    return route
