"""A box of GPUs round its NVSwitch chips: `nvswitch:8` (HGX H100), `nvswitch:16,boards=2,chips=12,ports=6,radix=18`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.base.units import BytesPerSecond, Seconds
from meshwright.system.routing import NONE, by_columns
from meshwright.system.wiring import (
    Edges,
    Wires,
    assembled,
    checked_counts,
    checked_radix,
    checked_wires,
    devices,
    far_half,
    switches,
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.system.graph import Fabric, Routes

TITLE: Final = "GPUs round the NVSwitch chips of their box"
EXAMPLE: Final = "nvswitch:8,ports=18,chips=4,port=25GB/s"
HEAD: Final = "devices"
_PORT: Final = BytesPerSecond(25e9)
_NVLINK: Final = Seconds(0.822e-6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """devices: GPUs.   chips: of the box, half of them on each of two boards.   radix: ports of a chip.

    The defaults are HGX H100: 18 NVLink 4 ports a GPU, four chips of 64 ports (chapter "Supernodes", footnotes 9, 38;
    the number of chips from general knowledge of the NVIDIA H100 architecture document).
    """

    devices: int = 8
    chips: int = 4
    boards: int = 1
    radix: int = 64
    port: BytesPerSecond = _PORT
    ports: int = 18
    latency: Seconds = _NVLINK


def build(spec: Spec) -> Fabric:
    """One switch vertex a board; two boards are joined by as many ports as the GPUs of one have.

    Raises SYS022 (ports of a chip), SYS023, SYS025 (GPUs or chips that boards do not share), SYS009.
    """
    checked_wires(spec)
    section = devices(spec.devices, 0)
    checked_counts(chips=spec.chips, boards=spec.boards)
    if spec.boards not in {1, 2} or spec.devices % spec.boards or spec.chips % spec.boards:
        cause = f"{spec.devices} GPUs and {spec.chips} chips on {spec.boards} boards"
        raise SystemSpecError(25, cause, "give one board, or two that share GPUs and chips evenly")
    per_board, chips = spec.devices // spec.boards, spec.chips // spec.boards
    down = per_board * -(-spec.ports // chips)
    trunk = -(-per_board * spec.ports // chips) if spec.boards > 1 else 0
    checked_radix(f"a chip for {per_board} GPUs", down + trunk, spec.radix, "give more chips or fewer GPUs")
    count, board = spec.devices, np.append(np.arange(spec.devices) // per_board, np.arange(spec.boards))
    edges = [
        Edges(
            one=np.arange(count),
            other=count + board[:count],
            bandwidth=spec.ports * spec.port,
            latency=spec.latency / 2,
            cables=spec.ports,
        )
    ]
    if spec.boards > 1:
        all_ports = per_board * spec.ports
        ends = np.array([count]), np.array([count + 1])
        width = all_ports * spec.port
        edges += [Edges(one=ends[0], other=ends[1], bandwidth=width, latency=spec.forward, cables=all_ports)]

    def route(sender: Ints, receiver: Ints) -> Routes:
        source, target = np.asarray(sender), np.asarray(receiver)
        crosses = board[source] != board[target]
        apart = source != target
        return by_columns(
            np.where(apart & (source < count), 2 * source, NONE),
            np.where(crosses, 2 * count + board[source], NONE),
            np.where(apart & (target < count), 2 * target + 1, NONE),
        )

    halves = np.concatenate([far_half(count), np.arange(spec.boards) > 0])
    sections = [section, switches("NVSwitch", spec.boards, chips, 0)]
    return assembled(f"NVSwitch box of {count}", sections, edges, route, halves)
