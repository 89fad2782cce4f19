"""When is a save durable, and what does a failure lose? Saves and a writer go in; a timeline and the rework come out.

A save counts once its data and its commit record are durable, whatever its call returned before that; a failure takes
training back to the newest capture that counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

from meshwright.base.errors import CheckpointError
from meshwright.base.result import Basis, Result, Verdict
from meshwright.base.units import Bytes, BytesPerSecond, Seconds, show_rate, show_seconds
from meshwright.scenarios._save_flips import write_flips
from meshwright.scenarios._save_rows import (
    Loss,
    Save,
    backlog_of,
    buffers_used,
    held_s,
    interval_s,
    least_interval_s,
    loss_of,
    save_rows,
)
from meshwright.scenarios._saves import SaveOptions, checked, run_saves
from meshwright.scenarios._tasks import Task, spans
from meshwright.sim.engine import Resource

_ROUNDING: Final = 1e-12
_LEFT_OUT: Final = (
    "readers of the same storage and the load on it: the write rate is the job's own (study save-and-input shares it)",
    "what follows a failure: restarting, reading the save back, and captures that were due after it",
    "a save written in parts that end apart: its data is one stream, and its commit one record",
)
_BASIS: Final = {
    "saves[]": f"{Basis.SIMULATED.value}: the event engine",
    "failure": f"{Basis.SIMULATED.value}: the event engine",
    "write_s": Basis.FORMULA.value,
    "arrival_bytes_per_s": Basis.FORMULA.value,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRate:
    """A write rate. rework_avoided_s: against the first rate of the list."""

    write_bytes_per_s: float
    write_s: float
    last_committed_s: float
    stall_s: float
    recovered_s: float
    rework_s: float
    rework_avoided_s: float
    keeps_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveCall:
    """One measured save and a kill. unsafe_s: from the return of the call to the commit."""

    returned_s: float
    committed_s: float
    unsafe_s: float
    recovers_to: Literal["this save", "the save before"]


def checkpoint_timeline(options: SaveOptions) -> Result:
    """Every save from its capture to its commit, what waits for the writer, and what a failure costs.

    yes: the writer keeps up with the captures, and a failure finds a save that counts. Raises CKP001 to CKP003. Source:
    chapter "Training systems", section 10.4.3.
    """
    options = checked(options)
    plan = run_saves(options)
    saves = save_rows(options, plan)
    loss = None if options.fail is None else loss_of(options, options.fail, plan, saves)
    interval, least = interval_s(options), least_interval_s(options)
    keeps_up = interval is None or least <= interval * (1 + _ROUNDING)
    stalls = sum(item.stall_s for item in saves)
    backlog = backlog_of(options, plan)
    return Result(
        command="checkpoint timeline",
        verdict=_verdict(options, saves, loss, keeps_up=keeps_up),
        inputs={"model": None, "system": None, "job": None, "layout": None, "options": options},
        flips=() if options.fail is None else write_flips(options, options.fail),
        warnings=_warnings(saves),
        not_modelled=_LEFT_OUT,
        basis=_BASIS,
        body={
            "saves": saves,
            "write_s": options.write_s,
            "arrival_bytes_per_s": None if interval is None else options.size / interval,
            "write_bytes_per_s": options.write,
            "keeps_up": keeps_up,
            "least_interval_s": least,
            "stall_s": stalls,
            "saves_taken": len(plan),
            "largest_backlog_bytes": max(item.backlog_bytes for item in backlog),
            "buffers_used": buffers_used(options, plan),
            "backlog": backlog,
            "failure": loss,
        },
        next_commands=_next(options, keeps_up=keeps_up),
    )


def save_rates(
    size_bytes: Bytes,
    captures: tuple[Seconds, ...],
    copy_s: Seconds,
    fail_s: Seconds,
    writes: tuple[BytesPerSecond, ...],
) -> tuple[SaveRate, ...]:
    """The same saves and the same failure at several write rates. Raises CKP001, CKP002.

    Source: chapter "Training systems", section 10.4.3.
    """
    found: list[SaveRate] = []
    for write in writes:
        options = SaveOptions(size=size_bytes, write=write, captures=captures, copy=copy_s, fail=fail_s)
        body = checkpoint_timeline(options).body
        first = found[0].rework_s if found else body["failure"].rework_s
        found.append(
            SaveRate(
                write_bytes_per_s=write,
                write_s=body["write_s"],
                last_committed_s=body["saves"][-1].committed_s,
                stall_s=body["stall_s"],
                recovered_s=body["failure"].recovered_s,
                rework_s=body["failure"].rework_s,
                rework_avoided_s=first - body["failure"].rework_s,
                keeps_up=body["keeps_up"],
            )
        )
    return tuple(found)


def save_call(returned_s: Seconds, committed_s: Seconds, killed_s: Seconds) -> SaveCall:
    """A save whose call returns before it is committed, and a process killed at `killed_s`; all from the call on.

    Raises CKP004 for a commit before the return. Source: chapter "Training systems", section 10.4.3 and note 19.
    """
    if committed_s < returned_s:
        cause = (
            f"a save committed at {show_seconds(committed_s)}, before its call returned at {show_seconds(returned_s)}"
        )
        raise CheckpointError(4, cause, "give both from the call on")
    resources = (Resource(name="process", queue="fifo"),)
    tasks = (
        Task(name="call", duration_s=returned_s, on="process"),
        Task(name="rest", duration_s=committed_s - returned_s, on="process", after=("call",)),
    )
    plan = spans(tasks, resources)
    killed = spans(tasks, resources, {"process": math.nextafter(killed_s, math.inf)})
    return SaveCall(
        returned_s=plan["call"].end_s,
        committed_s=plan["rest"].end_s,
        unsafe_s=plan["rest"].end_s - plan["call"].end_s,
        recovers_to="this save" if math.isfinite(killed["rest"].end_s) else "the save before",
    )


def _verdict(options: SaveOptions, saves: tuple[Save, ...], loss: Loss | None, *, keeps_up: bool) -> Verdict:
    told: list[str] = []
    if loss is not None and loss.recovered is not None:
        told.append(
            f"a failure at {show_seconds(loss.at_s)} goes back to {loss.recovered}, captured at "
            f"{show_seconds(loss.recovered_s)}: {show_seconds(loss.rework_s)} are redone"
        )
    elif loss is not None:
        told.append(f"a failure at {show_seconds(loss.at_s)} finds no committed save: all is redone")
    interval = interval_s(options)
    if interval is not None and options.mode == "sync":
        told.append(f"a save holds training {show_seconds(held_s(options))}, one is due every {show_seconds(interval)}")
    elif interval is not None:
        arrives, written = show_rate(options.size / interval), show_rate(options.write)
        word = "keeps up" if keeps_up else "does not keep up"
        told.append(f"the writer {word}: {arrives} arrive, {written} are written")
    else:
        told.append(f"one save is committed at {show_seconds(saves[0].committed_s or 0.0)}")
    stall = sum(item.stall_s for item in saves)
    told.append(f"training stands {show_seconds(stall)} for saves")
    good = keeps_up and (loss is None or loss.recovered is not None)
    return Verdict(answer="yes" if good else "no", text="; ".join(told))


def _warnings(saves: tuple[Save, ...]) -> tuple[str, ...]:
    dropped = [item.id for item in saves if item.state == "dropped"]
    blocked = [item.id for item in saves if item.captured_s is not None and item.captured_s > (item.due_s or 0.0)]
    found: list[str] = []
    if dropped:
        found.append(
            f"{len(dropped)} of {len(saves)} saves are dropped, no staging buffer being free: {dropped[0]} first"
        )
    if blocked:
        found.append(
            f"{len(blocked)} of {len(saves)} captures come late, training standing until then: {blocked[0]} first"
        )
    return tuple(found)


def _next(options: SaveOptions, *, keeps_up: bool) -> tuple[str, ...]:
    """The interval that the writer keeps up with."""
    if keeps_up:
        return ()
    whole = replace(
        options, captures=(), every=Seconds(float(math.ceil(least_interval_s(options)))), count=len(options.due_s)
    )
    words = f"--size {whole.size}B --write {whole.write:.17g}B/s --every {whole.every:g}s --count {whole.count}"
    rest = "" if whole.fail is None else f" --fail {whole.fail:.17g}s"
    rest += "" if whole.staging is None else f" --staging {whole.staging} --when-full {whole.when_full}"
    rest += f" --mode {whole.mode}" if whole.mode == "sync" else ""
    return (f"meshwright checkpoint timeline {words} --copy {whole.copy:.17g}s{rest}",)
