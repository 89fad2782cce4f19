"""A network, and what a round puts on its links, go in; rows come out: links of one sort, and what they carry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.system.graph import Fabric

_NUMBER: Final = re.compile(r"^box \d+, | \d+$")
_LETTERS: Final = "xyzw"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow:
    """Directed links of one sort: what stands at their ends, along which dimension of a grid.

    cables: of all of them, one way.   bandwidth_bytes_per_s: of one link; null where nobody publishes it.   max_bytes,
    busy_s, busiest: what the link carries that carries most, how long that takes, and which it is; null without a load.
    """

    id: str
    links: int
    cables: int
    bandwidth_bytes_per_s: float | None
    latency_s: float
    max_bytes: float | None = None
    mean_bytes: float | None = None
    busy_s: float | None = None
    busiest: str | None = None


def link_rows(fabric: Fabric, link_bytes: Floats | None) -> tuple[LinkRow, ...]:
    """Every sort of links, those that leave devices first. link_bytes: of each link; None without a load."""
    sorts, of_link = _sorts(fabric)
    return tuple(_row(fabric, name, np.flatnonzero(of_link == place), link_bytes) for place, name in enumerate(sorts))


def link_name(fabric: Fabric, link: int) -> str:
    """Both ends of a link."""
    return f"{fabric.name(int(fabric.sender[link]))} > {fabric.name(int(fabric.receiver[link]))}"


def _row(fabric: Fabric, name: str, links: Ints, link_bytes: Floats | None) -> LinkRow:
    width = float(fabric.bandwidth_bytes_per_s[links[0]])
    plain = LinkRow(
        id=name,
        links=len(links),
        cables=int(fabric.cables[links].sum()) if len(fabric.cables) else len(links),
        bandwidth_bytes_per_s=width if np.isfinite(width) else None,
        latency_s=float(fabric.latency_s[links[0]]),
    )
    if link_bytes is None:
        return plain
    carried = link_bytes[links]
    most = int(np.argmax(carried))
    return LinkRow(
        id=plain.id,
        links=plain.links,
        cables=plain.cables,
        bandwidth_bytes_per_s=plain.bandwidth_bytes_per_s,
        latency_s=plain.latency_s,
        max_bytes=float(carried[most]),
        mean_bytes=float(carried.mean()),
        busy_s=float(carried[most] / width),
        busiest=link_name(fabric, int(links[most])) if carried[most] > 0 else None,
    )


def _sorts(fabric: Fabric) -> tuple[tuple[str, ...], Ints]:
    """Names of the sorts in the order of their first links, and of each link its sort."""
    words, of_vertex = np.unique([_word(fabric, vertex) for vertex in range(len(fabric.kind))], return_inverse=True)
    dims = _dims(fabric)
    ends = of_vertex[fabric.sender] * len(words) + of_vertex[fabric.receiver]
    rates, of_rate = np.unique(fabric.bandwidth_bytes_per_s, return_inverse=True)
    keys = (ends * len(rates) + of_rate) * (len(_LETTERS) + 1) + dims + 1
    found, first, of_link = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty(len(found), dtype=np.int64)
    place[order] = np.arange(len(found))
    names = [
        f"{words[of_vertex[fabric.sender[link]]]} > {words[of_vertex[fabric.receiver[link]]]}"
        + (f" along {_LETTERS[dims[link]]}" if dims[link] >= 0 else "")
        for link in first[order].tolist()
    ]
    return _apart(fabric, names, first[order]), place[of_link]


def _apart(fabric: Fabric, names: list[str], first: Ints) -> tuple[str, ...]:
    """Names of sorts that differ in bandwidth alone, with their cables."""
    return tuple(
        f"{name}, {int(fabric.cables[link])} cables" if names.count(name) > 1 and len(fabric.cables) else name
        for name, link in zip(names, first.tolist(), strict=True)
    )


def _word(fabric: Fabric, vertex: int) -> str:
    return _NUMBER.sub("", _NUMBER.sub("", fabric.name(vertex)))


def _dims(fabric: Fabric) -> Ints:
    """The dimension of a grid that each link runs along; -1 where there is no grid."""
    none = np.full(len(fabric.sender), -1, dtype=np.int64)
    if len(fabric.extents) < 2:  # noqa: PLR2004 - a line has one dimension
        return none
    count, found, stride = len(fabric.devices), none, 1
    both = (fabric.sender < count) & (fabric.receiver < count)
    for place in reversed(range(len(fabric.extents))):
        ends = (fabric.sender // stride % fabric.extents[place], fabric.receiver // stride % fabric.extents[place])
        found = np.where(both & (ends[0] != ends[1]), place, found)
        stride *= fabric.extents[place]
    return found
