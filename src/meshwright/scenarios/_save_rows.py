"""Saves as they ran go in; their rows, what waits for the writer, and what a failure goes back to, come out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from meshwright.scenarios._saves import Run, SaveOptions, run_saves

State: TypeAlias = Literal["committed", "lost", "dropped", "not_reached"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """One capture. Times are those without a failure, None where it is dropped; state is that of the failure.

    resumed_s: when the call returns and training goes on.   stall_s: what it stood for this save, from due_s to then.
    """

    id: str
    due_s: float | None
    captured_s: float | None
    resumed_s: float | None
    upload_start_s: float | None
    upload_end_s: float | None
    committed_s: float | None
    stall_s: float
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What is copied and not yet written, right after a copy or an upload ended."""

    at_s: float
    saves: int
    backlog_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A failure. recovered: the save it goes back to, None for the start.   stood_s: of the rework, what saves stood.

    uploaded_bytes: what the writer had of the save that it was writing.
    """

    at_s: float
    recovered: str | None
    recovered_s: float
    rework_s: float
    stood_s: float
    lost: tuple[str, ...]
    uploaded_bytes: float


def save_rows(options: SaveOptions, plan: dict[int, Run]) -> tuple[Save, ...]:
    """Every capture with its times, and its state after the failure when there is one."""
    ran = run_saves(options, until_failure=True)
    found: list[Save] = []
    before = 0.0
    for number in range(len(options.due_s)):
        run = plan.get(number)
        if run is None:
            found.append(_dropped(number, options))
            continue
        resumed = _resumed_s(options, run)
        state: State = "committed"
        if not math.isfinite(ran[number].commit.end_s):
            state = "lost" if run.copy.start_s <= (options.fail or 0.0) else "not_reached"
        found.append(
            Save(
                id=_id(number),
                due_s=run.due_s,
                captured_s=run.copy.start_s,
                resumed_s=resumed,
                upload_start_s=run.upload.start_s,
                upload_end_s=run.upload.end_s,
                committed_s=run.commit.end_s,
                stall_s=resumed - max(run.due_s, before),
                state=state,
            )
        )
        before = resumed
    return tuple(found)


def _id(number: int) -> str:
    return f"save-{number + 1}"


def _dropped(number: int, options: SaveOptions) -> Save:
    due = options.due_s[number] if options.clock == "wall" else None
    return Save(
        id=_id(number),
        due_s=due,
        captured_s=None,
        resumed_s=None,
        upload_start_s=None,
        upload_end_s=None,
        committed_s=None,
        stall_s=0.0,
        state="dropped",
    )


def _resumed_s(options: SaveOptions, run: Run) -> float:
    """After the copy; after the commit of a synchronous save."""
    return run.commit.end_s if options.mode == "sync" else run.copy.end_s


def loss_of(options: SaveOptions, fail_s: float, plan: dict[int, Run], saves: tuple[Save, ...]) -> Loss:
    usable = [number for number, item in enumerate(saves) if item.state == "committed"]
    newest = usable[-1] if usable else None
    back = 0.0 if newest is None else plan[newest].copy.start_s
    written = [_within(run.upload.start_s, run.upload.end_s, fail_s) for run in plan.values()]
    ends = [min(item.resumed_s or 0.0, fail_s) for item in saves]
    starts = [max((item.resumed_s or 0.0) - item.stall_s, back) for item in saves]
    return Loss(
        at_s=fail_s,
        recovered=None if newest is None else _id(newest),
        recovered_s=back,
        rework_s=fail_s - back,
        stood_s=sum(max(0.0, end - start) for start, end in zip(starts, ends, strict=True)),
        lost=tuple(item.id for item in saves if item.state == "lost"),
        uploaded_bytes=options.size * sum(share for share in written if share < 1),
    )


def _within(start_s: float, end_s: float, at_s: float) -> float:
    """The share of a run that is over; all or nothing of one too short for its clock."""
    if end_s <= start_s:
        return float(at_s >= end_s)
    return min(max((at_s - start_s) / (end_s - start_s), 0.0), 1.0)


def backlog_of(options: SaveOptions, plan: dict[int, Run]) -> tuple[Backlog, ...]:
    times = sorted({time for run in plan.values() for time in (run.copy.end_s, run.upload.end_s)})
    found: list[Backlog] = []
    for time in times:
        left = [
            1 - _within(run.upload.start_s, run.upload.end_s, time) for run in plan.values() if run.copy.end_s <= time
        ]
        found.append(Backlog(at_s=time, saves=sum(share > 0 for share in left), backlog_bytes=options.size * sum(left)))
    return tuple(found)


def buffers_used(options: SaveOptions, plan: dict[int, Run]) -> int:
    """The most held at once, from the start of a copy to the end of its upload; a synchronous save has none."""
    if options.mode == "sync":
        return 0
    held = [(run.copy.start_s, run.upload.end_s) for run in plan.values()]
    return max(sum(start <= at < end for start, end in held) for at, _ in held)


def interval_s(options: SaveOptions) -> float | None:
    """Between two captures on the wall clock, on average and as asked; None for a single one."""
    due = options.due_s
    if len(due) == 1:
        return None
    asked = (due[-1] - due[0]) / (len(due) - 1) if options.every is None else options.every
    return asked + (held_s(options) if options.clock == "training" else 0.0)


def held_s(options: SaveOptions) -> float:
    """What a save holds training when nothing else is under way."""
    return options.copy + (options.write_s + options.commit if options.mode == "sync" else 0.0)


def least_interval_s(options: SaveOptions) -> float:
    """The shortest at which saves do not pile up: one writer, one copy at a time, and one buffer after the other."""
    if options.mode == "sync":
        return held_s(options)
    return options.copy + options.write_s if options.buffers == 1 else max(options.copy, options.write_s)
