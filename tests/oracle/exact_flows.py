"""Max-min fair flows in fractions, one by one: programs and background on a fabric go in, exact ends come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np


@dataclass(slots=True)
class Send:
    """One send of one round; ends: its (program, participant) pairs, none of background; size: None for ever."""

    links: list[int]
    size: Fraction | None
    ends: tuple[tuple[int, int], ...]
    entered: set[tuple[int, int]] = field(default_factory=set)


@dataclass(slots=True)
class Rank:
    """rounds: of each that it has a part in, the rows of its sends."""

    rounds: list[list[int]] = field(default_factory=list)
    at: int = -1
    pending: set[int] = field(default_factory=set)
    end: Fraction | None = None


class Exact:
    def __init__(self, fabric, traffic, background):
        self.fabric = fabric
        self.capacity = [Fraction(float(rate)) for rate in fabric.bandwidth_bytes_per_s]
        self.sends, self.ranks, self.events = [], {}, []
        self.left, self.now = {}, Fraction(0)
        for number, item in enumerate(traffic):
            self.add(number, item)
        for sender, receiver, size, start, limit in background:
            links = self.path(sender, receiver)
            if limit is not None:
                self.capacity.append(Fraction(limit))
                links = [*links, len(self.capacity) - 1]
            self.sends.append(Send(links, None if size is None else Fraction(size), ()))
            self.events.append((Fraction(start) + self.latency(links), None, len(self.sends) - 1))

    def add(self, number, item):
        piece = Fraction(item.message_bytes) / item.program.message_pieces
        for step in (one for one in item.program.steps for _ in range(one.times)):
            known = len(self.sends)
            for sender, receiver, pieces in zip(step.sender, step.receiver, step.pieces, strict=True):
                links = self.path(int(item.participants[sender]), int(item.participants[receiver]))
                ends = ((number, int(sender)), (number, int(receiver)))
                self.sends.append(Send(links, int(pieces) * piece, ends))
            rows = range(known, len(self.sends))
            for who in sorted({end for row in rows for end in self.sends[row].ends}):
                own = [row for row in rows if who in self.sends[row].ends]
                self.ranks.setdefault(who, Rank()).rounds.append(own)
        starts = [(Fraction(item.start_s), who, None) for who in self.ranks if who[0] == number]
        self.events.extend(starts)

    def path(self, sender, receiver):
        return self.fabric.route(np.array([sender]), np.array([receiver])).links.tolist()

    def latency(self, links):
        known = self.fabric.latency_s.tolist()
        return sum((Fraction(known[link]) for link in links if link < len(known)), Fraction(0))

    def enter(self, who):
        rank = self.ranks[who]
        rank.at += 1
        if rank.at == len(rank.rounds):
            rank.end = self.now
            return
        rank.pending = set(rank.rounds[rank.at])
        for row in rank.rounds[rank.at]:
            send = self.sends[row]
            send.entered.add(who)
            if send.entered == set(send.ends):
                self.events.append((self.now + self.latency(send.links), None, row))

    def complete(self, row):
        for who in set(self.sends[row].ends):
            self.ranks[who].pending.discard(row)
            if not self.ranks[who].pending:
                self.enter(who)

    def run(self):
        while any(rank.end is None for rank in self.ranks.values()):
            rate = max_min({row: self.sends[row].links for row in self.left}, self.capacity)
            ends = {row: self.now + left / rate[row] for row, left in self.left.items() if left is not None}
            then = min([*ends.values(), *(event[0] for event in self.events)])
            for row in ends:
                self.left[row] -= rate[row] * (then - self.now)
            self.now = then
            for row in [row for row, end in ends.items() if end == then]:
                del self.left[row]
                self.complete(row)
            self.happen()

    def happen(self):
        while due := [event for event in self.events if event[0] <= self.now]:
            for event in due:
                self.events.remove(event)
                _, who, row = event
                if who is not None:
                    self.enter(who)
                elif not self.sends[row].links or self.sends[row].size == 0:
                    self.complete(row)
                else:
                    self.left[row] = self.sends[row].size


def exact_ends(fabric, traffic, background=()):
    """The end of each program; background: rows of (sender, receiver, bytes, start, limit or None)."""
    exact = Exact(fabric, traffic, background)
    exact.run()
    ends = [[rank.end for who, rank in exact.ranks.items() if who[0] == number] for number in range(len(traffic))]
    return [max(found, default=Fraction(item.start_s)) for found, item in zip(ends, traffic, strict=True)]


def max_min(flows, capacity):
    """Rates by filling the tightest link, one after the other, in fractions."""
    left = dict(enumerate(capacity))
    rate, rising = {}, dict(flows)
    while rising:
        users = {}
        for row, links in rising.items():
            for link in links:
                users.setdefault(link, []).append(row)
        tight = min(users, key=lambda link: (left[link] / len(users[link]), link))
        share = left[tight] / len(users[tight])
        for row in users[tight]:
            rate[row] = share
            for link in rising.pop(row):
                left[link] -= share
    return rate
