"""Networks by their parts: what one is made of, how a leaf splits its ports, torus against switch, rounds on links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from meshwright.cost.link_loads import bisection, busiest_s, cut_s, program_loads
from meshwright.scenarios.topology import NetworkFacts, loaded_program, network_facts, uniform_load
from meshwright.system.fabric import read_topology
from meshwright.system.graph import DEVICE, SWITCH
from meshwright.system.link import both_ways_bytes_per_s, ports_bytes_per_s

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools
    from meshwright.system.graph import Fabric


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSplit:
    """A leaf of leaf/spine. down_ports: of all leaves.   up_per_line_bytes_per_s: of a device when all send up."""

    down_ports: int
    spine_chips: int
    down_bytes_per_s: float
    up_bytes_per_s: float
    oversubscription: float
    up_per_line_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two networks for the same devices. load_share: most bytes on one cable, over what a device sends.

    least_s: of the all_to_all, without latency.
    """

    network: NetworkFacts
    load_share: float
    least_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TorusOrSwitch:
    """A torus and a switched network of as few levels as hold the same devices.

    layer: the torus of one dimension less.   extra_latency_s: of the longest path of the torus over that of the
    switches.   extra_wait_s: over so many reductions, each of which waits for the farthest device.   extra_wait_share:
    of the time that they take.   least_ratio: of both least times of the all_to_all.
    """

    torus: Side
    switches: Side
    layer: NetworkFacts
    extra_latency_s: float
    extra_wait_s: float
    extra_wait_share: float
    least_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TorusGrowth:
    """A cube of a torus, and a larger one: how often each of its counts is that of the small one."""

    small: NetworkFacts
    large: NetworkFacts
    devices_ratio: float
    bisection_ratio: float
    bisection_per_device_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRound:
    """One round. partner: of rank 0.   until_s: busiest links of all rounds so far, one after the other."""

    hops: int
    partner: int
    max_bytes: float
    link_total_bytes: float
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CutBound:
    """Bytes that must cross a cut, each way, and the seconds that they need at least."""

    out_bytes_per_s: float
    back_bytes_per_s: float
    out_s: float
    back_s: float
    least_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRates:
    """What lanes carry: one way, both ways together, and of each of two protocols that share them, one way."""

    one_way_bytes_per_s: float
    both_ways_bytes_per_s: float
    first_bytes_per_s: float
    second_bytes_per_s: float


def network_counts(topology: str, fields: dict[str, str]) -> NetworkFacts:
    """What a network of the registry is made of. fields: of its spec.

    Raises SYS020..SYS026. Source: chapter "Supernodes", section 6.5.
    """
    return network_facts(read_topology(_spec(topology, fields)))


def leaf_split(*, leaves: int, down: int, up: int, lines: int, radix: int, port_bytes_per_s: float) -> LeafSplit:
    """Ports of leaves towards devices and spines. Raises SYS022 (ports), SYS025. Source: "Supernodes", 6.5.1."""
    fields = {"leaves": leaves, "down": down, "up": up, "lines": lines, "radix": radix}
    fabric = read_topology(_spec("leaf_spine", fields), {"port": port_bytes_per_s})
    facts = network_facts(fabric)
    leaf = int(np.flatnonzero(fabric.kind == SWITCH)[0])
    leaving = fabric.sender == leaf
    downward = leaving & (fabric.kind[fabric.receiver] == DEVICE)
    rates = [float(fabric.bandwidth_bytes_per_s[ways].sum()) for ways in (downward, leaving & ~downward)]
    assert facts.switch_chips is not None
    assert facts.oversubscription is not None
    return LeafSplit(
        down_ports=int(fabric.cables[fabric.kind[fabric.sender] == DEVICE].sum()),
        spine_chips=facts.switch_chips - leaves,
        down_bytes_per_s=rates[0],
        up_bytes_per_s=rates[1],
        oversubscription=facts.oversubscription,
        up_per_line_bytes_per_s=rates[1] / int(np.count_nonzero(downward)),
    )


def torus_or_switch(
    *,
    k: int,
    ports: int,
    port_bytes_per_s: float,
    forward_s: float,
    radix: int,
    message_bytes: int,
    destinations: Literal["all", "others"],
    reductions: int,
    reductions_s: float,
) -> TorusOrSwitch:
    """k^3 devices of `ports` ports: neighbours of a torus, or on switches.

    forward_s: of a link, the forwarding at its far end.   message_bytes: that each device sends in a uniform
    all_to_all, over `destinations`.   reductions_s: what `reductions` of them take otherwise. Raises SYS022,
    SYS023, SYS029, SYS036. Source: chapter "Supernodes", section 6.5.1. Leaves out queues, and the length of cables.
    """
    wires = {"port": port_bytes_per_s, "ports": ports}
    torus, layer = (
        read_topology(_spec("torus", {"extents": "x".join([str(k)] * dims)}), {**wires, "latency": forward_s})
        for dims in (3, 2)
    )
    pair = {**wires, "latency": 2 * forward_s, "forward": forward_s}
    switches = read_topology(_spec("fat_tree", {"devices": k**3, "radix": radix}), pair)
    sides = [_side(fabric, message_bytes, destinations) for fabric in (torus, switches)]
    extra = sides[0].network.longest_path_s - sides[1].network.longest_path_s
    return TorusOrSwitch(
        torus=sides[0],
        switches=sides[1],
        layer=network_facts(layer),
        extra_latency_s=extra,
        extra_wait_s=reductions * extra,
        extra_wait_share=reductions * extra / reductions_s,
        least_ratio=sides[0].least_s / sides[1].least_s,
    )


def torus_growth(small: int, large: int) -> TorusGrowth:
    """Cubes of both sizes. Raises SYS023. Source: chapter "Supernodes", section 6.5.4."""
    found = [network_counts("torus", {"extents": f"{k}x{k}x{k}"}) for k in (small, large)]
    halves = [facts.bisection for facts in found]
    assert halves[0] is not None
    assert halves[1] is not None
    return TorusGrowth(
        small=found[0],
        large=found[1],
        devices_ratio=found[1].devices / found[0].devices,
        bisection_ratio=halves[1].cables / halves[0].cables,
        bisection_per_device_ratio=halves[1].cables_per_device / halves[0].cables_per_device,
    )


def round_loads(
    *, topology: str, ranks: int, algorithm: str, operation: str, message_bytes: int, port_bytes_per_s: float
) -> tuple[LoadedRound, ...]:
    """Every round of an algorithm on the devices of a network in their order, one after the other.

    Raises SYS020..SYS029, COL001, COL002. Source: chapter "Supernodes", section 6.5.1.
    """
    fabric = read_topology(_spec(topology, {"devices": ranks}), {"port": port_bytes_per_s})
    laid = loaded_program(fabric, operation, algorithm, message_bytes)
    program = laid.program
    loads = program_loads(laid.fabric, program, float(message_bytes), laid.traffic[0].participants)
    rows: list[LoadedRound] = []
    until = 0.0
    for step, item in zip(program.steps, loads, strict=True):
        own = np.flatnonzero(step.sender == 0)
        for _ in range(item.times):
            until += busiest_s(fabric, item.loads)
            rows.append(
                LoadedRound(
                    hops=item.loads.most_links,
                    partner=int(step.receiver[own[0]]) if len(own) else 0,
                    max_bytes=float(item.loads.link_bytes.max()),
                    link_total_bytes=item.loads.byte_links,
                    until_s=until,
                )
            )
    return tuple(rows)


def cut_bound(topology: str, fields: dict[str, str], out_bytes: int, back_bytes: int) -> CutBound:
    """Least seconds for bytes between the halves of a network, each way. Raises SYS020..SYS026.

    Source: chapter "Supernodes", section 6.5.1.
    """
    found = bisection(read_topology(_spec(topology, fields)))
    assert found is not None, "every registered topology knows its halves"
    out, back = cut_s(out_bytes, found.out_bytes_per_s), cut_s(back_bytes, found.back_bytes_per_s)
    return CutBound(
        out_bytes_per_s=found.out_bytes_per_s,
        back_bytes_per_s=found.back_bytes_per_s,
        out_s=out,
        back_s=back,
        least_s=max(out, back),
    )


def lane_rates(lanes: int, lane_bytes_per_s: float, second_lanes: int) -> LaneRates:
    """What a port of so many lanes carries. second_lanes: of these, those that another protocol is given.

    Source: chapter "Supernodes", section 6.5.5 (UBoE and UB Link share one set of lanes).
    """
    whole = ports_bytes_per_s(lanes, lane_bytes_per_s)
    second = ports_bytes_per_s(min(second_lanes, lanes), lane_bytes_per_s)
    return LaneRates(
        one_way_bytes_per_s=whole,
        both_ways_bytes_per_s=both_ways_bytes_per_s(whole),
        first_bytes_per_s=whole - second,
        second_bytes_per_s=second,
    )


def _spec(topology: str, fields: dict[str, object] | dict[str, str] | dict[str, int]) -> str:
    own = ",".join(f"{name}={value}" for name, value in fields.items())
    return f"{topology},{own}" if own else topology


def _side(fabric: Fabric, message_bytes: int, destinations: Literal["all", "others"]) -> Side:
    facts = network_facts(fabric)
    link_bytes, load = uniform_load(fabric, facts, message_bytes, destinations)
    leaving: Bools = fabric.kind[fabric.sender] == DEVICE
    per_cable = link_bytes[leaving] / fabric.cables[leaving]
    return Side(network=facts, load_share=float(per_cable.max()) / message_bytes, least_s=load.least_s)
