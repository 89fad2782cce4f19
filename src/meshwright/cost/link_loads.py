"""A network and rounds of sends go in; the bytes on every directed link, and the time of the busiest one, come out.

This is the second of three depths of time: every round lasts as long as its busiest link, and what its longest path
pays in latency. It knows what shares a link, and not when: that is `sim.network`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from meshwright.base.errors import SystemSpecError, suggest
from meshwright.base.numbers import N
from meshwright.cost.collectives import COLLECTIVES
from meshwright.system.graph import NIC, SWITCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.system.graph import Fabric, Routes
    from meshwright.workload.programs import Program, Step

UNIFORM: Final = "all_to_all"
Destinations = Literal["all", "others"]
MOST_FLOWS: Final = 2**22
MOST_CROSSED: Final = 300_000_000
"""Links that the flows of one answer may cross in all: more would take minutes."""
_AT_ONCE: Final = 500_000
_LINKS_AT_ONCE: Final = 2_000_000
_PROBED: Final = 64
_UNREACHED: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loads:
    """What sends of one round put on a network.

    link_bytes: of each directed link.   longest_s: latency of the slowest path.   most_links: of the longest one.
    byte_links: bytes times links crossed, of all flows: the sum of link_bytes.   flows: sends between two devices.
    """

    link_bytes: Floats
    longest_s: float
    most_links: int
    byte_links: float
    flows: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundLoads:
    """`times` rounds of one pattern of a program, and the loads of one of them."""

    times: int
    loads: Loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The links between the two sides of a network: each way their number, cables and bytes a second.

    A link whose bandwidth nobody publishes counts nothing.   near, far: devices of each side.
    """

    near: int
    far: int
    links: int
    cables: int
    out_bytes_per_s: float
    back_bytes_per_s: float


def flow_loads(fabric: Fabric, sender: Ints, receiver: Ints, flow_bytes: Floats) -> Loads:
    """Loads of flows between vertices (of ranks: `fabric.devices[rank]`), each over its route; columns, one row a flow.

    Conserved: the bytes on all links are those of each flow times the links that it crosses. Source: chapter
    "Supernodes", section 6.5.1.
    """
    rows = _flows_at_once(fabric, sender, receiver)
    if len(sender) <= rows:
        return route_loads(fabric, fabric.route(sender, receiver), flow_bytes)
    total = np.zeros(len(fabric.sender))
    longest, most, crossed, flows = 0.0, 0, 0.0, 0
    for start in range(0, len(sender), rows):
        own = slice(start, start + rows)
        part = route_loads(fabric, fabric.route(sender[own], receiver[own]), flow_bytes[own])
        total += part.link_bytes
        longest, most = max(longest, part.longest_s), max(most, part.most_links)
        crossed, flows = crossed + part.byte_links, flows + part.flows
    return Loads(link_bytes=total, longest_s=longest, most_links=most, byte_links=crossed, flows=flows)


def _flows_at_once(fabric: Fabric, sender: Ints, receiver: Ints) -> int:
    """How many flows are routed together, so that the columns of their links fit into memory on any network."""
    if len(sender) <= _PROBED:
        return len(sender)
    probed = np.random.default_rng(0).integers(0, len(sender), _PROBED)  # a fixed step may meet like flows alone
    return max(1, int(_LINKS_AT_ONCE / max(1.0, _mean_links(fabric, sender[probed], receiver[probed]))))


def _mean_links(fabric: Fabric, sender: Ints, receiver: Ints) -> float:
    return len(fabric.route(sender, receiver).links) / len(sender)


def links_a_flow(fabric: Fabric) -> float:
    """Links between a device and others, about: of the first device and some, evenly apart."""
    some = fabric.devices[np.linspace(0, len(fabric.devices) - 1, _PROBED).astype(np.int64)]
    return max(1.0, _mean_links(fabric, np.full(_PROBED, fabric.devices[0]), some))


def route_loads(fabric: Fabric, routes: Routes, flow_bytes: Floats) -> Loads:
    """As `flow_loads`, of flows whose paths are known."""
    links = np.diff(routes.first)
    weights = np.repeat(flow_bytes, links)
    loads = np.bincount(routes.links, weights=weights, minlength=len(fabric.sender)).astype(np.float64)
    flow = np.repeat(np.arange(len(links)), links)
    latency = np.bincount(flow, weights=fabric.latency_s[routes.links], minlength=len(links))
    return Loads(
        link_bytes=loads,
        longest_s=float(latency.max(initial=0.0)),
        most_links=int(links.max(initial=0)),
        byte_links=float(np.sum(flow_bytes * links)),
        flows=int(np.count_nonzero(links)),
    )


def round_s(fabric: Fabric, loads: Loads) -> float:
    """Seconds of a round: its busiest link, and the latency of its longest path. Source: "Supernodes", 6.5.1."""
    return busiest_s(fabric, loads) + loads.longest_s


def busiest_s(fabric: Fabric, loads: Loads) -> float:
    """The part of `round_s` that latency does not change: most seconds that any link needs for its bytes."""
    return float((loads.link_bytes / fabric.bandwidth_bytes_per_s).max(initial=0.0))


def program_loads(fabric: Fabric, program: Program, message_bytes: float, placement: Ints) -> tuple[RoundLoads, ...]:
    """Loads of every pattern of rounds. placement: the device of each rank, switches of the program after the ranks.

    message_bytes: as nccl-tests counts them; a piece is its equal part. A participant that stands for switches of a
    program is a vertex that the placement names.
    """
    piece = message_bytes / program.message_pieces
    return tuple(
        RoundLoads(
            times=step.times,
            loads=flow_loads(fabric, placement[step.sender], placement[step.receiver], _sent(step, piece)),
        )
        for step in program.steps
    )


def _sent(step: Step, piece_bytes: float) -> Floats:
    return step.pieces.astype(np.float64) * piece_bytes


def load_name(operation: str, algorithm: str) -> str:
    """The registered name of an algorithm that has the operation. Raises COL001 (not registered), SYS029 (it has not).

    Names are written with `-` or `_`.
    """
    name = algorithm.replace("-", "_")
    module = COLLECTIVES.module(name)
    if operation not in module.OPERATIONS:
        raise SystemSpecError(29, f"{algorithm} has no {operation}", suggest(operation, module.OPERATIONS))
    return name


def load_program(operation: str, algorithm: str, ranks: int) -> Program:
    """The program of an algorithm. Raises COL002 (ranks), and as `load_name`."""
    return COLLECTIVES.module(load_name(operation, algorithm)).program(operation, ranks)


def check_uniform(operation: str) -> None:
    """Nothing, where an operation has a load without an algorithm. Raises SYS029."""
    if operation != UNIFORM:
        cause = f"--load {operation} without an algorithm"
        raise SystemSpecError(29, cause, f"give --algorithm, or --load {UNIFORM} for uniform traffic")


def all_to_all_loads(fabric: Fabric, sent_bytes: float, destinations: Destinations) -> Loads:
    """Loads of a uniform all_to_all in which every device sends `sent_bytes`.

    destinations: `all` cuts them over all devices, the sender's own block included, which crosses no link (the chapter
    and nccl-tests); `others` over the other devices alone. Raises SYS029 for too many flows.
    Source: chapter "Supernodes", section 6.5.1.
    """
    count = len(fabric.devices)
    if count * count > MOST_FLOWS:
        cause = f"an all_to_all of {count} devices has {count * (count - 1)} flows"
        raise SystemSpecError(29, cause, f"take at most {int(MOST_FLOWS**0.5)} devices")
    crossed = count * count * links_a_flow(fabric)
    if crossed > MOST_CROSSED:
        cause = f"an all_to_all of {count} devices crosses {crossed:.3g} links"
        raise SystemSpecError(29, cause, "take fewer devices, or a network of shorter paths")
    block = sent_bytes / (count if destinations == "all" else max(1, count - 1))
    total = np.zeros(len(fabric.sender))
    longest, most, crossed, flows = 0.0, 0, 0.0, 0
    for sender, receiver in pairs(fabric):
        part = flow_loads(fabric, sender, receiver, np.full(len(sender), block))
        total += part.link_bytes
        longest, most = max(longest, part.longest_s), max(most, part.most_links)
        crossed, flows = crossed + part.byte_links, flows + part.flows
    return Loads(link_bytes=total, longest_s=longest, most_links=most, byte_links=crossed, flows=flows)


def pairs(fabric: Fabric) -> Iterator[tuple[Ints, Ints]]:
    """Every device to every other, as columns of vertices, a part at a time."""
    count = len(fabric.devices)
    rows = max(1, _AT_ONCE // count)
    for start in range(0, count, rows):
        senders = np.arange(start, min(count, start + rows))
        one, other = np.repeat(senders, count), np.tile(np.arange(count), len(senders))
        apart = one != other
        yield fabric.devices[one[apart]], fabric.devices[other[apart]]


def cut(fabric: Fabric, far: Bools) -> Cut:
    """The links between two sides. far: True for the vertices of one. Source: chapter "Supernodes", section 6.5.1."""
    out, back = far[fabric.receiver] & ~far[fabric.sender], far[fabric.sender] & ~far[fabric.receiver]
    known = np.isfinite(fabric.bandwidth_bytes_per_s)
    rates = [float(fabric.bandwidth_bytes_per_s[ways & known].sum()) for ways in (out, back)]
    cables = fabric.cables[out & known].sum() if len(fabric.cables) else 0
    beyond = int(np.count_nonzero(far[fabric.devices]))
    return Cut(
        near=len(fabric.devices) - beyond,
        far=beyond,
        links=int(np.count_nonzero(out & known)),
        cables=int(cables),
        out_bytes_per_s=rates[0],
        back_bytes_per_s=rates[1],
    )


def bisection(fabric: Fabric) -> Cut | None:
    """The least cut between two halves of the devices that the network's structure knows; None where it knows none.

    Exact for switches, trees, meshes, rings and tori with an even extent among their longest (brute force and maximum
    flow agree on small ones); for the others the cut is one of the halves that the builder names.
    """
    return cut(fabric, fabric.halves) if len(fabric.halves) else None


def cut_s(crossing_bytes: N, crossing_bytes_per_s: N) -> N:
    """Least seconds for bytes that must cross a cut one way. Source: chapter "Supernodes", section 6.5.1."""
    return crossing_bytes / crossing_bytes_per_s


def injection_bytes_per_s(fabric: Fabric) -> float:
    """What the device with the least bandwidth can send, one way, over all its links but those to its host."""
    counted = _routed(fabric)
    rates = np.bincount(
        fabric.sender[counted], weights=fabric.bandwidth_bytes_per_s[counted], minlength=len(fabric.kind)
    )
    return float(rates[fabric.devices].min())


def oversubscription(fabric: Fabric) -> float | None:
    """The most that any switch can be sent from below, over what it can send up; None where nothing leads up.

    Below: devices and NICs first, then switches nearer to them. Source: chapter "Supernodes", section 6.5.1.
    """
    tier = tiers(fabric)
    inner = fabric.kind[fabric.sender] == SWITCH
    up = inner & (tier[fabric.receiver] == tier[fabric.sender] + 1)
    below = (fabric.kind[fabric.receiver] == SWITCH) & (tier[fabric.receiver] == tier[fabric.sender] + 1)
    count = len(fabric.kind)
    sent = np.bincount(fabric.sender[up], weights=fabric.bandwidth_bytes_per_s[up], minlength=count)
    fed = np.bincount(fabric.receiver[below], weights=fabric.bandwidth_bytes_per_s[below], minlength=count)
    leads = sent > 0
    return float((fed[leads] / sent[leads]).max()) if leads.any() else None


def tiers(fabric: Fabric) -> Ints:
    """Links between each vertex and the nearest device; NICs are ends as devices are, and hosts no way."""
    ends = np.zeros(len(fabric.kind), dtype=np.bool_)
    ends[fabric.devices] = True
    ends |= fabric.kind == NIC
    tier = np.where(ends, 0, _UNREACHED)
    way = (ends | (fabric.kind == SWITCH))[fabric.sender] & (fabric.kind == SWITCH)[fabric.receiver]
    sender, receiver = fabric.sender[way], fabric.receiver[way]
    while True:
        nearer = tier.copy()
        np.minimum.at(nearer, receiver, tier[sender] + 1)
        if np.array_equal(nearer, tier):
            return tier
        tier = nearer


def _routed(fabric: Fabric) -> Bools:
    """Links that leave a device for a device or a switch; where there are none, all that leave devices."""
    leaves = np.isin(fabric.sender, fabric.devices)
    kind = fabric.kind[fabric.receiver]
    direct = leaves & ((kind == SWITCH) | np.isin(fabric.receiver, fabric.devices))
    return direct if direct.any() else leaves
