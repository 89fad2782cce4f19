"""Flows go in, as columns of senders and receivers; the directed links that each crosses come out, as `Routes`.

Regular networks route by arithmetic: fixed columns of links (`by_columns`), or dimension by dimension on a grid
(`dimension_ordered`). Others walk along shortest paths (`shortest`), counted in links. What is chosen among equals is
said with each, and depends on nothing but the flow and a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import rustworkx as rx

from meshwright.base.errors import SystemSpecError
from meshwright.system.graph import Routes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meshwright.base.numbers import Floats, Ints

NONE: Final = -1
_MOST_SEARCHED: Final = 2048


def by_columns(*columns: Ints) -> Routes:
    """The links of each flow, one column a hop; -1 where a flow does not take it."""
    table = np.stack([np.asarray(column, dtype=np.int64) for column in columns], axis=1)
    taken = table != NONE
    return Routes(first=_first(taken.sum(axis=1)), links=table[taken])


def chained(*parts: Routes) -> Routes:
    """Paths of the same flows one after the other: each flow takes its links of the first part, then of the next."""
    lengths = [np.diff(part.first) for part in parts]
    first = _first(np.sum(lengths, axis=0))
    links = np.zeros(int(first[-1]), dtype=np.int64)
    start = first[:-1].copy()
    for part, length in zip(parts, lengths, strict=True):
        links[np.repeat(start - part.first[:-1], length) + np.arange(len(part.links))] = part.links
        start += length
    return Routes(first=first, links=links)


def scattered(flows: int, parts: Sequence[tuple[Ints, Routes]]) -> Routes:
    """Paths of all flows, from those of some: rows of the flows, and their paths. A flow of no part crosses nothing."""
    lengths = np.zeros(flows, dtype=np.int64)
    for rows, part in parts:
        lengths[rows] = np.diff(part.first)
    first = _first(lengths)
    links = np.zeros(int(first[-1]), dtype=np.int64)
    for rows, part in parts:
        links[np.repeat(first[rows] - part.first[:-1], lengths[rows]) + np.arange(len(part.links))] = part.links
    return Routes(first=first, links=links)


def moved(routes: Routes, by: Ints) -> Routes:
    """The same paths through links whose numbers lie higher, by flow."""
    return Routes(first=routes.first, links=routes.links + np.repeat(by, np.diff(routes.first)))


def hashed(seed: int, sender: Ints, receiver: Ints, among: int) -> Ints:
    """A number from 0 to among - 1 for each flow: what equal-cost multipath takes. Source: splitmix64 (S. Vigna)."""
    mixed = _mixed(sender.astype(np.uint64) + _mixed(receiver.astype(np.uint64) + _mixed(np.uint64(seed))))
    return (mixed % np.uint64(among)).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """The links of a grid of devices, the last dimension fastest.

    links: by dimension, way (0 down, 1 up) and device the link to its neighbour; -1 for none.   wraps: whether the
    ends of a dimension are joined.
    """

    extents: tuple[int, ...]
    wraps: tuple[bool, ...]
    links: Ints


def dimension_ordered(grid: Grid, sender: Ints, receiver: Ints) -> Routes:
    """The shorter way round in the first dimension, then in the next.

    Both ways equally long (half of an even ring): up where the sender's coordinate in this dimension, plus the
    coordinates of both ends in the others, is even; else down. So half of such flows go each way.
    """
    extents = np.array(grid.extents)
    strides = np.array([int(np.prod(grid.extents[place + 1 :])) for place in range(len(extents))])
    source = sender[:, None] // strides % extents
    target = receiver[:, None] // strides % extents
    total = source.sum(axis=1) + target.sum(axis=1)
    parts: list[Routes] = []
    for place, extent in enumerate(grid.extents):
        ahead = target[:, place] - source[:, place]
        if grid.wraps[place]:
            ahead %= extent
            up = 2 * ahead < extent
            tie = 2 * ahead == extent
            up |= tie & ((total - target[:, place]) % 2 == 0)
            ahead = np.where(up, ahead, ahead - extent)
        parts.append(_along(grid, place, source, ahead, strides))
        source = source.copy()
        source[:, place] = target[:, place]
    return chained(*parts)


def shortest(vertices: int, sender: Ints, receiver: Ints, bandwidth: Floats) -> Callable[[Ints, Ints], Routes]:
    """Routing by fewest links, for any network of at most 2048 vertices.

    sender, receiver, bandwidth: of its directed links. Of equally short paths the one whose next link is the widest,
    then the one with the lowest number, at each vertex. Raises SYS024 for a network that is larger, or not connected.
    """
    if vertices > _MOST_SEARCHED:
        cause = f"{vertices} vertices, and paths are searched among {_MOST_SEARCHED} at most"
        raise SystemSpecError(24, cause, "take a topology that is routed by arithmetic, or a smaller one")
    following = _following(vertices, sender, receiver, bandwidth)

    def route(source: Ints, target: Ints) -> Routes:
        at, columns = np.array(source, dtype=np.int64), [np.full(len(source), NONE, dtype=np.int64)]
        while np.any(at != target):
            link = np.where(at == target, NONE, following[at, target])
            if np.any((link == NONE) & (at != target)):
                raise SystemSpecError(24, "two devices are not connected", "join them, or take another topology")
            columns.append(link)
            at = np.where(link == NONE, at, receiver[link])
        return by_columns(*columns)

    return route


def _first(lengths: Ints) -> Ints:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def _mixed(
    value: np.ndarray[tuple[int, ...], np.dtype[np.uint64]] | np.uint64,
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    with np.errstate(over="ignore"):
        found = np.asarray(value, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return found ^ (found >> np.uint64(31))


def _along(grid: Grid, place: int, source: Ints, ahead: Ints, strides: Ints) -> Routes:
    """The links of one dimension: |ahead| of them, up where ahead is positive."""
    length = np.abs(ahead)
    first = _first(length)
    step = np.arange(int(first[-1])) - np.repeat(first[:-1], length)
    sign = np.repeat(np.sign(ahead), length)
    base = source @ strides - source[:, place] * strides[place]
    coordinate = (np.repeat(source[:, place], length) + sign * step) % grid.extents[place]
    device = np.repeat(base, length) + coordinate * strides[place]
    return Routes(first=first, links=grid.links[place, (sign + 1) // 2, device])


def _following(vertices: int, sender: Ints, receiver: Ints, bandwidth: Floats) -> Ints:
    """By vertex and target the link to take next."""
    graph: rx.PyDiGraph[None, int] = rx.PyDiGraph(multigraph=True)
    graph.add_nodes_from([None] * vertices)
    starts: list[int] = sender.tolist()
    ends_at: list[int] = receiver.tolist()
    ends = list(zip(starts, ends_at, strict=True))
    graph.add_edges_from([(one, other, number) for number, (one, other) in enumerate(ends)])
    far = rx.digraph_distance_matrix(graph, null_value=np.inf)
    np.fill_diagonal(far, 0.0)
    following = np.full((vertices, vertices), NONE, dtype=np.int64)
    widest: list[int] = np.lexsort((np.arange(len(sender)), -bandwidth)).tolist()
    for link in reversed(widest):  # the best last: it stands
        one, other = ends[link]
        nearer = np.isfinite(far[one]) & (far[other] == far[one] - 1)
        following[one, nearer] = link
    return following
