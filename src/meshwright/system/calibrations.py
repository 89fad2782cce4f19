"""Measured tables: an accelerator, boxes, ranks and a message go in; the archived time of the next size up comes out.

A measured time holds for the platform, rank count and size it was taken at. Between sizes nothing is interpolated: the
smallest archived size that holds the message answers (chapter "Supernodes", section 6.5.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.result import Source
from meshwright.base.units import Bytes, Seconds
from meshwright.system.facts import split
from meshwright.system.link import Link, read_link
from meshwright.system.system import System

CALIBRATIONS: Final = Registry(
    kind="calibrations",
    package="meshwright.system",
    folder="calibrations",
    suffix=".toml",
    error=SystemSpecError,
    number=2,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured size."""

    size: Bytes
    time: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Times of one operation on one platform, by size.

    accelerator, link: registry names; the link is the slowest one between the ranks.   nodes: boxes they lie on.
    nics_per_node: NICs that each box had in use, where there is more than one box.
    """

    accelerator: str
    link: str
    nodes: int
    ranks: int
    nics_per_node: int | None = None
    platform: str
    source: str
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One file of tables of one operation."""

    name: str
    op: str
    table: tuple[Table, ...]
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An archived time that answers for a message: the size it was taken at, and where."""

    size: Bytes
    time: Seconds
    platform: str
    source: Source


@cache
def calibrations() -> tuple[Calibration, ...]:
    """Every calibration in the package and of outsiders. Raises SYS003 for a table without its source."""
    return tuple(_read(name) for name in CALIBRATIONS.names())


def measured_time(op: str, system: System, nodes: int, ranks: int, message_bytes: int) -> Measured | None:
    """The row of the smallest archived size that holds `message_bytes`; None when the platform or the size has none.

    nodes: boxes that the group spans. A system whose link between the ranks is not, number for number, the link of the
    archive is another platform.
    """
    for calibration in calibrations():
        for table in calibration.table:
            if calibration.op == op and (table.nodes, table.ranks) == (nodes, ranks) and _is_platform(table, system):
                found = _holding(table, message_bytes)
                if found is not None:
                    source = _source_of(table, calibration)
                    return Measured(size=found.size, time=found.time, platform=table.platform, source=source)
    return None


@cache
def _archived_link(name: str) -> Link:
    return read_link(name)


def _is_platform(table: Table, system: System) -> bool:
    link = system.scale_up if table.nodes == 1 else system.scale_out
    archived = _archived_link(table.link)
    same_link = link is not None and bool(
        np.all((np.asarray(link.bandwidth) == archived.bandwidth) & (np.asarray(link.latency) == archived.latency))
    )
    same_nics = table.nics_per_node is None or table.nics_per_node == system.nics_per_node
    return same_link and same_nics and table.accelerator == system.accelerator.id


def _holding(table: Table, message_bytes: int) -> Row | None:
    fitting = [row for row in table.rows if row.size >= message_bytes]
    return min(fitting, key=lambda row: row.size) if fitting else None


def _read(name: str) -> Calibration:
    values, facts = split(read_toml(CALIBRATIONS.text(name), name), name)
    calibration = build(Calibration, {**values, "sources": facts.sources}, name)
    for table in calibration.table:
        _source_of(table, calibration)
    return calibration


def _source_of(table: Table, calibration: Calibration) -> Source:
    found = next((item for item in calibration.sources if item.key == table.source), None)
    if found is None:
        cause = f"{calibration.name}: a table names the source {table.source!r}, which the file does not have"
        raise SystemSpecError(3, cause, f"add [sources.{table.source}] with title, place and read")
    return found
