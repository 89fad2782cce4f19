"""Captures, a copy, one writer and staging buffers go in; when each save is copied, written and committed comes out.

On the engine: a copy holds training, an upload holds the writer, a commit record follows the data.
A buffer is held from the start of the copy to the end of the upload.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from meshwright.base.errors import CheckpointError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds, show_seconds
from meshwright.scenarios._tasks import Span, Task, spans
from meshwright.sim.engine import Resource

Mode: TypeAlias = Literal["async", "sync"]
WhenFull: TypeAlias = Literal["block", "drop"]
Clock: TypeAlias = Literal["wall", "training"]
MOST_CAPTURES: Final = 256
_LONGEST_S: Final = 1e12
_NOTHING_S: Final = Seconds(0.0)
_RESOURCES: Final = tuple(Resource(name=name, queue="fifo") for name in ("training", "writer", "records"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveOptions:
    """What is saved, when, and with what room.

    size: of one save; write: what the storage takes, all writers of the job together.   captures: when they are due; or
    every: the interval and count: how many.   copy: into the save's own buffer, while training waits.   commit: of the
    record that makes a save usable, after its data.   staging: buffers, None for as many as it takes; when_full: a
    capture that finds none free waits, or is left out.   fail: when the job and its uploads stop.   clock: captures are
    due by the wall clock, or by the time that training has run.
    """

    size: Bytes
    write: BytesPerSecond
    captures: tuple[Seconds, ...] = field(default=())
    every: Seconds | None = None
    count: int = 2
    copy: Seconds = _NOTHING_S
    commit: Seconds = _NOTHING_S
    mode: Mode = "async"
    staging: int | None = None
    when_full: WhenFull = "block"
    fail: Seconds | None = None
    clock: Clock = "wall"

    @property
    def due_s(self) -> tuple[float, ...]:
        """When captures are due, on the clock they go by."""
        return self.captures or tuple((self.every or 0.0) * (number + 1) for number in range(self.count))

    @property
    def write_s(self) -> float:
        """The data of one save alone on its writer."""
        return self.size / self.write

    @property
    def buffers(self) -> float:
        """Staging buffers; a synchronous save is written from where it lies."""
        return math.inf if self.staging is None or self.mode == "sync" else self.staging


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One save as it ran. due_s: on the wall clock.   committed_s is infinite where a failure came before it."""

    due_s: float
    copy: Span
    upload: Span
    commit: Span


def checked(options: SaveOptions) -> SaveOptions:
    """The options themselves. Raises CKP001 (size or rate), CKP002 (captures), CKP003 (staging)."""
    if options.size > 0 and options.write > 0 and not 0 < options.write_s <= _LONGEST_S:
        cause = f"{options.size} bytes at {options.write:g} bytes/s take {show_seconds(options.write_s)}"
        raise CheckpointError(1, cause, f"give a size and a rate that take at most {_LONGEST_S:g} s, and some time")
    if options.size <= 0 or options.write <= 0:
        cause = f"saves of {options.size} bytes at {options.write:g} bytes/s"
        raise CheckpointError(1, cause, "give both above zero, as in --size 112GB --write 7GB/s")
    if bool(options.captures) == (options.every is not None):
        raise CheckpointError(
            2, "captures are due at given times or every interval", "--captures 20s,40s or --every 20s"
        )
    count = len(options.captures) or options.count
    if not 1 <= count <= MOST_CAPTURES:
        raise CheckpointError(2, f"{count} captures", f"give 1 to {MOST_CAPTURES} of them")
    due = options.due_s
    if due[-1] > _LONGEST_S:
        cause = f"a capture that is due after {show_seconds(due[-1])}"
        raise CheckpointError(2, cause, f"give times of at most {_LONGEST_S:g} s")
    if options.every == 0 or any(after <= before for before, after in pairwise(due)):
        raise CheckpointError(
            2, "captures that do not follow each other", "give rising times, as in --captures 20s,40s"
        )
    if options.staging is not None and options.staging < 1:
        raise CheckpointError(3, f"{options.staging} staging buffers", "--staging 1, or leave it out for no bound")
    return options


def run_saves(options: SaveOptions, *, until_failure: bool = False) -> dict[int, Run]:
    """Every save that is taken, by its number among the captures; those dropped are missing.

    until_failure: with the failure at `fail`; else as if there were none. What ends at the failure's own moment has
    ended.
    """
    taken = list(range(len(options.due_s)))
    if options.when_full == "drop" and options.buffers < len(taken):
        taken = _not_dropped(options)
    stops = None
    if until_failure and options.fail is not None:
        stops = {resource.name: math.nextafter(options.fail, math.inf) for resource in _RESOURCES}
    return _ran(options, taken, stops)


def _not_dropped(options: SaveOptions) -> list[int]:
    """The captures that find a buffer free when they are due: which ones hangs only on those before them."""
    taken: dict[int, Run] = {}
    for number in range(len(options.due_s)):
        run = _one_more(options, number, taken)
        held = sum(other.upload.end_s > run.copy.start_s for other in taken.values())
        if held < options.buffers:
            taken[number] = run
    return list(taken)


def _one_more(options: SaveOptions, number: int, taken: dict[int, Run]) -> Run:
    """A save behind those taken, of which the last one says how long training and the writer are held."""
    last = max(taken, default=None)
    before: list[Task] = []
    if last is not None:
        run = taken[last]
        held = (("copy", run.copy, "training"), ("upload", run.upload, "writer"), ("commit", run.commit, "records"))
        before = [Task(name=f"{name} {last}", duration_s=span.end_s, on=on) for name, span, on in held]
    waits = () if last is None else (f"copy {last}",)
    ran = spans([*before, *_save(options, number, last, waits)], _RESOURCES)
    return _run(ran, number)


def _ran(options: SaveOptions, taken: list[int], stops: dict[str, float] | None) -> dict[int, Run]:
    held = "commit" if options.mode == "sync" else "copy"
    tasks: list[Task] = []
    for place, number in enumerate(taken):
        before = taken[place - 1] if place else None
        waits = () if before is None else (f"{held} {before}",)
        if options.when_full == "block" and place >= options.buffers:
            waits = (*waits, f"upload {taken[place - int(options.buffers)]}")
        tasks += _save(options, number, before, waits)
    ran = spans(tasks, _RESOURCES, stops)
    return {number: _run(ran, number) for number in taken}


def _run(ran: dict[str, Span], number: int) -> Run:
    return Run(
        due_s=ran[f"due {number}"].end_s,
        copy=ran[f"copy {number}"],
        upload=ran[f"upload {number}"],
        commit=ran[f"commit {number}"],
    )


def _save(options: SaveOptions, number: int, before: int | None, waits: tuple[str, ...]) -> list[Task]:
    """Training up to the capture, then its copy, its upload and its record. waits: what the copy waits for besides."""
    return [
        _until_due(options, number, before, waits[:1]),
        Task(name=f"copy {number}", duration_s=options.copy, on="training", after=(f"due {number}", *waits)),
        Task(name=f"upload {number}", duration_s=options.write_s, on="writer", after=(f"copy {number}",)),
        Task(name=f"commit {number}", duration_s=options.commit, on="records", after=(f"upload {number}",)),
    ]


def _until_due(options: SaveOptions, number: int, before: int | None, resumed: tuple[str, ...]) -> Task:
    """A task that ends when the capture is due: at its time, or after that much training since the one before."""
    due = options.due_s[number]
    if options.clock == "wall":
        return Task(name=f"due {number}", duration_s=0.0, release_s=due)
    run = due - (0.0 if before is None else options.due_s[before])
    return Task(name=f"due {number}", duration_s=run, on="training", after=resumed)
