"""A measured bus bandwidth, what was expected of it and the box go in; why it may be low, or above the wire, comes out.

Every cause says what in the numbers speaks for it, and what to try. They are told in an order: first what the numbers
match closely, then what they only leave open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshwright.base.units import Bytes, BytesPerSecond, Seconds, show_bytes, show_rate, show_seconds
from meshwright.scenarios._collective_expected import IN_SWITCH, fits_of, fitted_busbw
from meshwright.system.link import one_way_bytes_per_s

if TYPE_CHECKING:
    from meshwright.scenarios._collective_expected import Asked, Bound

NEAR: Final = 0.12
"""How far a rate may be from one that it is told to match."""
_HALF: Final = (0.4, 0.65)
_PCIE: Final = "PCIe"
_CHUNK: Final = Bytes(128 * 1024)
"""What NCCL sends over a network at once by default (NCCL_P2P_NET_CHUNKSIZE)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One reason. evidence: what in the numbers speaks for it.   fix: what to try.

    predicted_bytes_per_s: the bus bandwidth that it would leave.   share: the measured one over it, where they match.
    """

    id: str
    title: str
    evidence: str
    fix: str
    predicted_bytes_per_s: float | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The end of the curve: its largest size, its bus bandwidth, what was expected there, and the ring's bound.

    level: whether the bandwidth no longer rises with size.   chunk, step: what the user knows of one step of a rail.
    stated: the bandwidth that the user expected.
    """

    size: int
    busbw: float
    expected: float
    ring: float
    level: bool
    chunk: Bytes | None
    step: Seconds | None
    stated: BytesPerSecond | None


def low_causes(asked: Asked, reached: Reached) -> tuple[Cause, ...]:
    """Why the end of the curve is low: what matches a rate, then what foresees none, then what foresees another."""
    tried = _between(asked, reached) if asked.boxes > 1 else _inside(asked, reached)
    found = [cause for cause in (_both_directions(reached), *tried) if cause is not None]
    return tuple(
        sorted(found, key=lambda cause: (cause.share is None) * (1 + (cause.predicted_bytes_per_s is not None)))
    )


def above_the_wire(busbw: float, bounds: tuple[Bound, ...]) -> Cause | None:
    """What explains a bus bandwidth above that of a ring that fills the wire; None where it is below."""
    ring = bounds[0]
    if busbw <= ring.busbw:
        return None
    fitting = [bound for bound in bounds if bound.busbw >= busbw and bound.bytes_per_byte < ring.bytes_per_byte]
    told = f"busbw {show_rate(busbw)} is above the {show_rate(ring.busbw)} of a {ring.algorithm} on a full wire"
    if not fitting:
        return Cause(
            id="other_wire",
            title="faster than any program known here on this wire",
            evidence=f"{told}, and above {show_rate(max(bound.busbw for bound in bounds))}, the most of any",
            fix="is it this system, and are its rates one way? look at --on and --nics",
        )
    least = min(fitting, key=lambda bound: bound.busbw)
    crossed = (
        f"a byte crosses {least.bytes_per_byte:.4g} times, and {ring.bytes_per_byte:.4g} times in a {ring.algorithm}"
    )
    return Cause(
        id="in_switch" if least.algorithm == IN_SWITCH else "crosses_once",
        title="the reduction is in the switch" if least.algorithm == IN_SWITCH else "a tree crosses between boxes once",
        evidence=f"{told}; by {least.algorithm} {crossed}: busbw counts as if it were a ring",
        fix="no fault: busbw is normalised, and not the rate of a link",
        predicted_bytes_per_s=least.busbw,
        share=busbw / least.busbw,
    )


def _both_directions(reached: Reached) -> Cause | None:
    """A figure of both directions that was taken for the rate to expect."""
    if reached.stated is None:
        return None
    half = one_way_bytes_per_s(reached.stated)
    near = reached.ring * (1 - NEAR) <= half <= reached.ring * (1 + NEAR)
    if not near:
        return None
    return Cause(
        id="both_directions",
        title="both directions were taken for one",
        evidence=f"{show_rate(reached.stated)} is twice the {show_rate(reached.ring)} that the wire carries one way",
        fix=f"expect at most {show_rate(reached.ring)} of a ring",
        predicted_bytes_per_s=reached.ring,
        share=half / reached.ring,
    )


def _between(asked: Asked, reached: Reached) -> list[Cause | None]:
    most = reached.busbw > _HALF[1] * reached.ring
    placement, steps = _far_nics(asked, reached), _long_steps(asked, reached)
    return [
        _known_step(asked, reached),
        _half_the_wire(reached),
        *((placement, steps) if most else (steps, placement)),
        _few_nics(asked, reached),
    ]


def _known_step(asked: Asked, reached: Reached) -> Cause | None:
    """A step of fixed time carries one chunk: chunk over time is the rate of a rail."""
    if reached.chunk is None or reached.step is None:
        return None
    foreseen, rail = reached.chunk / reached.step, reached.busbw / asked.nics
    fitting = abs(rail / foreseen - 1) <= 2 * NEAR
    return Cause(
        id="step_latency",
        title="every step takes a fixed time, which is software's and not the wire's",
        evidence=f"{show_bytes(reached.chunk)} a step of {show_seconds(reached.step)} make {show_rate(foreseen)} "
        f"a rail; {show_rate(rail)} is measured",
        fix="larger chunks (NCCL_P2P_NET_CHUNKSIZE, NCCL_BUFFSIZE), another NCCL or network plugin",
        predicted_bytes_per_s=foreseen * asked.nics,
        share=rail / foreseen if fitting else None,
    )


def _few_nics(asked: Asked, reached: Reached) -> Cause | None:
    """A rate close to that of fewer NICs than the box has."""
    one = reached.expected / asked.nics
    count = max(1, round(reached.busbw / one))
    share = reached.busbw / (count * one)
    if count >= asked.nics or abs(share - 1) > NEAR / count:
        return None
    words = "one NIC is in use" if count == 1 else f"{count} NICs are in use"
    return Cause(
        id="few_nics",
        title=f"{words} of {asked.nics}",
        evidence=f"{show_rate(reached.busbw)} is {share:.2f} of what {count} of {asked.nics} NICs should carry",
        fix="NCCL_DEBUG=INFO lists the NICs that it uses; NCCL_IB_HCA, cabling, and --nics here",
        predicted_bytes_per_s=count * one,
        share=share if asked.nics % count == 0 else None,
    )


def _half_the_wire(reached: Reached) -> Cause | None:
    low, high = _HALF
    share = reached.busbw / reached.ring
    if not low <= share <= high:
        return None
    return Cause(
        id="acs",
        title="traffic between GPU and NIC goes up through the root of PCIe (ACS, IOMMU, or ATS off in a VM)",
        evidence=f"about half of the wire, {share:.0%}: each byte then crosses the link of the NIC's switch twice",
        fix="switch ACS off, or ATS on in a virtual machine; IOMMU to passthrough; GPUDirect RDMA on",
    )


def _long_steps(asked: Asked, reached: Reached) -> Cause | None:
    """The curve is level and the wire is not full: a step takes longer than its bytes."""
    rail = reached.busbw / asked.nics
    step_s, wire_s = _CHUNK / rail, _CHUNK / asked.link.bandwidth
    if not reached.level or step_s <= wire_s:
        return None
    return Cause(
        id="long_steps",
        title="every step takes a fixed time beside the wire's",
        evidence=f"the rate is level over sizes: a chunk of {show_bytes(_CHUNK)} takes {show_seconds(step_s)} a rail, "
        f"and {show_seconds(wire_s)} on the wire",
        fix="larger chunks (NCCL_P2P_NET_CHUNKSIZE) and more channels; measure one rail with --nics 1, and give "
        "--chunk and --step-latency here",
    )


def _far_nics(asked: Asked, reached: Reached) -> Cause | None:
    share = reached.busbw / reached.ring
    return Cause(
        id="numa",
        title="GPUs and NICs on different NUMA nodes, or settings of the NIC",
        evidence=f"{share:.0%} of the wire, where {asked.least:.0%} is normal at least",
        fix="nvidia-smi topo -m: each GPU beside its NIC; PCI relaxed ordering, MTU, adaptive routing; a newer NCCL",
    )


def _inside(asked: Asked, reached: Reached) -> list[Cause | None]:
    over_pcie = _PCIE in asked.system.scale_up.name
    return [
        _no_switch(asked, reached),
        None if over_pcie else _pcie_path(asked, reached),
        _no_peers(asked, reached) if over_pcie else None,
        *(_firmware(asked, reached) if over_pcie else ()),
        _other_work(reached),
    ]


def _no_switch(asked: Asked, reached: Reached) -> Cause | None:
    """What a ring reaches where the switch could add."""
    rings = [fit for fit in fits_of(asked, ("nccl",)) if fit.covers(asked.ranks, asked.boxes, reached.size)]
    if asked.operation != "all_reduce" or not rings:
        return None
    middle, low, high = fitted_busbw(asked, rings[0], reached.size)
    if not low <= reached.busbw <= high or reached.expected <= reached.busbw:
        return None
    return Cause(
        id="no_in_switch",
        title="no reduction in the switch: this is what a ring reaches",
        evidence=f"{show_rate(reached.busbw)} is {reached.busbw / middle:.2f} of a ring's {show_rate(middle)}; "
        f"{show_rate(reached.expected)} is expected with NVLS",
        fix="NCCL_NVLS_ENABLE, the fabric manager, a NCCL from 2.17 on, and all GPUs of the box",
        predicted_bytes_per_s=middle,
        share=reached.busbw / middle,
    )


def _pcie_path(asked: Asked, reached: Reached) -> Cause | None:
    host = asked.system.host
    pcie = None if host is None else host.link_bandwidth
    if pcie is None or reached.busbw > pcie:
        return None
    return Cause(
        id="pcie_path",
        title="traffic goes over PCIe, and not over NVLink",
        evidence=f"{show_rate(reached.busbw)} is below the {show_rate(pcie)} of the host's link; "
        f"{asked.system.scale_up.name} has {show_rate(asked.system.scale_up.bandwidth)}",
        fix="nvidia-smi nvlink -s, NCCL_P2P_DISABLE, the fabric manager, and peer access in containers",
        predicted_bytes_per_s=pcie,
        share=reached.busbw / pcie,
    )


def _no_peers(asked: Asked, reached: Reached) -> Cause | None:
    told = "this system has no peer-to-peer" if not asked.system.peer_to_peer else "peer-to-peer may be off"
    return Cause(
        id="no_peer_to_peer",
        title="no P2P: what GPUs send to each other goes through the memory of the host",
        evidence=f"{told}; {show_rate(reached.busbw)} of a link of {show_rate(asked.link.bandwidth)}",
        fix="nvidia-smi topo -p2p r; a driver and cards that permit it; else a bound of the CPU's memory and links",
    )


def _firmware(asked: Asked, reached: Reached) -> tuple[Cause, Cause]:
    """What decides paths through a host. Source: NVIDIA/nccl#1285, NVIDIA/nccl#1086."""
    share = reached.busbw / asked.link.bandwidth
    return (
        Cause(
            id="numa",
            title="traffic crosses NUMA nodes or sockets",
            evidence=f"{share:.0%} of one card's link: eight cards share what joins the parts of the CPU",
            fix="on EPYC, NUMA nodes per socket 4 (NPS4) in the firmware; ranks bound to the node of their card",
        ),
        Cause(
            id="acs",
            title="ACS or the IOMMU sends what peers exchange up to the root",
            evidence="pairs under one PCIe switch that are slower than pairs across switches speak for it",
            fix="ACS off (setpci, or in the firmware), IOMMU off or to passthrough",
        ),
    )


def _other_work(reached: Reached) -> Cause:
    return Cause(
        id="other_work",
        title="other work on the GPUs or their links, clocks, or too few channels",
        evidence=f"{reached.busbw / reached.expected:.0%} of what is expected, without a match above",
        fix="nvidia-smi -q -d CLOCK,PERFORMANCE; run alone; NCCL_MIN_NCHANNELS; a newer NCCL",
    )
