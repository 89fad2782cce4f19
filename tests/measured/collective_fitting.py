"""Rows of one group go in; its three numbers, and what they say of rows that were kept from the fit, come out.

The logarithm of the time is fitted by least squares, no number below zero, from several starts. A number that the rows
cannot tell is not fitted: a latency without two counts of rounds, a launch without two sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import least_squares

from meshwright.cost.collective_fits import FAMILIES, ways
from tests.measured.collective_rows import MIB, Key, Row

LEAST_ROWS: Final = 3
_STARTS: Final = [(share, latency) for share in (0.2, 0.9) for latency in (0.3, 3.0)]
"""A launch as a share of the shortest time, and a latency in us; the bandwidth is the best that any row reached."""
_TURNS: Final = 30
_NONE: Final = 1e-15
_UNIT: Final = np.array([1e-6, 1e-6, 1e-9])
"""Of what is fitted: us, us, and ns a byte as 1 over GB/s."""
SOURCES: Final = "another source"
RANKS: Final = "other ranks"
SIZES: Final = "other sizes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """launch_s, latency_s, and seconds a byte: 1 over the bandwidth."""

    key: Key
    launch_s: float
    latency_s: float
    byte_s: float

    def seconds(self, rows: Sequence[Row]) -> list[float]:
        """Of each row, as the product says it: the least over the family's ways."""
        numbers = np.array([self.launch_s, self.latency_s, self.byte_s])
        return (_terms(self.key, _design(self.key, rows), numbers) @ numbers).tolist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A row that a fit did not see. by: what was kept from the fit with it."""

    row: Row
    by: str
    predicted_s: float

    @property
    def error(self) -> float:
        """Relative, signed."""
        return self.predicted_s / self.row.seconds - 1


def fit(key: Key, rows: Sequence[Row]) -> Fitted:
    """The numbers that come closest to the rows. The way of each row follows from them: in turn, until both stay."""
    design = _design(key, rows) * _UNIT
    times = np.log([row.seconds for row in rows])
    rounds = design[:: len(FAMILIES[key.family].protocols), :, 1]
    free = np.array([len({row.size for row in rows}) > 1, len(np.unique(rounds)) > 1, True])
    shortest = float(np.exp(times).min()) / _UNIT[0]
    fastest = float((np.exp(times) / design[:, :, 2].min(axis=0)).min())
    best, least = np.zeros(3), np.inf
    for share, latency in _STARTS:
        numbers = np.where(free, [share * shortest, latency, fastest], 0.0)
        chosen = None
        for _ in range(_TURNS):
            terms = _terms(key, design, numbers)
            if chosen is not None and np.array_equal(terms, chosen):
                break
            chosen, numbers = terms, _smooth(terms, times, numbers, free)
            cost = float(np.square(np.log(_terms(key, design, numbers) @ numbers) - times).sum())
            if cost < least * (1 - 1e-9):
                best, least = numbers, cost
    launch_s, latency_s, byte_s = (np.where(best < 1e-5, 0.0, best) * _UNIT).tolist()
    return Fitted(key=key, launch_s=launch_s, latency_s=latency_s, byte_s=byte_s)


def _smooth(terms: np.ndarray, times: np.ndarray, start: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The numbers that come closest where each row's way is known."""
    used = terms[:, free]
    found = least_squares(
        lambda numbers: np.log(np.maximum(used @ numbers, _NONE)) - times,
        start[free],
        jac=lambda numbers: used / np.maximum(used @ numbers, _NONE)[:, None],
        bounds=(0, np.inf),
        x_scale=np.maximum(start[free], 1e-6),
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
    )
    numbers = np.zeros(3)
    numbers[free] = found.x
    return numbers


def scores(key: Key, rows: Sequence[Row]) -> list[Scored]:
    """Every row that can be predicted without itself: from other sources where they cover it, else within its own."""
    found: list[Scored] = []
    for name in _names(rows):
        own = [row for row in rows if lab(row) == name]
        others = [row for row in rows if lab(row) != name]
        covered = [row for row in own if _covers(others, row)]
        found += _scored(key, others, covered, SOURCES)
        left = [row for row in own if row not in covered]
        found += _by_ranks(key, own, left) + _by_sizes(key, own, left)
    return found


def lab(row: Row) -> str:
    """Who measured: files of one package or repository are one source."""
    return " ".join(row.source.split()[:3]) if row.source.startswith("PyPI") else "/".join(row.source.split("/")[:2])


def _design(key: Key, rows: Sequence[Row]) -> np.ndarray:
    """[ways, rows, 3]: what multiplies launch, latency and seconds a byte."""
    columns = []
    for row in rows:
        of = ways(key.family, key.operation, row.ranks, key.boxes)
        columns.append(np.stack([of.launches, of.rounds, of.bytes_per_byte * row.size], axis=1))
    return np.stack(columns, axis=1)


def _terms(key: Key, design: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """[rows, 3]: of each row the fastest way, and of a launch that is a floor, either it or the rest."""
    used = design
    if FAMILIES[key.family].launch == "floor":
        parts = design * numbers
        longer = parts[:, :, 1:].sum(axis=2) > parts[:, :, 0]
        used = np.where(np.stack([~longer, longer, longer], axis=2), design, 0.0)
    return used[(used @ numbers).argmin(axis=0), np.arange(design.shape[1])]


def _names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(lab(row) for row in rows))


def _covers(others: Sequence[Row], row: Row) -> bool:
    """Whether other sources measured as few ranks and as many, and sizes no larger than twice the row's."""
    if len(others) < LEAST_ROWS:
        return False
    ranks = [other.ranks for other in others]
    return min(ranks) <= row.ranks <= max(ranks) and min(other.size for other in others) <= 2 * row.size


def _scored(key: Key, seen: Sequence[Row], asked: Sequence[Row], by: str) -> list[Scored]:
    if len(seen) < LEAST_ROWS or not asked:
        return []
    times = fit(key, seen).seconds(asked)
    return [Scored(row=row, by=by, predicted_s=time) for row, time in zip(asked, times, strict=True)]


def _by_ranks(key: Key, own: Sequence[Row], left: Sequence[Row]) -> list[Scored]:
    """Fit on the least and the most ranks, predict those between: 2 and 8, and 4."""
    ranks = sorted({row.ranks for row in own})
    ends = [row for row in own if row.ranks in {ranks[0], ranks[-1]}]
    return _scored(key, ends, [row for row in left if row.ranks not in {ranks[0], ranks[-1]}], RANKS)


def _by_sizes(key: Key, own: Sequence[Row], left: Sequence[Row]) -> list[Scored]:
    """Fit on the lower of each pair of neighbouring sizes, predict the upper."""
    lower = set(sorted({row.size for row in own})[::2])
    seen = [row for row in own if row.size in lower]
    return _scored(key, seen, [row for row in left if row.size not in lower], SIZES)


def decade(size: int) -> str:
    """Of a message: the power of ten of its bytes."""
    return f"1e{len(str(size)) - 1}"


def from_mib(row: Row) -> bool:
    return row.size >= MIB
