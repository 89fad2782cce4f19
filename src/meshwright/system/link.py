"""A link's registry name goes in; its one-way bandwidth and latency come out, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from meshwright.base.errors import SystemSpecError
from meshwright.base.numbers import N
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.units import BytesPerSecond, Seconds
from meshwright.system.facts import Facts, split

LINKS: Final = Registry(
    kind="links", package="meshwright.system", folder="data/links", suffix=".toml", error=SystemSpecError, number=2
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one owner (a device, a NIC) can send on.

    bandwidth: bytes a second, one way, of all its ports.   latency: seconds one way, the alpha of a round.
    ports, port_bandwidth: how the bandwidth is made up.   measured_bandwidth: what a benchmark reached, never used
    in place of `bandwidth`.
    """

    name: str
    bandwidth: BytesPerSecond
    latency: Seconds
    ports: int | None = None
    port_bandwidth: BytesPerSecond | None = None
    measured_bandwidth: BytesPerSecond | None = None
    note: str = ""
    facts: Facts = field(default_factory=Facts)


def read_link(name: str) -> Link:
    """The link registered as `name`. Raises SYS002 when unknown, SYS003 for sources, SYS004 for its rates."""
    values, facts = split(read_toml(LINKS.text(name), name), name)
    return build_link({**values, "facts": facts}, name)


def build_link(values: Mapping[str, Any], what: str) -> Link:
    """A link from its plain values. Raises SYS004 when ports and total disagree, and the codes of `build`."""
    link = build(Link, values, what)
    if link.ports is not None and link.port_bandwidth is not None:
        made = ports_bytes_per_s(link.ports, link.port_bandwidth)
        if made != link.bandwidth:
            cause = f"{what}: {link.ports} ports of {link.port_bandwidth:g} B/s make {made:g}, not {link.bandwidth:g}"
            raise SystemSpecError(4, cause, "bandwidth is one way: ports x port_bandwidth")
    return link


def ports_bytes_per_s(ports: int, port_bandwidth_bytes_per_s: N) -> N:
    """One-way bandwidth of an owner from its ports. Source: chapter "Supernodes", section 6.1.2."""
    return port_bandwidth_bytes_per_s * ports


def both_ways_bytes_per_s(one_way_bytes_per_s: N) -> N:
    """What a datasheet prints when it adds both directions. Source: chapter "Supernodes", footnote 35."""
    return one_way_bytes_per_s * 2


def one_way_bytes_per_s(both_ways_bytes_per_s: N) -> N:
    """The one-way rate behind a datasheet's total of both directions. Source: chapter "Supernodes", footnote 35."""
    return both_ways_bytes_per_s / 2
