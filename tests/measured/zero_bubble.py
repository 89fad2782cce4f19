"""Measured throughputs of pipeline schedules go in; what `schedule` says of each, from its 1F1B row alone, comes out.

`python -m tests.measured.zero_bubble` writes `docs/zero-bubble.md`.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, Final

from meshwright.scenarios.schedule import ScheduleOptions, schedule
from tests.measured.ask import table
from tests.measured.schedule_cases import asked

PAGE: Final = Path(__file__).parents[2] / "docs" / "zero-bubble.md"
COMMAND: Final = ".venv/bin/python -m tests.measured.zero_bubble"
DATA: Final = Path(__file__).parent / "data" / "zero-bubble.csv"
SCHEDULE_OF: Final = {
    "1F1B": "one_f_one_b",
    "interleaved 1F1B": "interleaved",
    "ZB-1p": "zero_bubble_h1",
    "ZB-2p": "zero_bubble_h2",
    "ZB-2p*": "zero_bubble_h2",
    "ZB-V": "zero_bubble_v",
}
FITTED: Final = "1F1B"
HALVED: Final = "ZB-2p*"
"""Runs micro-batches of half the size, twice as many."""
_TIE: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One measured row beside its prediction; gains are throughput over that of 1F1B, less 1.

    measured: samples a second of a GPU as printed.   half_digit: what rounding may have changed of it.   gain: of steps
    in a row.   gain_alone: of one step between barriers.   step_s: of steps in a row, predicted.
    """

    row: Mapping[str, str]
    measured: float
    measured_gain: float
    half_digit: float
    gain: float
    gain_alone: float
    step_s: float

    @property
    def error(self) -> float:
        """Predicted less measured gain."""
        return self.gain - self.measured_gain

    @property
    def error_alone(self) -> float:
        """The same of one step between barriers."""
        return self.gain_alone - self.measured_gain


@cache
def rows() -> tuple[dict[str, str], ...]:
    """Every measured throughput."""
    with DATA.open(encoding="utf-8", newline="") as lines:
        return tuple(csv.DictReader(lines))


def step_times(name: str, options: ScheduleOptions) -> tuple[float, float]:
    """Seconds of a step among steps in a row without a barrier, and of one alone, as `schedule` says them."""
    (row,) = schedule(replace(options, schedule=name)).body["schedules"]
    return row.step_without_barrier_s, row.total_s


@cache
def findings() -> tuple[Found, ...]:
    """Every row, 1F1B included, by configuration."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows():
        samples = str(int(row["micro_batches"]) * int(row["micro_batch_size"]))
        groups.setdefault((row["table"], row["model"], row["stages"], samples), []).append(row)
    return tuple(found for group in groups.values() for found in _of_configuration(group))


def _of_configuration(group: list[dict[str, str]]) -> list[Found]:
    base = next(row for row in group if row["schedule"] == FITTED)
    forward_us = _fitted_us(base)
    base_steps = step_times(SCHEDULE_OF[FITTED], _options(base, f"{forward_us}us", f"{2 * forward_us}us"))
    found: list[Found] = []
    for row in sorted(group, key=lambda row: list(SCHEDULE_OF).index(row["schedule"])):
        of_row = forward_us / 2 if row["schedule"] == HALVED else float(forward_us)
        steps = step_times(SCHEDULE_OF[row["schedule"]], _options(row, f"{of_row}us", f"{2 * of_row}us"))
        found.append(
            Found(
                row=row,
                measured=float(row["samples_per_gpu_s"]),
                measured_gain=float(row["samples_per_gpu_s"]) / float(base["samples_per_gpu_s"]) - 1,
                half_digit=float(row["last_digit"]) / 2,
                gain=base_steps[0] / steps[0] - 1,
                gain_alone=base_steps[1] / steps[1] - 1,
                step_s=steps[0],
            )
        )
    return found


def measured_step_s(row: Mapping[str, str]) -> float:
    """Seconds in which the GPUs of one pipeline take one batch."""
    samples = int(row["micro_batches"]) * int(row["micro_batch_size"])
    return samples / (float(row["samples_per_gpu_s"]) * int(row["stages"]))


def _fitted_us(base: Mapping[str, str]) -> int:
    """Forward of a stage for which 1F1B takes the measured step, in whole microseconds: times scale together."""
    of_unit, _ = step_times(SCHEDULE_OF[FITTED], _options(base, "1s", "2s"))
    return round(measured_step_s(base) / of_unit * 1e6)


def _options(row: Mapping[str, str], forward: str, backward: str) -> ScheduleOptions:
    return ScheduleOptions(
        stages=int(row["stages"]),
        micro_batches=int(row["micro_batches"]),
        virtual_stages=int(row["virtual_stages"] or 2),
        forward=forward,
        backward=backward,
    )


def configuration(found: Found) -> tuple[str, str, str, int]:
    """Table, model, stages, samples of a step."""
    row = found.row
    return row["table"], row["model"], row["stages"], int(row["micro_batches"]) * int(row["micro_batch_size"])


def pairs() -> list[tuple[Found, Found, str]]:
    """Pairs of one configuration whose printed figures differ whatever was rounded away, the faster first.

    Last: how the prediction orders them: "as measured", "tied" or "reversed".
    """
    told: list[tuple[Found, Found, str]] = []
    for one, other in combinations(findings(), 2):
        fast, slow = (one, other) if one.measured > other.measured else (other, one)
        apart = round((fast.measured - slow.measured) / (fast.half_digit + slow.half_digit), 6)
        if configuration(one) == configuration(other) and apart > 1:
            ahead = fast.gain - slow.gain
            order = "tied" if abs(ahead) < _TIE else "as measured" if ahead > 0 else "reversed"
            told.append((fast, slow, order))
    return told


def predicted() -> list[Found]:
    """All but the rows that were fitted."""
    return [found for found in findings() if found.row["schedule"] != FITTED]


def median_and_worst(errors: Iterable[float]) -> tuple[float, float]:
    """Of their sizes."""
    sizes = [abs(error) for error in errors]
    return median(sizes), max(sizes)


def page() -> str:
    """The text of `docs/zero-bubble.md`."""
    return f"{_opening()}\n\n{_errors()}\n\n{_order()}\n\n{_cases()}\n\n{_table()}\n"


def _opening() -> str:
    return f"""# Pipeline schedules against measured throughput

Qi et al., "Zero Bubble Pipeline Parallelism" (arXiv:2401.10241), tables 3, 4 and 6, print the throughput of five
schedules on A100 GPUs: {len(rows())} figures, kept in `tests/measured/data/zero-bubble.csv`. Of each configuration
(model, stages, samples of a step) the 1F1B row alone is fitted, by one number: the time of a forward. The simulation
behind `meshwright schedule` then says how much faster every other row is.

This page is written by

    {COMMAND}

A test fails when it is not what the command would write. What is assumed, the same for all rows:

- all stages take equal time, and so do all chunks: in the paper the first and last stage hold a layer less, and the
  embedding and the head;
- a forward, an input gradient and a weight gradient take equal time: the figures do not state them;
- messages, the optimizer and the host take no time;
- steps run in a row and no barrier stands between them, as the paper's do (its section 4 removes the synchronization of
  the optimizer): a step is `step_without_barrier_s` of the command. *alone* is the gain of a step between barriers
  instead, which is its `total_s`; both are stated;
- half a micro-batch (ZB-2p*) takes half the time.

ZB-1p is `zero_bubble_h1`, ZB-2p and ZB-2p* are `zero_bubble_h2`, ZB-V is `zero_bubble_v`. ZB-1p and ZB-2p are what the
paper's search finds within the memory of 1F1B and twice that: it may do better than the hand-made order."""


def _errors() -> str:
    lines = [
        "| schedule | rows | median error | worst error | mean signed | median, alone | worst, alone |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in [*dict.fromkeys(found.row["schedule"] for found in predicted()), "all"]:
        mine = [found for found in predicted() if name in ("all", found.row["schedule"])]
        middle, worst = median_and_worst(found.error for found in mine)
        alone, worst_alone = median_and_worst(found.error_alone for found in mine)
        signed = 100 * sum(found.error for found in mine) / len(mine)
        cells = (f"{100 * middle:.1f}", f"{100 * worst:.1f}", f"{signed:+.1f}", f"{100 * alone:.1f}")
        lines.append(f"| {name} | {len(mine)} | {' | '.join(cells)} | {100 * worst_alone:.1f} |")
    opening = "Of the gain over 1F1B, in percentage points: predicted less measured, its size where no sign is shown."
    return f"## Error\n\n{opening}\n\n" + "\n".join(lines)


def _order() -> str:
    told = pairs()
    counts = Counter(order for _, _, order in told)
    lines = [
        "| configuration | measured faster | than | measured gains | predicted gains | predicted |",
        "|---|---|---|--:|--:|---|",
    ]
    for fast, slow, order in told:
        if order != "as measured":
            gains = f"{fast.measured_gain:.1%}, {slow.measured_gain:.1%} | {fast.gain:.1%}, {slow.gain:.1%}"
            cells = (_name(fast), fast.row["schedule"], slow.row["schedule"], gains, order)
            lines.append(f"| {' | '.join(cells)} |")
    opening = f"""Two schedules of one configuration are compared where their printed figures differ whatever was
rounded away; the paper prints no spread of its runs. Of {len(told)} pairs {counts["as measured"]} are predicted in the
measured order, {counts["tied"]} as equal, {counts["reversed"]} the other way:"""
    closing = """Interleaved with three chunks a rank and ZB-1p have one and the same bubble when a forward, an input
gradient and a weight gradient take equal time, and ZB-V and ZB-2p have none: what tells them apart
lies in what is assumed away. That half a micro-batch takes more than half the time would explain
why ZB-2p* is predicted too fast, most where its micro-batch is one sample, and messages would
explain why interleaved is; neither can be told from these figures."""
    return f"## Order\n\n{opening}\n\n" + "\n".join(lines) + f"\n\n{closing}"


def _name(found: Found) -> str:
    where, model, stages, samples = configuration(found)
    return f"{where}: {model}, {stages} stages, {samples} samples"


def _cases() -> str:
    lines = ["| case | source | question | stated | `schedule` says | not asked |", "|---|---|---|---|---|---|"]
    for name, case in table("schedule-cases").items():
        found = (f"{'/'.join(_asked_of(check))} `{check['path']}` {asked(check):.4g}" for check in case["checks"])
        cells = (name, case["source"], case["question"], case["stated"], "; ".join(found), case["not_asked"])
        lines.append(f"| {' | '.join(cells)} |")
    opening = "Questions of practitioners about schedules; a ratio is that of two questions. A test checks each."
    return f"## Cases\n\n{opening}\n\n" + "\n".join(lines)


def _asked_of(check: Mapping[str, Any]) -> list[str]:
    both = [check["ask"], *([check["ask"] | check["over"]] if "over" in check else [])]
    return [_shape(ask) for ask in both]


def _shape(ask: Mapping[str, Any]) -> str:
    chunks = f" v={ask['virtual_stages']}" if ask["schedule"] == "interleaved" else ""
    return f"{ask['schedule']}{chunks}"


def _table() -> str:
    names = "row|configuration|schedule|micro-batches|samples/GPU/s|measured gain|predicted|error|predicted, alone"
    lines = [f"| {names.replace('|', ' | ')} |", "|---|---|---|--:|--:|--:|--:|--:|--:|"]
    for found in findings():
        row = found.row
        fitted = row["schedule"] == FITTED
        gains = (f"{found.measured_gain:+.1%}", f"{found.gain:+.1%}", f"{100 * found.error:+.1f}")
        told = ("fitted", "", "", "") if fitted else (*gains, f"{found.gain_alone:+.1%}")
        cells = (row["id"], _name(found), row["schedule"], row["micro_batches"], row["samples_per_gpu_s"], *told)
        lines.append(f"| {' | '.join(cells)} |")
    return "## Rows\n\n" + "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
