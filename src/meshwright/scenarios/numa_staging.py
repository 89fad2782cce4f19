"""What crosses between the CPUs of a host when a ring is staged through its memory? Cards and buffers go in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from meshwright.cost.link_loads import flow_loads, load_program
from meshwright.system.fabric import staged_box
from meshwright.system.graph import CPU, PCIE_SWITCH
from meshwright.system.system import System

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.system.graph import Fabric
    from meshwright.workload.programs import Program

Buffers = Literal["first_cpu", "beside_sender"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """An exchange whose every send goes to a buffer in host memory, and from there to its receiver.

    between_cpus_bytes: on the busiest link between CPUs, one way.   to_buffer_crossings, from_buffer_crossings: sends
    of one round whose half of the way crosses between CPUs.   pcie_bytes: that a card sends or takes, the most of both.
    sent_bytes: of all cards.
    """

    order: tuple[int, ...]
    buffers: str
    between_cpus_bytes: float
    to_buffer_crossings: int
    from_buffer_crossings: int
    pcie_bytes: float
    sent_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stagings:
    """Three ways to stage, and how the bytes between CPUs compare, by the least of them."""

    first_cpu: Staged
    beside_sender: Staged
    alternating: Staged
    ratio: tuple[float, ...]


def numa_staging(
    *,
    system: System,
    cards: int,
    order: tuple[int, ...],
    buffers: Buffers,
    algorithm: str,
    operation: str,
    message_bytes: int,
) -> Staged:
    """An exchange of the first `cards` of a box, ranks on the cards of `order`. A CPU of a box is a NUMA node.

    No time: the bandwidth between CPUs is not published. Raises SYS028 for cards that a box does not have, or one
    without CPUs. Source: chapter "Supernodes", section 6.5.1.
    """
    fabric = staged_box(system, cards, order)
    program = load_program(operation, algorithm, cards)
    cpus = np.flatnonzero(fabric.kind == CPU)
    owner = _owners(fabric, cpus)
    total = np.zeros(len(fabric.sender))
    sent, crossings = 0.0, (0, 0)
    for step in program.steps:
        one, other = np.asarray(order)[step.sender], np.asarray(order)[step.receiver]
        buffer = cpus[owner[one]] if buffers == "beside_sender" else np.full(len(one), cpus[0])
        size = _sizes(program, step.pieces, message_bytes)
        for ends in ((one, buffer), (buffer, other)):
            total += step.times * flow_loads(fabric, *ends, size).link_bytes
        sent += step.times * float(size.sum())
        crossings = (
            max(crossings[0], int(np.count_nonzero(cpus[owner[one]] != buffer))),
            max(crossings[1], int(np.count_nonzero(cpus[owner[other]] != buffer))),
        )
    between = (fabric.kind[fabric.sender] == CPU) & (fabric.kind[fabric.receiver] == CPU)
    pcie = np.isin(fabric.sender, fabric.devices) | np.isin(fabric.receiver, fabric.devices)
    pcie &= (fabric.kind[fabric.receiver] == PCIE_SWITCH) | (fabric.kind[fabric.sender] == PCIE_SWITCH)
    return Staged(
        order=order,
        buffers=buffers,
        between_cpus_bytes=float(total[between].max(initial=0.0)),
        to_buffer_crossings=crossings[0],
        from_buffer_crossings=crossings[1],
        pcie_bytes=float(total[pcie].max()),
        sent_bytes=sent,
    )


def numa_stagings(system: System, cards: int, algorithm: str, operation: str, message_bytes: int) -> Stagings:
    """All buffers at the first CPU; beside senders, cards in order; beside senders, cards of the two halves in turn.

    Raises as `numa_staging`. Source: chapter "Supernodes", section 6.5.1.
    """
    straight = tuple(range(cards))
    half = (cards + 1) // 2
    turns = tuple(
        card for pair in zip(straight[:half], [*straight[half:], -1], strict=False) for card in pair if card >= 0
    )
    ways: tuple[tuple[tuple[int, ...], Buffers], ...] = (
        (straight, "first_cpu"),
        (straight, "beside_sender"),
        (turns, "beside_sender"),
    )
    found = [
        numa_staging(
            system=system,
            cards=cards,
            order=order,
            buffers=buffers,
            algorithm=algorithm,
            operation=operation,
            message_bytes=message_bytes,
        )
        for order, buffers in ways
    ]
    least = min((item.between_cpus_bytes for item in found if item.between_cpus_bytes), default=1.0)
    ratio = tuple(item.between_cpus_bytes / least for item in found)
    return Stagings(first_cpu=found[0], beside_sender=found[1], alternating=found[2], ratio=ratio)


def message_of_total(algorithm: str, operation: str, ranks: int, total_bytes: int) -> float:
    """Bytes of the message whose exchange sends so many bytes in all. Source: chapter "Supernodes", section 6.5.1."""
    program = load_program(operation, algorithm, ranks)
    sent = sum(step.times * int(step.pieces.sum()) for step in program.steps)
    return total_bytes * program.message_pieces / sent


def _owners(fabric: Fabric, cpus: Ints) -> Ints:
    """The CPU that each device reaches first, as its number among them."""
    devices = fabric.devices
    near = np.full(len(devices), 0, dtype=np.int64)
    links = np.full(len(devices), len(fabric.sender))
    for place, cpu in enumerate(cpus.tolist()):
        found = np.diff(fabric.route(devices, np.full(len(devices), cpu)).first)
        nearer = found < links
        near, links = np.where(nearer, place, near), np.minimum(links, found)
    return near


def _sizes(program: Program, pieces: Ints, message_bytes: int) -> Floats:
    return pieces.astype(np.float64) * (message_bytes / program.message_pieces)
