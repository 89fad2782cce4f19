"""Classes of sends go in; when each class of participants is done, and what each class of sends moved, come out.

The events of `sim.network`, in turns: what is due happens (flows end, flows arrive, participants enter rounds), then
the rates of all that move are worked out anew. A state that repeats itself round by round is not run again for every
round: once two repetitions of a step leave the same state behind, the clock is put forward by the rest of them.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import CollectiveError
from meshwright.sim.max_min import solver

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.sim.flow_classes import Classes
    from meshwright.sim.max_min import Solver

SAME_MOMENT: Final = 1e-11
"""Events closer than this part of the time so far happen at once; so close do sums of doubles agree."""
SAME_STATE: Final = 1e-9
"""A repetition is as the one before when all it leaves differs by less than this part of what a repetition takes."""
MOST_WORK: Final = 400_000_000
"""Crossings read over all changes of rates: minutes of work (docs/collective-speed.md)."""
_LEAST_REPEATS: Final = 4
_KEPT_RATES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Events:
    """end_s: of each class of participants, minus infinity for one that does nothing.   moved_bytes: of a class' send.

    moments: times at which something happened, those put forward not counted.
    """

    end_s: Floats
    moved_bytes: Floats
    moments: int


def flow_events(classes: Classes, *, forward: bool = True, compiled: bool | None = None) -> Events:
    """Run all programs to their end. forward: whether repetitions that repeat their state are skipped.

    compiled: as of `max_min.solver`. Raises COL031 when rates change more often than can be worked out.
    """
    return ready(classes, compiled=compiled).run(classes.sends.size_bytes, forward=forward)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ready:
    """What no run changes: who sends what step by step, and how rates follow from the flows that move."""

    classes: Classes
    visits: Visits
    rates: Solver

    def run(self, size_bytes: Floats, *, forward: bool = True) -> Events:
        """One run, with so many bytes a send. Raises COL031."""
        run = _Run(self, size_bytes)
        run.start()
        while run.open:
            run.to_next_moment()
            run.happen()
            if forward:
                run.put_forward()
        return Events(end_s=np.array(run.end_s), moved_bytes=run.carried, moments=run.moments)


def ready(classes: Classes, *, compiled: bool | None = None) -> Ready:
    """Before the first run."""
    rates = _remembered(solver(classes.crossings, compiled=compiled))
    return Ready(classes=classes, visits=_visits(classes), rates=rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """What each participant does, step by step: its visits are first[p] to first[p + 1] - 1.

    sends: those of a visit.   times: its repetitions.   step: which.   repeating: participants with a visit of many.
    """

    first: list[int]
    sends: list[list[int]]
    times: list[int]
    step: list[int]
    repeating: list[int]


def _visits(classes: Classes) -> Visits:
    sends = classes.sends
    count, participants = len(sends.kind), len(sends.participant_kind)
    owned = np.flatnonzero(sends.sender >= 0)
    who = np.concatenate([sends.sender[owned], sends.receiver[owned]])
    what = np.concatenate([owned, owned])
    steps = int(sends.step.max(initial=0)) + 1
    visit, send = np.divmod(np.unique((who * steps + sends.step[what]) * max(1, count) + what), max(1, count))
    starts = np.flatnonzero(np.diff(visit, prepend=-1) != 0)
    bounds = [*starts.tolist(), len(visit)]
    flat = send.tolist()
    first = np.searchsorted(visit[starts] // steps, np.arange(participants + 1))
    times = sends.times[send[starts]]
    return Visits(
        first=first.tolist(),
        sends=[flat[bounds[place] : bounds[place + 1]] for place in range(len(starts))],
        times=times.tolist(),
        step=(visit[starts] % steps).tolist(),
        repeating=np.unique(np.searchsorted(first, np.flatnonzero(times >= _LEAST_REPEATS), side="right") - 1).tolist(),
    )


@dataclass(slots=True, kw_only=True, eq=False)
class _Snapshot:
    """The state right after a repetition. now: the clock.   visit, repeat: of each participant."""

    now: float
    visit: Ints
    repeat: Ints
    waits: Ints
    pending: Ints
    remaining: Floats
    due: Floats
    carried: Floats


class _Run:
    """The state of all classes; one of each kind stands for all of its kind."""

    def __init__(self, of: Ready, size_bytes: Floats) -> None:
        classes, sends = of.classes, of.classes.sends
        count = len(sends.kind)
        self.classes = classes
        self.visits = of.visits
        self.rates = of.rates
        self.crossed = np.diff(classes.crossings.first)
        self.size = size_bytes
        self.latency = sends.latency_s.tolist()
        self.ends = list(zip(sends.sender.tolist(), sends.receiver.tolist(), strict=True))
        self.quick = ((self.crossed == 0) | (self.size == 0)).tolist()
        self.waits = [len({*pair}) for pair in self.ends]
        self.visit = list(self.visits.first[:-1])
        self.repeat = [0] * len(self.visit)
        self.pending = [0] * len(self.visit)
        self.end_s = [-math.inf] * len(self.visit)
        self.remaining = np.zeros(count)
        self.carried = np.zeros(count)
        self.due = np.full(count, np.inf)
        self.moving = np.zeros(0, np.int64)
        self.rate = np.zeros(0)
        self.arrived: list[int] = []
        self.heap: list[tuple[float, int, int]] = []
        self.now = 0.0
        self.moments = 0
        self.work = 0
        self.open = 0
        self.seen: _Snapshot | None = None
        self.leader = -1
        self.watched = (-1, -1)

    def start(self) -> None:
        """Programs enter their first round when they start; background moves when it does."""
        sends = self.classes.sends
        for who, at in enumerate(sends.participant_start_s.tolist()):
            if self.visits.first[who] < self.visits.first[who + 1]:
                self.open += 1
                heapq.heappush(self.heap, (at, 1, who))
        for flow in np.flatnonzero(sends.sender < 0).tolist():
            self.launch(flow, float(sends.start_s[flow]))

    def launch(self, flow: int, at: float) -> None:
        """A send starts; its bytes move after the latency of its path."""
        self.waits[flow] = len({*self.ends[flow]})
        due = at + self.latency[flow]
        self.due[flow] = due
        heapq.heappush(self.heap, (due, 0, flow))

    def to_next_moment(self) -> None:
        """Move the clock, and all that moves with it, to the next event."""
        arrival = self.heap[0][0] if self.heap else math.inf
        left = self.remaining[self.moving]
        ending = self.now + float(np.min(left / self.rate)) if len(self.moving) else math.inf
        then = min(arrival, ending)
        assert then < math.inf, "a program that is open has something to wait for"
        if len(self.moving):
            passed = np.minimum(left, self.rate * (then - self.now))
            self.remaining[self.moving] = left - passed
            self.carried[self.moving] += np.where(np.isfinite(passed), passed, 0.0)
        self.now = max(then, self.now)
        self.moments += 1

    def happen(self) -> None:
        """All that is due: flows end, others arrive, participants enter rounds; then the rates anew."""
        near = self.now * SAME_MOMENT
        over = self.remaining[self.moving] <= self.rate * near
        ended = self.moving[over]
        stay = self.moving[~over]
        self.arrived = []
        for flow in ended.tolist():
            self.remaining[flow] = 0.0
            self.complete(flow)
        while self.heap and self.heap[0][0] <= self.now + near:
            _, kind, which = heapq.heappop(self.heap)
            if kind == 0:
                self.arrive(which)
            else:
                self.enter(which)
        if len(ended) or self.arrived:
            self.moving = np.sort(np.concatenate([stay, np.array(self.arrived, np.int64)]))
            self.work += int(self.crossed[self.moving].sum())
            self._check_work()
            self.rate = self.rates(self.moving) if len(self.moving) else np.zeros(0)

    def arrive(self, flow: int) -> None:
        """The first byte of a send is through; one without bytes, or that crosses nothing, is over."""
        self.due[flow] = np.inf
        if self.quick[flow]:
            self.carried[flow] += self.size[flow]
            self.complete(flow)
        else:
            self.remaining[flow] = self.size[flow]
            self.arrived.append(flow)

    def complete(self, flow: int) -> None:
        """Its sender and its receiver wait for one send less, and enter the next round after their last."""
        for who in {*self.ends[flow]}:
            if who < 0:
                continue
            self.pending[who] -= 1
            if self.pending[who] == 0:
                self.repeat[who] += 1
                if self.repeat[who] == self.visits.times[self.visit[who]]:
                    self.repeat[who] = 0
                    self.visit[who] += 1
                self.enter(who)

    def enter(self, who: int) -> None:
        """A round begins for a participant: of its sends those start whose other end has entered it too."""
        at = self.visit[who]
        if at == self.visits.first[who + 1]:
            self.end_s[who] = self.now
            self.open -= 1
            return
        sends = self.visits.sends[at]
        self.pending[who] = len(sends)
        for flow in sends:
            self.waits[flow] -= 1
            if self.waits[flow] == 0:
                self.launch(flow, self.now)

    def _check_work(self) -> None:
        if self.work > MOST_WORK:
            flows = len(self.size)
            cause = f"{flows} kinds of flows change their rates too often: {self.moments} moments so far"
            raise CollectiveError(31, cause, "ask for --depth rounds, or for fewer ranks")

    # ---------------------------------------------------------------------------------------------- repeated rounds

    def put_forward(self) -> None:
        """Once a repetition leaves the state that the one before left, as many times on as it will repeat."""
        if not self._led():
            return
        now = self._snapshot()
        seen, self.seen = self.seen, now
        if seen is None:
            return
        lap = now.now - seen.now
        on = now.repeat - seen.repeat
        if not self._alike(seen, now, lap) or not on.any():
            return
        of_step = np.array(self.visits.times)[now.visit[on == 1]]
        laps = int(np.min(of_step - now.repeat[on == 1])) - 1
        if laps < 1:
            return
        self.repeat = (now.repeat + laps * on).tolist()
        self.carried += laps * (now.carried - seen.carried)
        self.heap = [(at + laps * lap, kind, which) for at, kind, which in self.heap]
        self.due += laps * lap
        self.now += laps * lap
        self.seen = None

    def _led(self) -> bool:
        """Whether the participant whose repetitions are watched has just begun one; the first that has many."""
        lead = self.leader
        if lead >= 0 and self.watched == (self.visit[lead], self.repeat[lead]):
            return False
        if lead < 0 or not self._many(lead):
            self.seen = None
            self.leader = next((who for who in self.visits.repeating if self._many(who)), -1)
        if self.leader < 0:
            return False
        self.watched = (self.visit[self.leader], self.repeat[self.leader])
        return True

    def _many(self, who: int) -> bool:
        at = self.visit[who]
        return at < self.visits.first[who + 1] and self.visits.times[at] - self.repeat[who] >= _LEAST_REPEATS

    def _snapshot(self) -> _Snapshot:
        return _Snapshot(
            now=self.now,
            visit=np.array(self.visit),
            repeat=np.array(self.repeat),
            waits=np.array(self.waits),
            pending=np.array(self.pending),
            remaining=self.remaining.copy(),
            due=self.due.copy(),
            carried=self.carried.copy(),
        )

    def _alike(self, seen: _Snapshot, now: _Snapshot, lap: float) -> bool:
        """Whether only the clock and the numbers of repetitions differ, these by one or not at all."""
        if not lap > 0 or any(kind for _, kind, _ in self.heap):
            return False
        on = now.repeat - seen.repeat
        same: Bools = (now.visit == seen.visit) & ((on == 0) | (on == 1)) & (now.pending == seen.pending)
        if not same.all() or (now.waits != seen.waits).any():
            return False
        return _close(now.due - now.now, seen.due - seen.now, lap) and _close(
            now.remaining, seen.remaining, np.where(np.isfinite(self.size), self.size, 1.0)
        )


def _close(one: Floats, other: Floats, scale: Any) -> bool:
    known = np.isfinite(one)
    if (known != np.isfinite(other)).any():
        return False
    apart = np.abs(one[known] - other[known])
    return bool((apart <= SAME_STATE * np.broadcast_to(scale, one.shape)[known]).all())


def _remembered(rates: Solver) -> Solver:
    """Rates by the flows that move: rounds of one step ask for the same ones again and again."""
    known: dict[bytes, Floats] = {}

    def asked(moving: Ints) -> Floats:
        key = moving.tobytes()
        if key not in known:
            if len(known) >= _KEPT_RATES:
                known.clear()
            known[key] = rates(moving)
        return known[key]

    return asked
