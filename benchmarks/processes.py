"""Commands go in; the seconds of whole processes come out, taken in turns within one run so that ratios hold."""

from __future__ import annotations

import subprocess
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def in_turns(commands: Mapping[str, Sequence[str]], runs: int) -> dict[str, list[float]]:
    """Seconds of each run of each command: one warm-up, then rounds in which each runs once, first in its turn."""
    names = list(commands)
    for name in names:
        _seconds(commands[name])
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(runs):
        shift = turn % len(names)
        for name in (*names[shift:], *names[:shift]):
            found[name].append(_seconds(commands[name]))
    return found


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios round by round: what slows a whole round down cancels."""
    return median(own / other for own, other in zip(ours, theirs, strict=True))


def _seconds(command: Sequence[str]) -> float:
    start = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own program and interpreter
    return perf_counter() - start
