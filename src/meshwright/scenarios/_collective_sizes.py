"""Algorithms whose time at any size can be asked go in; where the fastest changes with size, and curves, come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

Times: TypeAlias = Mapping[str, Callable[[int], float]]
"""Seconds of a message of so many bytes, by algorithm, in the order in which ties are decided."""
SMALLEST: Final = 1 << 8
LARGEST: Final = 1 << 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """From this size on `above` is the fastest, and below it `below`."""

    size_bytes: int
    below: str
    above: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One size of a curve."""

    size_bytes: int
    time_s: float


def sizes() -> tuple[int, ...]:
    """Powers of two from `SMALLEST` to `LARGEST`."""
    return tuple(1 << power for power in range(SMALLEST.bit_length() - 1, LARGEST.bit_length()))


def curves(times: Times) -> dict[str, tuple[Point, ...]]:
    """Every algorithm over `sizes`."""
    return {name: tuple(Point(size_bytes=size, time_s=at(size)) for size in sizes()) for name, at in times.items()}


def crossovers(times: Times) -> tuple[Crossover, ...]:
    """Every size at which another algorithm becomes the fastest, to the byte; ties go to the first.

    Exact where a winner holds over at least one power of two; one that comes and goes between two of them may be
    missed.
    """
    if not times:
        return ()
    found: list[Crossover] = []
    known = [(size, fastest(times, size)) for size in sizes()]
    for (small, below), (large, above) in pairwise(known):
        found += _between(times, small, below, large, above)
    return tuple(found)


def fastest(times: Times, size: int) -> str:
    """The first of the fastest at a size."""
    return min(times, key=lambda name: times[name](size))


def _between(times: Times, small: int, below: str, large: int, above: str) -> list[Crossover]:
    """Changes between two sizes, by halving: of the two winners alone, and again where a third comes between."""
    if below == above:
        return []
    size = _meeting({name: times[name] for name in (below, above)}, small, large, above)
    before, after = fastest(times, size - 1), fastest(times, size)
    found = [] if size - 1 == small else _between(times, small, below, size - 1, before)
    found += [Crossover(size_bytes=size, below=before, above=after)] if before != after else []
    return found + ([] if size == large else _between(times, size, after, large, above))


def _meeting(times: Times, small: int, large: int, above: str) -> int:
    """A size from which on `above` is the faster one, as it is at `large`, and is not just below."""
    while large - small > 1:
        middle = (small + large) // 2
        small, large = (small, middle) if fastest(times, middle) == above else (middle, large)
    return large
