"""Stages that sleep, run by the executor; what each schedule waited, beside the event engine, comes out.

`python -m tests.measured.bubbles` writes `docs/bubbles.md`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from meshwright.base.result import Result
from meshwright.verify.bubbles import SHARE, BubbleOptions, BubbleRow, bubbles, read_sleep
from tests.runtime.undisturbed import undisturbed

PAGE: Final = Path(__file__).parents[2] / "docs" / "bubbles.md"
COMMAND: Final = ".venv/bin/python -m tests.measured.bubbles"
SLEEP: Final = "forward=20ms,backward=40ms,weight=20ms,update=5ms"
STAGES: Final = (2, 4)
MICRO_BATCHES: Final = 8
COLUMNS: Final = (
    "schedule",
    "simulated",
    "measured",
    "lowest to highest",
    "bubble, simulated",
    "measured",
    "over",
    "overhead",
    "allowed",
)


def options(stages: int) -> BubbleOptions:
    """Of one table of the page."""
    return BubbleOptions(sleep=read_sleep(SLEEP), stages=stages, micro_batches=MICRO_BATCHES)


def simulated_cells(row: BubbleRow) -> tuple[str, str, str]:
    """What a row says that is the same on every machine."""
    assert row.simulated_s is not None
    return (row.schedule, _ms(row.simulated_s), f"{row.simulated_bubble:.3f}")


def page(results: dict[int, Result]) -> str:
    """The text of `docs/bubbles.md`. results: by stages."""
    over = [_within_wait(row) for result in results.values() for row in result.body["bubbles"]]
    held = f"{sum(over)} of {len(over)}"
    tables = "\n\n".join(_section(stages, result) for stages, result in results.items())
    return f"""# Bubbles, measured

Do ranks of a pipeline wait as long as the simulation says? Stages that sleep known times stand where a model's would,
one process a rank, and the executor of a real run drives them through every schedule, with real messages over gloo. On
two cores this measures waits and not work: a sleeping stage competes for nothing. The event engine runs the same slot
orders with the same times, and with messages that take none.

This page is written by

    {COMMAND}

It is as measured on two shared cores, with the priority of a process that must not be kept waiting; a test says that
the simulated columns are what the program says now, another that no schedule ends before it; the bound is the campaign
part `bubbles`.

## What is allowed

`|measured - simulated| <= {float(SHARE):.0%} of simulated + overhead`

Times are from the start to the last gradient of all ranks, the median of three steps. The overhead of a slot is what
autograd, the executor, a late timer and a message add to its sleep. It is measured before, once for each number of
stages and for no schedule: one micro-batch goes through all stages and back, each slot waits for the one before, and
what that takes longer than its sleeps is dealt to its slots. *overhead* is what the simulation takes longer once every
slot is that much longer. *over* is measured less simulated, *bubble* the part of all ranks' time that they wait.

{held} rows are also within {float(SHARE):.0%} of a rank's mean wait, not of its time, and the overhead.

Sleeps: `{SLEEP}` of a whole stage and micro-batch,
{MICRO_BATCHES} micro-batches; virtual stages of a rank share them. `dualpipe_declared` leaves the order between its two
directions open: the simulated one is run.

{tables}

## What it leaves out

Stages of different length; messages of real size; and ranks that compute, which on few cores would measure the cores.
"""


def _section(stages: int, result: Result) -> str:
    overhead_us = 1e6 * result.body["slot_overhead_s"]
    lines = [COLUMNS, ("---", *["--:"] * (len(COLUMNS) - 1)), *(_cells(row) for row in result.body["bubbles"])]
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"## {stages} stages\n\n{result.verdict.text}. The overhead of a slot is {overhead_us:.0f} us.\n\n{body}"


def _within_wait(row: BubbleRow) -> bool:
    """A stricter bound: a share of what a rank waits, and the overhead."""
    assert row.simulated_s is not None
    assert row.measured_s is not None
    assert row.simulated_bubble is not None
    assert row.overhead_s is not None
    wait_s = row.simulated_s * row.simulated_bubble
    return abs(row.measured_s - row.simulated_s) <= float(SHARE) * wait_s + row.overhead_s


def _cells(row: BubbleRow) -> tuple[str, ...]:
    assert row.simulated_s is not None
    assert row.measured_s is not None
    assert row.lowest_s is not None
    assert row.highest_s is not None
    assert row.allowed_s is not None
    name, simulated, bubble = simulated_cells(row)
    return (
        name,
        simulated,
        _ms(row.measured_s),
        f"{_ms(row.lowest_s)} to {_ms(row.highest_s)}",
        bubble,
        f"{row.measured_bubble:.3f}",
        _ms(row.measured_s - row.simulated_s),
        _ms(row.overhead_s),
        _ms(row.allowed_s),
    )


def _ms(seconds: Any) -> str:
    return f"{1e3 * seconds:.1f} ms"


if __name__ == "__main__":
    with undisturbed():
        PAGE.write_text(page({stages: bubbles(options(stages)) for stages in STAGES}), encoding="utf-8")
