"""Commands go in; the seconds of whole processes come out, taken in turns within one run so that ratios hold."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process. cpu_s: what it computed, on all cores, whatever else the machine was doing meanwhile."""

    wall_s: float
    cpu_s: float


def in_turns(commands: Mapping[str, Sequence[str]], runs: int) -> dict[str, list[Run]]:
    """Each run of each command: one warm-up, then rounds in which each runs once, first in its turn."""
    names = list(commands)
    for name in names:
        _run(commands[name])
    found: dict[str, list[Run]] = {name: [] for name in names}
    for turn in range(runs):
        shift = turn % len(names)
        for name in (*names[shift:], *names[:shift]):
            found[name].append(_run(commands[name]))
    return found


def ratio(ours: Sequence[Run], theirs: Sequence[Run]) -> float:
    """The median of the ratios of wall time, round by round: what slows a whole round down cancels."""
    return median(own.wall_s / other.wall_s for own, other in zip(ours, theirs, strict=True))


def _run(command: Sequence[str]) -> Run:
    start, used = perf_counter(), _children_s()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own program and interpreter
    return Run(wall_s=perf_counter() - start, cpu_s=_children_s() - used)


def _children_s() -> float:
    """CPU seconds of all processes that were started here and have ended."""
    times = os.times()
    return times.children_user + times.children_system
