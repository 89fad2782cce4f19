"""Programs on a fabric, and what else its links carry, go in; when each program ends, and every link's bytes, come out.

Max-min fair flows: a send pays the latency of its path, then moves its bytes at the rate that progressive filling
gives it among all that move at the time; rates change when a flow arrives or ends. Source: Bertsekas and Gallager,
"Data Networks", 2nd edition (1992), section 6.5.2. Left out: queues, packets, congestion control, and the processors'
own work (launches, reductions).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from meshwright.sim.flow_classes import Classes, flow_classes
from meshwright.sim.flow_events import Events, Ready, ready
from meshwright.workload.traffic import NO_BACKGROUND, Background, Sends, Traffic, owners_of, sends_of

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats
    from meshwright.system.graph import Fabric


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flows:
    """Programs on a fabric, ready to be run: what follows from their sends and paths, and not from their bytes."""

    traffic: tuple[Traffic, ...]
    sends: Sends
    ready: Ready

    def run(self, times: float = 1.0) -> FlowTimes:
        """All programs to their end, with so many times their bytes. Raises COL031."""
        classes = self.ready.classes
        own = classes.sends
        events = self.ready.run(np.where(own.sender >= 0, own.size_bytes * times, own.size_bytes))
        ends = np.full(len(self.traffic), -math.inf)
        np.maximum.at(ends, owners_of(self.traffic), events.end_s[classes.of_participant])
        starts = np.array([item.start_s for item in self.traffic])
        return FlowTimes(
            end_s=tuple(np.where(np.isfinite(ends), ends, starts).tolist()),
            link_bytes=_link_bytes(self.sends, classes, events),
            moments=events.moments,
            classes=len(own.kind),
            sends=len(self.sends.sender),
        )


def flows_of(fabric: Fabric, traffic: tuple[Traffic, ...], background: Background = NO_BACKGROUND) -> Flows:
    """Routes and classes of all sends. Raises COL030."""
    sends = sends_of(fabric, traffic, background)
    return Flows(traffic=traffic, sends=sends, ready=ready(flow_classes(sends)))


def run_flows(fabric: Fabric, traffic: tuple[Traffic, ...], background: Background = NO_BACKGROUND) -> FlowTimes:
    """Run every program to its end on the links that they share.

    A send starts when its sender and its receiver have ended all that they send and receive in earlier rounds. Moments
    closer than 1e-11 of the time so far are one. Raises COL030 (more sends than fit), COL031 (more rate changes than
    can be worked out).
    """
    return flows_of(fabric, traffic, background).run()


def duration_s(fabric: Fabric, traffic: Traffic, background: Background = NO_BACKGROUND) -> float:
    """Seconds of one program from its start to its end. Raises as `run_flows`."""
    return run_flows(fabric, (traffic,), background).end_s[0] - traffic.start_s


def _link_bytes(sends: Sends, classes: Classes, events: Events) -> Floats:
    """Counted as they moved, not as they were to move."""
    moved = events.moved_bytes[classes.of_send]
    each = np.repeat(moved, np.diff(sends.first))
    carried = np.bincount(sends.link, weights=each, minlength=len(sends.capacity_bytes_per_s))
    return cast("Floats", carried[: sends.links])
