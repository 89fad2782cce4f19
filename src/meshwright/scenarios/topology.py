"""What is this network made of, and what does a collective put on its links? A system or a spec goes in; a Result."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.base.result import Basis, Result, Source, Verdict
from meshwright.base.units import Bytes, BytesPerSecond, Seconds, show_bytes, show_rate, show_short
from meshwright.cost.collectives import busbw_factor
from meshwright.cost.link_loads import (
    MOST_CROSSED,
    UNIFORM,
    Destinations,
    Loads,
    all_to_all_loads,
    bisection,
    busiest_s,
    check_uniform,
    cut_s,
    flow_loads,
    injection_bytes_per_s,
    links_a_flow,
    load_name,
    oversubscription,
    pairs,
    program_loads,
    round_s,
)
from meshwright.scenarios._collective_programs import Placed, placed
from meshwright.scenarios._topology_links import link_name, link_rows
from meshwright.system.fabric import is_topology, read_topology, system_fabric
from meshwright.system.graph import DEVICE, KINDS, NIC, SWITCH

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats
    from meshwright.system.graph import Fabric
    from meshwright.system.system import System

_EVERY_PAIR: Final = 1024
_SAMPLE: Final = 64
_LINKS: Final = 30_000_000
"""Links that sampled paths may cross in all."""
_ONE_MEGABYTE: Final = Bytes(1_000_000)
_NOT_MODELLED: Final = (
    "queues, congestion control and the shares that flows take of a link: a round lasts as long as its busiest link",
    "what processors do: launches, copies and reductions",
    "how a maker bundles or splits cables: a cable here joins one port to one, so NVL72 has one a port of a GPU",
)
_UNCOUNTED: Final = "chips and cables of a plain `switch`, whose build is not known"
_CHAPTER: Final = Source(key="supernodes", title='Chapter "Supernodes"', place="section 6.5.1", read="2026-11-29")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyOptions:
    """What is asked of a network.

    load: a collective operation; None asks for the network alone.   algorithm: of the registry; None of an all_to_all
    is uniform traffic, all flows at once.   bytes: of the message, as nccl-tests counts them: of an all_to_all what a
    rank sends.   destinations: of uniform traffic, `all` cuts it over all devices, the sender's own block included;
    `others` over the others.   port, ports, latency, forward: of a spec that does not say.   seed: of flows that take
    paths by their hash, where the spec does not say.
    """

    network: str
    load: str | None = None
    algorithm: str | None = None
    bytes: Bytes = _ONE_MEGABYTE
    destinations: Destinations = "all"
    port: BytesPerSecond | None = None
    ports: int | None = None
    latency: Seconds | None = None
    forward: Seconds | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """The least cut between two halves that the structure knows, each way. near, far: devices of the halves."""

    near: int
    far: int
    links: int
    cables: int
    cables_per_device: float
    out_bytes_per_s: float
    back_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFacts:
    """What a network is made of. Cables, and the ports at their ends, are those of networks; PCIe is not counted.

    switch_chips: None where a switch stands in it whose build is not known.   links: directed, a bundle of cables each.
    device_bytes_per_s: what a device can send.   diameter_links, longest_path_s: of the longest path between devices,
    over `paths` of them.   diameter_forwards: chips between the ends.   mean_links: over other devices;
    mean_links_with_self: over all, a device to itself none.   oversubscription: the most that a switch is fed from
    below over what it can send up; null where nothing leads up.
    """

    title: str
    devices: int
    boxes: int
    vertices: dict[str, int]
    switch_chips: int | None
    cables: int
    ports: int
    links: int
    device_ports: int
    device_bytes_per_s: float
    diameter_links: int
    diameter_forwards: int
    mean_links: float
    mean_links_with_self: float
    longest_path_s: float
    paths: int
    oversubscription: float | None
    bisection: Bisection | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFacts:
    """What a load takes at least. sent_bytes: of a device, in all.   link_total_bytes: bytes times links crossed.

    busiest_s: of the busiest link, over all rounds.   injection_s: of a device's own ports for what it sends.   cut_s:
    of the bisection for what crosses it one way; null of programs.   least_s: the longest of these, without latency.
    latency_s: of the longest path, over all rounds.   time_s: with it; of a program its rounds one after the other,
    each its busiest link and its longest path.
    """

    operation: str
    algorithm: str | None
    message_bytes: int
    sent_bytes: float
    flows: int
    link_total_bytes: float
    busiest_s: float
    injection_s: float
    cut_s: float | None
    least_s: float
    latency_s: float
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRow:
    """One pattern of rounds: `times` of them. peer: the receiver of the first device that sends.

    most_links: of the longest path.   max_bytes: on the busiest link.   link_total_bytes: on all.   transfer_s,
    latency_s: of one round.   transfer_until_s, until_s: of all rounds up to and with these, without and with latency.
    """

    number: int
    times: int
    flows: int
    peer: int
    most_links: int
    max_bytes: float
    link_total_bytes: float
    busiest: str | None
    transfer_s: float
    latency_s: float
    transfer_until_s: float
    until_s: float


def network_of(options: TopologyOptions, system: System | None) -> Fabric:
    """The network: of the system, or where there is none of the spec. Raises SYS020..SYS028."""
    if system is not None:
        return system_fabric(system, options.seed)
    names = ("port", "ports", "latency", "forward", "seed")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return read_topology(options.network, given)


def topology(options: TopologyOptions, system: System | None) -> Result:
    """The network's counts, its cut, and the loads of a collective on it. system: None for a spec.

    Raises SYS020..SYS029, SYS036, SYS041, COL001 (algorithm), COL002 (ranks), COL017 (operation), COL033, COL034 (what
    boxes or switches do not permit). Source: chapter "Supernodes", sections 6.5.1 and 6.5.4.
    """
    fabric = network_of(options, system)
    facts = network_facts(fabric)
    loads, load, rounds = _loaded(fabric, options, facts)
    return Result(
        command="topology",
        verdict=Verdict(answer="yes", text=_told(facts, load)),
        inputs={"model": None, "system": system, "job": None, "layout": None, "options": options},
        notes=(*_notes(fabric, facts), *_as_it_is(options, facts)),
        not_modelled=_NOT_MODELLED if facts.switch_chips is not None else (*_NOT_MODELLED, _UNCOUNTED),
        sources=(*(() if system is None else system.facts.sources), _CHAPTER),
        basis={"network": str(Basis.FORMULA), "load": str(Basis.FORMULA), "links": str(Basis.FORMULA)},
        body={"network": facts, "load": load, "links": link_rows(fabric, loads), "rounds": rounds},
        next_commands=_next(options),
    )


def busy_of(fabric: Fabric, options: TopologyOptions) -> Floats:
    """Seconds that the load keeps each link busy, over all rounds; zeros without a load."""
    link_bytes = _loaded(fabric, options, network_facts(fabric))[0]
    return np.zeros(len(fabric.sender)) if link_bytes is None else link_bytes / fabric.bandwidth_bytes_per_s


def is_spec(text: str) -> bool:
    """Whether the text is a spec, and not a system."""
    return is_topology(text)


_TWO: Final = 2


def network_facts(fabric: Fabric) -> NetworkFacts:
    """What the network is made of. Raises SYS036 (more paths than are followed), SYS041 (one device, so none)."""
    if len(fabric.devices) < _TWO:
        cause = f"{fabric.title}: one device, and a path needs two"
        raise SystemSpecError(41, cause, "give a system, or a network, of more devices")
    counted = _counted(fabric)
    uncounted = (fabric.kind == SWITCH) & (fabric.chips == 0)
    cables = int(fabric.cables[counted].sum()) // 2
    own = counted & np.isin(fabric.sender, fabric.devices)
    ports = np.bincount(fabric.sender[own], weights=fabric.cables[own], minlength=len(fabric.kind))[fabric.devices]
    longest_s, most, crossed, paths = _paths(fabric)
    count = len(fabric.devices)
    mean = crossed / paths
    return NetworkFacts(
        title=fabric.title,
        devices=count,
        boxes=len(np.unique(fabric.box[fabric.devices])),
        vertices={name: int(np.count_nonzero(fabric.kind == kind)) for kind, name in enumerate(KINDS)},
        switch_chips=None if np.any(uncounted) else int(fabric.chips.sum()),
        cables=cables,
        ports=2 * cables,
        links=len(fabric.sender),
        device_ports=int(ports.max(initial=0)),
        device_bytes_per_s=injection_bytes_per_s(fabric),
        diameter_links=most,
        diameter_forwards=max(0, most - 1),
        mean_links=mean,
        mean_links_with_self=mean * (count - 1) / count,
        longest_path_s=longest_s,
        paths=paths,
        oversubscription=oversubscription(fabric),
        bisection=_bisection(fabric),
    )


def _counted(fabric: Fabric) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Links of networks: between devices, switches and NICs."""
    in_network = np.isin(fabric.kind, (DEVICE, SWITCH, NIC))
    return in_network[fabric.sender] & in_network[fabric.receiver]


def _paths(fabric: Fabric) -> tuple[float, int, float, int]:
    """Longest latency, most links, links of all paths, paths: of every pair, of a large network from some devices."""
    count = len(fabric.devices)
    each = count * links_a_flow(fabric)
    if each > MOST_CROSSED:
        cause = f"{fabric.title}: the paths of one of {count} devices cross {each:.3g} links"
        raise SystemSpecError(36, cause, "give fewer devices, or a network of shorter paths")
    if count <= _EVERY_PAIR and count * each <= _LINKS:
        parts = list(pairs(fabric))
    else:
        senders = fabric.devices[np.linspace(0, count - 1, max(1, min(_SAMPLE, int(_LINKS / each)))).astype(np.int64)]
        one, other = np.repeat(senders, count), np.tile(fabric.devices, len(senders))
        parts = [(one[one != other], other[one != other])]
    longest, most, crossed, paths = 0.0, 0, 0.0, 0
    for sender, receiver in parts:
        found = flow_loads(fabric, sender, receiver, np.ones(len(sender)))
        longest, most = max(longest, found.longest_s), max(most, found.most_links)
        crossed, paths = crossed + found.byte_links, paths + len(sender)
    return longest, most, crossed, paths


def _bisection(fabric: Fabric) -> Bisection | None:
    found = bisection(fabric)
    if found is None:
        return None
    return Bisection(
        near=found.near,
        far=found.far,
        links=found.links,
        cables=found.cables,
        cables_per_device=found.cables / len(fabric.devices),
        out_bytes_per_s=found.out_bytes_per_s,
        back_bytes_per_s=found.back_bytes_per_s,
    )


# ---------------------------------------------------------------------------------------------------------------- loads


def _loaded(
    fabric: Fabric, options: TopologyOptions, facts: NetworkFacts
) -> tuple[Floats | None, LoadFacts | None, tuple[RoundRow, ...]]:
    if options.load is None:
        return None, None, ()
    busbw_factor(options.load, len(fabric.devices))  # refuses what is no operation
    if options.algorithm is None:
        check_uniform(options.load)
        loads = all_to_all_loads(fabric, float(options.bytes), options.destinations)
        row = _round(fabric, loads, _Before(number=0, times=1, peer=1))
        load = _uniform(fabric, facts, loads, options.bytes, options.destinations)
        return loads.link_bytes, load, (row,)
    return _of_program(options, loaded_program(fabric, options.load, options.algorithm, options.bytes))


def uniform_load(
    fabric: Fabric, facts: NetworkFacts, sent_bytes: int, destinations: Destinations
) -> tuple[Floats, LoadFacts]:
    """Bytes on every link of a uniform all_to_all, and what it takes at least. Raises SYS029."""
    loads = all_to_all_loads(fabric, float(sent_bytes), destinations)
    return loads.link_bytes, _uniform(fabric, facts, loads, sent_bytes, destinations)


def _uniform(
    fabric: Fabric, facts: NetworkFacts, loads: Loads, sent_bytes: int, destinations: Destinations
) -> LoadFacts:
    """All flows at once: one round."""
    blocks = facts.devices if destinations == "all" else facts.devices - 1
    half = facts.bisection
    across = None if half is None else cut_s(sent_bytes / blocks * half.near * half.far, half.out_bytes_per_s)
    busiest, injection = busiest_s(fabric, loads), sent_bytes / facts.device_bytes_per_s
    least = max(busiest, injection, across or 0.0)
    return LoadFacts(
        operation=UNIFORM,
        algorithm=None,
        message_bytes=sent_bytes,
        sent_bytes=float(sent_bytes),
        flows=loads.flows,
        link_total_bytes=loads.byte_links,
        busiest_s=busiest,
        injection_s=injection,
        cut_s=across,
        least_s=least,
        latency_s=loads.longest_s,
        time_s=least + loads.longest_s,
    )


def loaded_program(fabric: Fabric, operation: str, algorithm: str, message_bytes: int) -> Placed:
    """The program as `collective time` lays it, over all devices in their order. Raises as `load_name` and `placed`."""
    every = (np.arange(len(fabric.devices)),)
    return placed(load_name(operation, algorithm), operation, every, fabric, float(message_bytes), None)


def _of_program(options: TopologyOptions, laid: Placed) -> tuple[Floats, LoadFacts, tuple[RoundRow, ...]]:
    """Rounds one after the other."""
    fabric, program, places = laid.fabric, laid.program, laid.traffic[0].participants
    found = program_loads(fabric, program, float(options.bytes), places)
    total = np.zeros(len(fabric.sender))
    rows: list[RoundRow] = []
    sent = np.zeros(len(places))
    piece = options.bytes / program.message_pieces
    before = _Before(number=0, times=0, peer=0)
    for step, item in zip(program.steps, found, strict=True):
        total += item.times * item.loads.link_bytes
        np.add.at(sent, step.sender, step.pieces * piece * step.times)
        peer = int(step.receiver[int(np.argmin(step.sender))]) if len(step.sender) else 0
        before = _Before(
            number=len(rows), times=item.times, peer=peer, transfer_s=before.transfer_s, until_s=before.until_s
        )
        row = _round(fabric, item.loads, before)
        before = _Before(number=0, times=0, peer=0, transfer_s=row.transfer_until_s, until_s=row.until_s)
        rows.append(row)
    most = float(sent[: program.ranks].max(initial=0.0))
    injection = most / injection_bytes_per_s(fabric)
    load = LoadFacts(
        operation=program.operation,
        algorithm=options.algorithm,
        message_bytes=options.bytes,
        sent_bytes=most,
        flows=sum(row.times * row.flows for row in rows),
        link_total_bytes=float(total.sum()),
        busiest_s=before.transfer_s,
        injection_s=injection,
        cut_s=None,
        least_s=max(before.transfer_s, injection),
        latency_s=before.until_s - before.transfer_s,
        time_s=before.until_s,
    )
    return total, load, tuple(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """Of a row its number, times and peer, and the seconds of the rounds before it."""

    number: int
    times: int
    peer: int
    transfer_s: float = 0.0
    until_s: float = 0.0


def _round(fabric: Fabric, loads: Loads, before: _Before) -> RoundRow:
    transfer, seconds = busiest_s(fabric, loads), round_s(fabric, loads)
    most = int(np.argmax(loads.link_bytes / fabric.bandwidth_bytes_per_s))
    return RoundRow(
        number=before.number + 1,
        times=before.times,
        flows=loads.flows,
        peer=before.peer,
        most_links=loads.most_links,
        max_bytes=float(loads.link_bytes[most]),
        link_total_bytes=loads.byte_links,
        busiest=link_name(fabric, most) if transfer > 0 else None,
        transfer_s=transfer,
        latency_s=loads.longest_s,
        transfer_until_s=before.transfer_s + before.times * transfer,
        until_s=before.until_s + before.times * seconds,
    )


# ---------------------------------------------------------------------------------------------------------------- words


def _told(facts: NetworkFacts, load: LoadFacts | None) -> str:
    made = [f"{facts.devices:,} devices", f"{facts.cables:,} cables"]
    made += [f"{facts.switch_chips:,} switch chips"] if facts.switch_chips else []
    half = facts.bisection
    cut = "" if half is None else f", bisection {show_rate(half.out_bytes_per_s)} each way"
    text = f"{facts.title}: {', '.join(made)}{cut}"
    if load is None:
        return text
    name = load.operation if load.algorithm is None else f"{load.operation} by {load.algorithm}"
    return f"{text}; {name} of {show_bytes(load.message_bytes)} takes at least {show_short(load.least_s)}"


def _notes(fabric: Fabric, facts: NetworkFacts) -> tuple[str, ...]:
    notes: list[str] = []
    if facts.paths < facts.devices * (facts.devices - 1):
        some = facts.paths // (facts.devices - 1)
        notes.append(f"paths from {some} device{'s' * (some > 1)} to all others stand for those of all")
    if fabric.extents and all(extent % 2 for extent in fabric.extents):
        notes.append("no extent is even: the cut is one across the longest, and may not be the least")
    if not np.isfinite(fabric.bandwidth_bytes_per_s).all():
        notes.append("a link without a published bandwidth bounds nothing and counts nothing in a cut")
    return tuple(notes)


def _as_it_is(options: TopologyOptions, facts: NetworkFacts) -> tuple[str, ...]:
    if options.algorithm is None or facts.boxes == 1:
        return ()
    return (f"{options.algorithm} runs as it is, in one order of ranks: collective time fits it to boxes and all NICs",)


def _next(options: TopologyOptions) -> tuple[str, ...]:
    if options.load is None:
        return (f"meshwright topology {quote(options.network)} --load all_to_all --bytes 32MiB",)
    return (f"meshwright topology {quote(options.network)} --svg network.svg",)
