"""What was measured, fitted: lines of exchanges and of rates, what a step costs beside them, and pairs that overlap.

A line is a start-up time and a rate. Its spread is that of every single measurement over the line: `low` and `high` are
the quartiles of measured over fitted, so that they hold both the noise and what the line leaves out. Lists are named as
the tables of the calibration file are.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.base.units import Bytes, BytesPerSecond, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured size. amount: bytes, FLOPs or elements.   time, low, high: the median and the quartiles."""

    amount: float
    time: Seconds
    low: Seconds
    high: Seconds
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeLine:
    """An exchange of `ranks` processes. alpha: of a round.   bandwidth: one way, of what a process sends in a round.

    low, high: quartiles of measured over fitted times, of `count` measurements.
    """

    operation: str
    ranks: int
    alpha: Seconds
    bandwidth: BytesPerSecond
    low: float
    high: float
    count: int
    row: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLine:
    """Work of one process while all do the same. launch: of one call.   rate: in `unit` a second."""

    operation: str
    format: str
    unit: str
    launch: Seconds
    rate: float
    low: float
    high: float
    count: int
    row: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What a step costs where its products cost nothing. kind: `plain`, or behind FSDP2 under a zero stage.

    step: once.   layer: once a layer.   slot: once a micro-batch.   block: once a layer and micro-batch, forward and
    backward.   low, high, count: as of a line.
    """

    kind: str
    step: Seconds
    layer: Seconds
    slot: Seconds
    block: Seconds
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A time with its quartiles."""

    median: Seconds
    low: Seconds
    high: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An all_reduce and matrix products, alone and from one start. Source: chapter "Supernodes", section 6.4.3."""

    message: Bytes
    ranks: int
    communication_alone: Figure
    computation_alone: Figure
    communication_together: Figure
    computation_together: Figure
    finish: Figure
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """A real step of a probe over all processes. predicted: from the lines alone.   factor: as of `Waiting`."""

    layout: str
    time: Seconds
    low: Seconds
    high: Seconds
    count: int
    predicted: Seconds
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """By which factor exchanges take longer within a step, where processes are not ready at once, than by themselves.

    factor: the median of the probes' layouts.   low, high: the least and the largest of them.
    """

    factor: float
    low: float
    high: float
    row: tuple[WaitingRow, ...]


AT_ONCE = Waiting(factor=1.0, low=1.0, high=1.0, row=())
"""Nobody waits beyond what the lines hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCalibration:
    """One machine. memory: of a process.

    protocol: in what order, how often, and what is taken of the rounds.   reduce_scatter_rings: 2 where the backend
    executes it as an all_reduce, else 1.
    """

    platform: str
    devices: str
    processes: int
    memory: Bytes
    protocol: str
    reduce_scatter_rings: int
    exchange: tuple[ExchangeLine, ...]
    rate: tuple[RateLine, ...]
    overhead: tuple[Overhead, ...]
    overlap: tuple[Pair, ...]
    waiting: Waiting
