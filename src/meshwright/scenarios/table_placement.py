"""Where should look-up tables lie? Tables, stores and a step go in; what each place takes comes out.

The rows that a token needs follow from the tokens alone, so a fetch can begin with the step: it is hidden when it takes
no longer than the block before the first one that looks up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes, Seconds
from meshwright.job.serve import check_range

_BITS: Final = 8
_MOST: Final = 2**60
_MOST_COUNT: Final = 2**40
LEFT_OUT: Final = (
    "random reads beside other traffic of the host, and of fewer bytes than a transfer moves",
    "what writes a table: a store is judged by reads alone",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupTables:
    """Tables by their rows, and the modules that look up in them.

    rows: of all tables together.   values, value_bytes, scale_bytes: of one row.   rows_per_module: that each module
    looks up for a token.   module_bytes: of all modules, tables and what belongs to them.
    """

    rows: int
    tables: int
    values: int
    value_bytes: Bytes
    scale_bytes: Bytes
    modules: int
    rows_per_module: int
    module_bytes: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """What each place can do.

    round_trip, reads_per_s: of host memory.   round: seconds of one exchange between cards.   rom_bits_per_mm2: of mask
    ROM.   wafer_mm2: of a wafer.
    """

    round_trip: Seconds
    reads_per_s: float
    round: Seconds
    rom_bits_per_mm2: float
    wafer_mm2: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InHost:
    """In host memory, no bytes of a card.

    window_fraction: round trip over the window.   least_step_s: of a token, below which a round trip is not hidden.
    reads: of one card in a step; reads_s, step_fraction: at the rate of the store.
    """

    round_trip_s: float
    window_fraction: float
    hidden: bool
    least_step_s: float
    reads: int
    reads_s: float
    step_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InShards:
    """Spread over the cards.

    shard_bytes: on one.   sessions: whose state has as many bytes.   lost_fraction: of the sessions that a card has.
    round_s: of the exchange that fetches rows.
    """

    shard_bytes: float
    sessions: float
    lost_fraction: float
    round_s: float
    hidden: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InRom:
    """In mask ROM beside the weights. area_mm2, wafers: that it takes.   sessions: that as many bytes hold."""

    area_mm2: float
    wafers: float
    sessions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlaces:
    """The tables, the window in which a fetch hides, and each place."""

    rows_per_table: float
    row_bytes: int
    table_bytes: int
    token_rows: int
    token_bytes: int
    window_s: float
    host: InHost
    shards: InShards
    rom: InRom
    not_modelled: tuple[str, ...]


def table_placement(  # noqa: PLR0917 - tables, stores, and the machine that looks up
    tables: LookupTables,
    stores: Stores,
    session_bytes: Bytes,
    ranks: int,
    sessions: int,
    layers: int,
    token_s: Seconds,
    step_s: Seconds,
) -> TablePlaces:
    """Each place of the tables, for an instance of `ranks` cards with `sessions` sessions each.

    token_s: of a token on the machine whose window is asked about, over all layers.   step_s: of a full batch, against
    which the card's reads count. Raises JOB001 (sizes), JOB133 (rates and times). Source: chapter "Supernodes", section
    6.7.4, figure 6-56.
    """
    _check(tables, stores, (session_bytes, ranks, sessions, layers), (token_s, step_s))
    row = tables.values * tables.value_bytes + tables.scale_bytes
    token_rows = tables.modules * tables.rows_per_module
    window = token_s / layers
    reads = sessions * token_rows
    reading = reads / stores.reads_per_s
    shard = tables.module_bytes / ranks
    area = tables.module_bytes * _BITS / stores.rom_bits_per_mm2
    return TablePlaces(
        rows_per_table=tables.rows / tables.tables,
        row_bytes=row,
        table_bytes=tables.rows * row,
        token_rows=token_rows,
        token_bytes=token_rows * row,
        window_s=window,
        host=InHost(
            round_trip_s=stores.round_trip,
            window_fraction=stores.round_trip / window,
            hidden=stores.round_trip <= window,
            least_step_s=stores.round_trip * layers,
            reads=reads,
            reads_s=reading,
            step_fraction=reading / step_s,
        ),
        shards=InShards(
            shard_bytes=shard,
            sessions=shard / session_bytes,
            lost_fraction=shard / session_bytes / sessions,
            round_s=stores.round,
            hidden=stores.round <= window,
        ),
        rom=InRom(area_mm2=area, wafers=area / stores.wafer_mm2, sessions=tables.module_bytes / session_bytes),
        not_modelled=LEFT_OUT,
    )


def _check(tables: LookupTables, stores: Stores, counts: tuple[int, ...], times: tuple[float, ...]) -> None:
    shape = (tables.rows, tables.tables, tables.values, tables.value_bytes, tables.modules, tables.rows_per_module)
    for count in (*shape, *counts[1:]):
        check_range("counts of tables, cards, sessions and layers", count, 1, _MOST_COUNT)
    for size in (tables.module_bytes, counts[0]):
        check_range("bytes", size, 1, _MOST)
    check_range("scale_bytes", tables.scale_bytes, 0, _MOST_COUNT)
    rates = (stores.round_trip, stores.reads_per_s, stores.round, stores.rom_bits_per_mm2, stores.wafer_mm2)
    if not all(0 < value < float("inf") for value in (*rates, *times)):
        raise JobError(133, "a rate, a time or an area of a store that is zero", "give them above zero")
