"""The text that a program of nccl-tests prints goes in; its ranks, hosts and measured sizes come out.

Every program (`all_reduce_perf`, `sendrecv_perf`...) prints the devices, a header that names its columns, a row a size
with times out of place and in place, and the average bus bandwidth at its end. Columns are found by their names, which
changed between versions. Tags of mpirun and srun before a line are taken off.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import CollectiveError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds

PROGRAMS: Final = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "sendrecv": "send_recv",
}
"""Names of nccl-tests' programs (without _perf), and the operation of each."""
_OTHERS: Final = ("gather", "scatter", "hypercube", "alltoallv")
_TAG: Final = re.compile(r"^\s*(?:\[\d+,\d+\]<std(?:out|err)>:?|\d+:)\s?(?=\s*(?:#|\d|nccl|$))")
_DEVICE: Final = re.compile(
    r"^#\s*Rank\s+(?P<rank>\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(?P<host>\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(?P<name>.*)$"
)
_PROGRAM: Final = re.compile(r"\b([a-z_]+)_perf\b")
_VERSION: Final = re.compile(r"nccl-library=(\d+)|NCCL version\s+(\d+\.\d+\.\d+)")
_AVERAGE: Final = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*(\S+)")
_GIGA: Final = 1e9
_LEAST_US: Final = 1e-3
_MOST_US: Final = 1e12
_MOST_GB_S: Final = 1e9
_TIMED: Final = ("time", "algbw", "busbw")
_WRONG: Final = ("#wrong", "error")
_PLACES: Final = ("out_of_place", "in_place")
_LEAST_COLUMNS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One size in one place. wrong: elements that were not what they should be; None where nobody looked."""

    time: Seconds
    algbw: BytesPerSecond
    busbw: BytesPerSecond
    wrong: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row. number: of the line in the file, from 1.   in_place: None where the program has none."""

    number: int
    size: Bytes
    redop: str | None
    root: int | None
    out_of_place: Timed | None
    in_place: Timed | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run. operation: None where the text does not name it.   hosts: of each rank; empty where it is not told.

    devices: names of the devices as the driver has them.   version: of NCCL.   complete: whether its end is there.
    """

    operation: str | None
    hosts: tuple[str, ...]
    devices: tuple[str, ...]
    version: str | None
    complete: bool
    lines: tuple[Line, ...]


def read_measurement(text: str, what: str) -> Measurement:
    """The run that a text tells of; `what` names the file in messages.

    Raises COL020 (no table of nccl-tests, or more than one), COL021 (a row that is broken or cut, with its line),
    COL022 (a program that no operation here stands for).
    """
    lines = [_TAG.sub("", line) for line in text.splitlines()]
    heads = [at for at, line in enumerate(lines) if _is_head(line)]
    if not heads:
        cause = f"{what}: line {_strange(lines)}: this is no output of nccl-tests: no header with size, time and busbw"
        raise CollectiveError(20, cause, "give what a *_perf program of nccl-tests prints, whole")
    if len(heads) > 1:
        cause = f"{what}: line {heads[1] + 1}: a second table begins; the first is at line {heads[0] + 1}"
        raise CollectiveError(20, cause, "give one run a file")
    ranks = [found for line in lines if (found := _DEVICE.match(line.strip()))]
    return Measurement(
        operation=_operation(lines, what),
        hosts=tuple(found["host"] for found in sorted(ranks, key=lambda found: int(found["rank"]))),
        devices=tuple(dict.fromkeys(found["name"].strip() for found in ranks if found["name"].strip())),
        version=_version(lines),
        complete=any(_AVERAGE.match(line.strip()) for line in lines[heads[0] :]),
        lines=_rows(lines, heads[0], what),
    )


def _is_head(line: str) -> bool:
    words = line.lstrip("# \t").split()
    return line.lstrip().startswith("#") and words[:2] == ["size", "count"] and set(_TIMED) <= set(words)


def _strange(lines: Sequence[str]) -> int:
    """The first line that no output of nccl-tests has before its table; the last one of a text that might be one."""
    for at, line in enumerate(lines):
        told = line.strip()
        if told and not told.startswith(("#", "nccl", "NCCL")) and not _PROGRAM.search(told):
            return at + 1
    return max(len(lines), 1)


def _operation(lines: Sequence[str], what: str) -> str | None:
    for at, line in enumerate(lines):
        found = _PROGRAM.search(line)
        if found and found[1] in PROGRAMS:
            return PROGRAMS[found[1]]
        if found and found[1] in _OTHERS:
            cause = f"{what}: line {at + 1}: {found[0]} is not an operation known here"
            raise CollectiveError(22, cause, f"known: {', '.join(f'{name}_perf' for name in PROGRAMS)}")
    return None


def _version(lines: Sequence[str]) -> str | None:
    found = next((match for line in lines if (match := _VERSION.search(line))), None)
    if found is None:
        return None
    if found[2]:
        return found[2]
    number = int(found[1])
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _rows(lines: Sequence[str], head: int, what: str) -> tuple[Line, ...]:
    names = lines[head].lstrip("# \t").split()
    found: list[Line] = []
    for at in range(head + 1, len(lines)):
        told = lines[at].strip()
        if not told or told.startswith("#"):
            continue
        words = told.split()
        if not words[0].isdigit():
            if len(words) >= _LEAST_COLUMNS and "NCCL" not in told:
                raise _broken(what, at, told, "a row begins with its bytes")
            continue  # a warning of NCCL or of the launcher between rows
        if len(words) != len(names):
            raise _broken(what, at, told, f"{len(words)} of {len(names)} columns")
        try:
            found.append(_line(at + 1, dict_of(names, words), names, words))
        except ValueError as problem:
            raise _broken(what, at, told, str(problem)) from problem
    if not found:
        cause = f"{what}: line {head + 1}: the header is there, and no row follows"
        raise CollectiveError(21, cause, "give the whole output: this run ended before its first size")
    return tuple(found)


def dict_of(names: Sequence[str], words: Sequence[str]) -> dict[str, str]:
    """The first word of each name."""
    found: dict[str, str] = {}
    for name, word in zip(names, words, strict=True):
        found.setdefault(name, word)
    return found


def _broken(what: str, at: int, told: str, why: str) -> CollectiveError:
    shown = told if len(told) <= 60 else f"{told[:57]}..."  # noqa: PLR2004 - what a line of a message holds
    return CollectiveError(21, f"{what}: line {at + 1}: {why}: {shown!r}", "give the output as the program printed it")


def _line(number: int, first: dict[str, str], names: Sequence[str], words: Sequence[str]) -> Line:
    places = [_timed(names, words, place) for place in range(len(_PLACES))]
    size = int(first["size"])
    return Line(
        number=number,
        size=Bytes(size),
        redop=first.get("redop"),
        root=int(first["root"]) if "root" in first else None,
        out_of_place=places[0],
        in_place=places[1],
    )


def _timed(names: Sequence[str], words: Sequence[str], place: int) -> Timed | None:
    """The nth time, algbw, busbw and wrong of a row; None where it has none. Raises ValueError for no number."""
    found: dict[str, str] = {}
    for name in (*_TIMED, *_WRONG):
        where = [at for at, item in enumerate(names) if item == name]
        if place < len(where):
            found[name] = words[where[place]]
    if not set(_TIMED) <= set(found) or found["time"] == "N/A":
        return None
    time, algbw, busbw = (float(found[name]) for name in _TIMED)
    if not (time >= 0 and algbw >= 0 and busbw >= 0 and math.isfinite(time + algbw + busbw)):
        raise ValueError("a time or a rate below zero, or none")
    if 0 < time < _LEAST_US or time > _MOST_US or max(algbw, busbw) > _MOST_GB_S:
        raise ValueError("a time or a rate that no machine has")
    wrong = next((found[name] for name in _WRONG if name in found), "N/A")
    return Timed(
        time=Seconds(time * 1e-6),
        algbw=BytesPerSecond(algbw * _GIGA),
        busbw=BytesPerSecond(busbw * _GIGA),
        wrong=None if wrong == "N/A" else int(float(wrong)),
    )
