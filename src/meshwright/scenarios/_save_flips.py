"""Saves and a failure go in; the write rates on either side of the present one at which another save is recovered."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from meshwright.base.units import BytesPerSecond, Seconds
from meshwright.scenarios._saves import SaveOptions, run_saves

_STEP: Final = 2**0.25
_STEPS: Final = 16
_NARROW: Final = 1e-10


def write_flips(options: SaveOptions, fail_s: float) -> tuple[dict[str, Any], ...]:
    """The change nearest below and nearest above the present rate, within a factor of 16. Ids are those of saves.

    Stepped outwards by a quarter of a doubling until another save is recovered, then halved. Captures that are due
    after the failure change nothing, and are left out.
    """
    due = tuple(Seconds(time) for time in options.due_s if time <= fail_s)
    if not due:
        return ()
    options = replace(options, captures=due, every=None, fail=Seconds(fail_s))
    present = _recovered(options, options.write)
    found: list[dict[str, Any]] = []
    for step in (1 / _STEP, _STEP):
        near, far, other = options.write, options.write, present
        for _ in range(_STEPS):
            near, far = far, far * step
            other = _recovered(options, far)
            if other != present:
                break
        if other == present:
            continue
        while abs(far - near) > _NARROW * far:
            middle = (near + far) / 2
            chosen = _recovered(options, middle)
            near, far, other = (middle, far, other) if chosen == present else (near, middle, chosen)
        below, above = (other, present) if step < 1 else (present, other)
        found.append({"parameter": "write", "value": far, "unit": "B/s", "from": _id(below), "to": _id(above)})
    return tuple(found)


def _recovered(options: SaveOptions, write: float) -> int:
    """The newest save that is committed by the failure at a write rate; -1 for none."""
    ran = run_saves(replace(options, write=BytesPerSecond(write)), until_failure=True)
    return max((number for number, run in ran.items() if math.isfinite(run.commit.end_s)), default=-1)


def _id(number: int) -> str | None:
    return None if number < 0 else f"save-{number + 1}"
