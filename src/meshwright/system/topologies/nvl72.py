"""72 GPUs of one NVLink domain, non-blocking: `nvl72:72,port=50GB/s`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshwright.base.units import BytesPerSecond, Seconds
from meshwright.system.topologies import switch
from meshwright.system.wiring import Wires

if TYPE_CHECKING:
    from meshwright.system.graph import Fabric

TITLE: Final = "GPUs of one rack on one level of NVLink switches"
EXAMPLE: Final = "nvl72:72"
HEAD: Final = "devices"
_PORT: Final = BytesPerSecond(50e9)
_NVLINK: Final = Seconds(0.822e-6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """devices: GPUs.   chips: NVLink switch chips, two in each of nine trays.   radix: ports of a chip.

    The defaults are GB200 NVL72: 18 NVLink 5 ports a GPU, one on each of 18 chips of 72 ports (chapter "Supernodes",
    footnotes 18 and 19; trays and ports of a chip from general knowledge). No measured latency: that of NVLink 4.
    """

    devices: int = 72
    chips: int = 18
    radix: int = 72
    port: BytesPerSecond = _PORT
    ports: int = 18
    latency: Seconds = _NVLINK


def build(spec: Spec) -> Fabric:
    """One level of switches. Raises SYS022 (ports of a chip), SYS023, SYS009."""
    names = ("devices", "chips", "radix", "port", "ports", "latency", "forward")
    return switch.build(switch.Spec(**{name: getattr(spec, name) for name in names}))
