"""Over which grid should a matrix product be cut? Shapes, devices and links go in; every grid comes out, best first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes, BytesPerSecond
from meshwright.cost.mesh_products import gathered_bytes, independent_s, shared_s

_MOST: Final = 2**31
_MOST_DEVICES: Final = 2**20
_MATRIX: Final = 2
LEFT_OUT: Final = (
    "overlap of gathers with the product: slicing further pipelines them",
    "start-up of each message, and the product itself, which is the same on every grid",
    "weights held in a second layout, as when prefill and decode use different grids",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """A grid of rows x columns. row_bytes: sent along a row, of the left matrix.   column_bytes: of the right one."""

    grid: str
    rows: int
    columns: int
    row_bytes: float
    column_bytes: float
    gather_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshProduct:
    """Every grid of these devices, the fastest first. left_bytes, right_bytes: what a device starts with."""

    left_bytes: float
    right_bytes: float
    best: str
    grids: tuple[GridRow, ...]
    not_modelled: tuple[str, ...]


def mesh_product(  # noqa: PLR0917 - two shapes, devices and a link
    left: tuple[int, ...],
    right: tuple[int, ...],
    element_bytes: Bytes,
    devices: int,
    link_bytes_per_s: BytesPerSecond,
    links: Literal["independent", "shared"],
) -> MeshProduct:
    """left [M, K] x right [K, N] over every grid of `devices`, each of which starts with an equal part of both.

    links: of both directions of the grid, apart or the same. Raises JOB118 (shapes, devices). Source: chapter
    "Supernodes", section 6.2.2 and note 4.
    """
    if len(left) != _MATRIX or len(right) != _MATRIX or left[1] != right[0]:
        cause = f"a product of {list(left)} and {list(right)}"
        raise JobError(118, cause, "give [M, K] and [K, N]")
    sizes = (*left, *right, element_bytes)
    if not all(1 <= size <= _MOST for size in sizes) or not 1 <= devices <= _MOST_DEVICES or link_bytes_per_s <= 0:
        cause = f"{list(left)} x {list(right)} over {devices} devices at {link_bytes_per_s:g} B/s"
        raise JobError(118, cause, f"give sizes of 1 to {_MOST}, up to {_MOST_DEVICES} devices, and a rate")
    whole = tuple(size[0] * size[1] * element_bytes for size in (left, right))
    seconds = independent_s if links == "independent" else shared_s
    rows: list[GridRow] = []
    for high in (count for count in range(1, devices + 1) if devices % count == 0):
        wide = devices // high
        along_row = gathered_bytes(whole[0], devices, wide)
        along_column = gathered_bytes(whole[1], devices, high)
        rows.append(
            GridRow(
                grid=f"{high}x{wide}",
                rows=high,
                columns=wide,
                row_bytes=along_row,
                column_bytes=along_column,
                gather_s=float(seconds(along_row, along_column, link_bytes_per_s)),
            )
        )
    rows.sort(key=lambda row: (row.gather_s, row.rows))
    return MeshProduct(
        left_bytes=whole[0] / devices,
        right_bytes=whole[1] / devices,
        best=rows[0].grid,
        grids=tuple(rows),
        not_modelled=LEFT_OUT,
    )
