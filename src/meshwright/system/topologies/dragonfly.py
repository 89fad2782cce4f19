"""Groups of routers, all joined within, and group to group: `dragonfly:9,routers=4,per_router=2,across=2`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.system.routing import NONE, by_columns
from meshwright.system.wiring import (
    Edges,
    Wires,
    assembled,
    checked_counts,
    checked_radix,
    checked_wires,
    devices,
    switches,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Bools, Ints
    from meshwright.system.graph import Fabric, Routes

TITLE: Final = "groups of routers, all joined within, each pair of groups by one cable"
EXAMPLE: Final = "dragonfly:9,routers=4,per_router=2,across=2"
HEAD: Final = "groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """groups: how many.   routers: of a group.   per_router: devices.   across: ports of a router to other groups.

    radix: ports of a router.   ports: of a device, each on a plane of its own.
    """

    groups: int = 9
    routers: int = 4
    per_router: int = 2
    across: int = 2
    radix: int = 64


def build(spec: Spec) -> Fabric:
    """One cable between each pair of groups; routed the shortest way: local, across, local.

    Group g reaches group g + i over port i - 1 of its own, router (i - 1) // across. Source: J. Kim et al.,
    Technology-Driven, Highly-Scalable Dragonfly Topology, ISCA 2008 (minimal routing).
    Raises SYS022 (ports), SYS023, SYS009.
    """
    checked_wires(spec)
    checked_counts(groups=spec.groups, routers=spec.routers, per_router=spec.per_router, across=spec.across)
    count, routers = spec.groups * spec.routers * spec.per_router, spec.groups * spec.routers
    section = devices(count)
    fix = "give more ports across, more routers or fewer groups"
    checked_radix(f"a group among {spec.groups}", spec.groups - 1, spec.routers * spec.across, fix)
    used = spec.per_router + spec.routers - 1 + spec.across
    checked_radix("a router", used, spec.radix, "give a larger radix, or fewer devices, routers or ports across")
    sections = [section, switches("router", routers, spec.ports)]
    title = f"dragonfly of {spec.groups} groups, {count} devices"
    halves = np.concatenate([_far(spec, spec.per_router), _far(spec, 1)])
    return assembled(title, sections, _edges(spec, count), _router(spec, count), halves)


def _edges(spec: Spec, count: int) -> list[Edges]:
    """Devices to routers, routers of a group to each other, group to group."""
    width, planes = spec.ports * spec.port, spec.ports
    own = np.arange(count)
    local_one, local_other = np.triu_indices(spec.routers, 1)
    group = np.repeat(np.arange(spec.groups), len(local_one)) * spec.routers
    one, other = np.triu_indices(spec.groups, 1)
    ends = (
        (group + np.tile(local_one, spec.groups), group + np.tile(local_other, spec.groups)),
        (_gateway(spec, one, other), _gateway(spec, other, one)),
    )
    return [
        Edges(one=own, other=count + own // spec.per_router, bandwidth=width, latency=spec.latency / 2, cables=planes),
        *(
            Edges(one=count + here, other=count + there, bandwidth=width, latency=spec.forward, cables=planes)
            for here, there in ends
        ),
    ]


def _router(spec: Spec, count: int) -> Callable[[Ints, Ints], Routes]:
    local_one, local_other = np.triu_indices(spec.routers, 1)
    pairs = len(local_one)
    local = np.full((spec.routers, spec.routers), NONE, dtype=np.int64)
    local[local_one, local_other] = 2 * np.arange(pairs)
    local[local_other, local_one] = 2 * np.arange(pairs) + 1
    one, other = np.triu_indices(spec.groups, 1)
    across = np.full((spec.groups, spec.groups), NONE, dtype=np.int64)
    across[one, other] = 2 * (count + spec.groups * pairs + np.arange(len(one)))
    across[other, one] = across[one, other] + 1

    def within(at: Ints, to: Ints) -> Ints:
        found = local[at % spec.routers, to % spec.routers]
        return np.where(found == NONE, NONE, 2 * (count + at // spec.routers * pairs) + found)

    def route(sender: Ints, receiver: Ints) -> Routes:
        source, target = np.asarray(sender), np.asarray(receiver)
        first, last = source // spec.per_router, target // spec.per_router
        here, there = first // spec.routers, last // spec.routers
        leave = np.where(here == there, last, _gateway(spec, here, there))
        enter = np.where(here == there, last, _gateway(spec, there, here))
        apart = source != target
        return by_columns(
            np.where(apart, 2 * source, NONE),
            within(first, leave),
            across[here, there],
            within(enter, last),
            np.where(apart, 2 * target + 1, NONE),
        )

    return route


def _far(spec: Spec, each: int) -> Bools:
    """Of `each` things a router those of the later groups; of an odd number of groups half of the middle one's.

    That half stands at the routers with most cables to later groups, over those to earlier ones.
    """
    group, own = np.divmod(np.arange(spec.groups * spec.routers * each), spec.routers * each)
    middle, number = spec.groups // 2, np.arange(spec.groups)
    ways = np.sign(number - middle)
    later = np.bincount(
        _gateway(spec, np.full(spec.groups, middle), number)[ways != 0] - middle * spec.routers,
        weights=ways[ways != 0],
        minlength=spec.routers,
    )
    place = np.empty(spec.routers, dtype=np.int64)
    place[np.argsort(-later, kind="stable")] = np.arange(spec.routers)
    shared = place[own // each] * each + own % each < spec.routers * each // 2
    return (group >= spec.groups - middle) | ((group == middle) & shared & (spec.groups % 2 == 1))


def _gateway(spec: Spec, group: Ints, other: Ints) -> Ints:
    """The router of `group` that has the cable to group `other`."""
    port = (other - group - 1) % spec.groups
    return group * spec.routers + np.minimum(port // spec.across, spec.routers - 1)
