"""Small fabrics and programs for laws of flows: any graph of links, any rounds of sends."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from meshwright.system.graph import Fabric, Routes
from meshwright.workload.programs import Program, Step


def fabric_of(vertices, links, devices, *, paths=None):
    """links: rows of (from, to, bytes a second, seconds). paths: by pair of vertices; else the shortest."""
    columns = [np.array(column) for column in zip(*links, strict=True)] or [np.zeros(0, np.int64)] * 4
    sender, receiver = columns[0].astype(np.int64), columns[1].astype(np.int64)
    known = {}

    def path(start, end):
        if (start, end) not in known:
            known[start, end] = shortest(vertices, sender, receiver, start, end) if paths is None else paths[start, end]
        return known[start, end]

    def route(senders, receivers):
        found = [path(start, end) for start, end in zip(senders.tolist(), receivers.tolist(), strict=True)]
        first = np.concatenate([[0], np.cumsum([len(item) for item in found])]).astype(np.int64)
        return Routes(first=first, links=np.array([at for item in found for at in item], np.int64))

    return Fabric(
        title="test",
        kind=np.zeros(vertices, np.int64),
        box=np.full(vertices, -1),
        sender=sender,
        receiver=receiver,
        bandwidth_bytes_per_s=columns[2].astype(float),
        latency_s=columns[3].astype(float),
        devices=np.array(devices),
        route=route,
        name=str,
    )


def shortest(vertices, sender, receiver, start, end):
    """Links of a shortest path, by breadth first; lower numbers first."""
    before = {start: -1}
    queue = [start]
    for at in queue:
        for link in np.flatnonzero(sender == at).tolist():
            if int(receiver[link]) not in before:
                before[int(receiver[link])] = link
                queue.append(int(receiver[link]))
    found = []
    while end != start:
        found.append(before[end])
        end = int(sender[before[end]])
    return found[::-1]


def star(ranks, bandwidth=1e9, latency=1e-6):
    """One switch that blocks nothing: half of the latency on the way in, half on the way out."""
    ways = [(rank, ranks) for rank in range(ranks)]
    links = [(*way, bandwidth, latency / 2) for pair in ways for way in (pair, pair[::-1])]
    return fabric_of(ranks + 1, links, range(ranks))


def ring(ranks, bandwidth=1e9, latency=1e-6):
    """Neighbours, both ways."""
    ways = [(rank, (rank + 1) % ranks) for rank in range(ranks)]
    return fabric_of(ranks, [(*way, bandwidth, latency) for pair in ways for way in (pair, pair[::-1])], range(ranks))


def program_of(ranks, rounds, pieces=1):
    """rounds: of each (rows of (sender, receiver, pieces), times)."""
    steps = []
    for rows, times in rounds:
        columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
        steps.append(
            Step(
                sender=columns[0],
                receiver=columns[1],
                pieces=columns[2],
                times=times,
                carried=lambda _: np.zeros(0, np.int64),
                reduce=False,
            )
        )
    return Program(
        operation="send_recv", ranks=ranks, message_pieces=pieces, home=np.zeros(pieces, np.int64), steps=tuple(steps)
    )


def ring_program(ranks):
    """Every rank to the next, 2 (n - 1) times, one of n pieces."""
    rows = [(rank, (rank + 1) % ranks, 1) for rank in range(ranks)]
    return program_of(ranks, [(rows, 2 * (ranks - 1))], pieces=ranks)


def direct_program(ranks):
    """Every rank to every other, at once."""
    rows = [(one, other, 1) for one in range(ranks) for other in range(ranks) if one != other]
    return program_of(ranks, [(rows, 1)], pieces=ranks)


def shifts_program(ranks, shifts):
    """Round by round every rank to the one so many further on; rows of (how far, pieces, times)."""
    rounds = [([(rank, (rank + far) % ranks, pieces) for rank in range(ranks)], times) for far, pieces, times in shifts]
    return program_of(ranks, rounds)


@st.composite
def fabrics(draw, most=7, latencies=(0.0, 1.0, 2.0)):
    """A ring of all vertices both ways, and chords; bandwidths and latencies of few kinds, so that ties come."""
    vertices = draw(st.integers(2, most))
    ways = {(at, (at + 1) % vertices) for at in range(vertices)} | {((at + 1) % vertices, at) for at in range(vertices)}
    ends = st.tuples(st.integers(0, vertices - 1), st.integers(0, vertices - 1)).filter(lambda pair: pair[0] != pair[1])
    ways |= set(draw(st.lists(ends, max_size=5)))
    bandwidth, latency = st.sampled_from([1.0, 2.0, 3.0, 10.0]), st.sampled_from(latencies)
    links = [(*way, draw(bandwidth), draw(latency)) for way in sorted(ways)]
    return fabric_of(vertices, links, range(vertices))


@st.composite
def programs(draw, ranks, most_rounds=3):
    """Any rounds, with repetitions."""
    ends = st.tuples(st.integers(0, ranks - 1), st.integers(0, ranks - 1), st.integers(1, 3))
    rows = st.lists(ends.filter(lambda row: row[0] != row[1]), min_size=1, max_size=6, unique_by=lambda row: row[:2])
    return program_of(ranks, draw(st.lists(st.tuples(rows, st.integers(1, 9)), min_size=1, max_size=most_rounds)))
