"""On which end of a link is a gradient cast? Its shape and rates go in; both paths and their break-even come out."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Final, Literal

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes, BytesPerSecond
from meshwright.cost.offload import (
    break_even_bytes_per_s,
    cast_on_device_s,
    cast_on_host_s,
    touched_bytes,
    transfer_wait_s,
)
from meshwright.cost.roofline import read_s

LEFT_OUT: Final = (
    "launch and synchronisation; both rates of memory are upper bounds, and both paths use pinned buffers",
    "the step: it gains only where the last buffer, the host's update and the returning weights end earlier",
)
_MOST: Final = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class CastPath:
    """One way. Peaks are what is alive at once on each end: a source until it is sent, a destination from its start."""

    transfer_bytes: int
    transfer_s: float
    cast_s: float
    total_s: float
    device_peak_bytes: int
    host_peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CastPlacement:
    """Both ways. read, written, touched: bytes of the cast in units of the gradient.

    cast_saving_s: what the device's cast is faster.   extra_transfer_s: what sending the wide bytes adds.
    extra_device_bytes: what the device's path holds more there.   break_even_bytes_per_s: the link at which both are
    equal; None where the host's cast is sooner over any link.   cast_on: the sooner one.
    """

    gradient_bytes: int
    wide_bytes: int
    read_gradients: float
    written_gradients: float
    touched_gradients: float
    on_host: CastPath
    on_device: CastPath
    cast_saving_s: float
    extra_transfer_s: float
    extra_device_bytes: int
    break_even_bytes_per_s: float | None
    cast_on: Literal["host", "device"]
    not_modelled: tuple[str, ...]


def cast_placement(  # noqa: PLR0917 - a shape, two formats and three rates
    rows: int,
    columns: int,
    narrow_bytes: Bytes,
    wide_bytes: Bytes,
    link_bytes_per_s: BytesPerSecond,
    host_bytes_per_s: BytesPerSecond,
    device_bytes_per_s: BytesPerSecond,
) -> CastPlacement:
    """One gradient of rows x columns, from ready on the device to readable in the wide format on the host.

    narrow_bytes, wide_bytes: of an element.   Raises JOB062 (sizes or rates that no cast has). Source: chapter
    "Training systems", section 10.2.3 and note 12.
    """
    _check(rows, columns, (narrow_bytes, wide_bytes), (link_bytes_per_s, host_bytes_per_s, device_bytes_per_s))
    narrow, wide = rows * columns * narrow_bytes, rows * columns * wide_bytes
    touched = touched_bytes(narrow, wide)
    sizes = (float(narrow), float(wide))
    on_host = CastPath(
        transfer_bytes=narrow,
        transfer_s=transfer_wait_s(narrow, link_bytes_per_s, 0.0),
        cast_s=read_s(touched, host_bytes_per_s),
        total_s=cast_on_host_s(*sizes, link_bytes_per_s, host_bytes_per_s),
        device_peak_bytes=narrow,
        host_peak_bytes=touched,
    )
    on_device = CastPath(
        transfer_bytes=wide,
        transfer_s=transfer_wait_s(wide, link_bytes_per_s, 0.0),
        cast_s=read_s(touched, device_bytes_per_s),
        total_s=cast_on_device_s(*sizes, link_bytes_per_s, device_bytes_per_s),
        device_peak_bytes=touched,
        host_peak_bytes=wide,
    )
    even = float(break_even_bytes_per_s(*sizes, host_bytes_per_s, device_bytes_per_s))
    return CastPlacement(
        gradient_bytes=narrow,
        wide_bytes=wide,
        read_gradients=narrow / narrow,
        written_gradients=wide / narrow,
        touched_gradients=touched / narrow,
        on_host=on_host,
        on_device=on_device,
        cast_saving_s=on_host.cast_s - on_device.cast_s,
        extra_transfer_s=on_device.transfer_s - on_host.transfer_s,
        extra_device_bytes=on_device.device_peak_bytes - on_host.device_peak_bytes,
        break_even_bytes_per_s=even if isfinite(even) else None,
        cast_on="host" if on_host.total_s <= on_device.total_s else "device",
        not_modelled=LEFT_OUT,
    )


def memory_bytes_per_s(channels: int, megatransfers: int, width_bytes: Bytes) -> float:
    """A host's memory rate: its channels x transfers x bytes of one.

    megatransfers: millions a second of a channel: 4800 for DDR5-4800.   Source: chapter "Training systems", note 12.
    """
    return 1e6 * channels * megatransfers * width_bytes


def _check(rows: int, columns: int, elements: tuple[int, int], rates: tuple[float, ...]) -> None:
    narrow, wide = elements
    if not (1 <= rows <= _MOST and 1 <= columns <= _MOST and 1 <= narrow < wide <= _MOST) or min(rates) <= 0:
        cause = f"a cast of {rows} x {columns} elements from {narrow} to {wide} bytes at {min(rates):g} B/s"
        raise JobError(62, cause, "give a shape, a wider format than the narrow one, and rates above zero")
