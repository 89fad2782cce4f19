"""Programs on a fabric go in; seconds come out, round by round: by ports alone, or by the busiest link of each round.

The two upper depths of time; the third, flow by flow, is `sim.network`. Both take a round to begin when the one before
has ended everywhere, so that seconds are start-up, which bytes do not change, and transfer, in proportion to them.
Left out: what the processors do (launches, reductions), queues, and rounds that overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from meshwright.cost.link_loads import busiest_s, route_loads
from meshwright.workload.traffic import NO_BACKGROUND, Background, Sends, Traffic, sends_of, sent_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshwright.base.numbers import Floats, Ints
    from meshwright.system.graph import Fabric, Routes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgramTime:
    """Seconds of all rounds, and bytes that each link of the fabric carries in them."""

    start_up_s: float
    transfer_s: float
    link_bytes: Floats

    @property
    def total_s(self) -> float:
        """Start-up and transfer."""
        return self.start_up_s + self.transfer_s


def port_times(fabric: Fabric, traffic: tuple[Traffic, ...], background: Background = NO_BACKGROUND) -> ProgramTime:
    """Alpha-beta of the ports: links between them are never filled by what several ports send.

    A round takes the latency of its longest path, and the transfer of its busiest port: what one participant sends by
    one link of its own, or receives by one, over the link of its way that these bytes alone keep busy longest. So it is
    never slower than `round_times`. Several programs run round for round, so they are one program at several places.
    Raises COL030. Source: chapter "Supernodes", equations 6-9 and 6-10.
    """
    sends = _lockstep(fabric, traffic, background)
    crosses = np.diff(sends.first) > 0
    total = _Totals()
    beside = _Beside(sends)
    for rows in _rounds(sends):
        inner = rows[crosses[rows]]
        routes = sends.routes(inner)
        hops = np.diff(routes.first)
        rate = beside.leave(fabric, routes).bandwidth_bytes_per_s[routes.links]
        seconds = np.repeat(sends.size_bytes[inner], hops) / rate
        out, back = sends.link[sends.first[inner]], sends.link[sends.first[inner + 1] - 1]
        busiest = max(_most(np.repeat(port, hops), routes.links, seconds) for port in (out, back))
        total.add(sends, rows, busiest)
    return total.of(sends)


def round_times(fabric: Fabric, traffic: tuple[Traffic, ...], background: Background = NO_BACKGROUND) -> ProgramTime:
    """The busiest link of each round, on whatever path: bytes over it against what other traffic leaves of it.

    A round takes the latency of its longest path, and the transfer of its busiest link. Other traffic takes its fair
    share of every link that it crosses, or its limit where that is less, throughout. Several programs as in
    `port_times`. Raises COL030. Source: chapter "Supernodes", section 6.5.1.
    """
    sends = _lockstep(fabric, traffic, background)
    total = _Totals()
    beside = _Beside(sends)
    for rows in _rounds(sends):
        routes = sends.routes(rows)
        loads = route_loads(fabric, routes, sends.size_bytes[rows])
        total.add(sends, rows, busiest_s(beside.leave(fabric, routes), loads))
    return total.of(sends)


class _Totals:
    """Sums over rounds, each as often as it is repeated."""

    def __init__(self) -> None:
        self.start_up_s = 0.0
        self.transfer_s = 0.0

    def add(self, sends: Sends, rows: Ints, transfer_s: float) -> None:
        """A round of some sends."""
        times = int(sends.times[rows[0]])
        self.start_up_s += times * float(np.max(sends.latency_s[rows]))
        self.transfer_s += times * transfer_s

    def of(self, sends: Sends) -> ProgramTime:
        """All of them, and the bytes of programs by link."""
        return ProgramTime(start_up_s=self.start_up_s, transfer_s=self.transfer_s, link_bytes=sent_bytes(sends))


def _lockstep(fabric: Fabric, traffic: tuple[Traffic, ...], background: Background) -> Sends:
    assert len({id(item.program) for item in traffic}) <= 1, "several programs run round for round"
    return sends_of(fabric, traffic, background)


def _rounds(sends: Sends) -> Iterator[Ints]:
    """The sends of each step of the program."""
    own = np.flatnonzero(sends.sender >= 0)
    order = own[np.argsort(sends.step[own], kind="stable")]
    bounds = np.flatnonzero(np.diff(sends.step[order])) + 1
    yield from (rows for rows in np.split(order, bounds) if len(rows))


def _most(port: Ints, link: Ints, seconds: Floats) -> float:
    """The longest sum over what one port sends over one link."""
    if not len(port):
        return 0.0
    _, place = np.unique(port * (int(link.max()) + 1) + link, return_inverse=True)
    return float(np.max(np.bincount(place, seconds)))


class _Beside:
    """What background takes of each link."""

    def __init__(self, sends: Sends) -> None:
        self.capacity = sends.capacity_bytes_per_s
        rows = np.flatnonzero(sends.sender < 0)
        self.limits: dict[int, list[float]] = {}
        for row in rows.tolist():
            links = sends.link[sends.first[row] : sends.first[row + 1]].tolist()
            least = min((float(self.capacity[link]) for link in links), default=np.inf)
            for link in links:
                self.limits.setdefault(link, []).append(least)

    def leave(self, fabric: Fabric, routes: Routes) -> Fabric:
        """The fabric with what is left of it for flows on these paths."""
        if not self.limits:
            return fabric
        links, flows = np.unique(routes.links, return_counts=True)
        rate = fabric.bandwidth_bytes_per_s.astype(np.float64)
        rate[links] = self.left(links, flows)
        return replace(fabric, bandwidth_bytes_per_s=rate)

    def left(self, links: Ints, flows: Ints) -> Floats:
        """Bytes a second that so many flows get of each link together: max-min fair on that link alone."""
        rate = self.capacity[links].astype(np.float64)
        if not self.limits:
            return rate
        for place, (link, own) in enumerate(zip(links.tolist(), flows.tolist(), strict=True)):
            limits = sorted(self.limits.get(link, ()))
            rising = own + len(limits)
            for limit in limits:
                if limit * rising >= rate[place]:
                    break
                rate[place] -= limit
                rising -= 1
            rate[place] *= own / rising
        return rate
