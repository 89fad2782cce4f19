"""`python -m tests.runtime.report [NOTES]` runs the grid and writes docs/verify-run.md; NOTES keeps rows meanwhile."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median

from tests.runtime.grid import REST, SAMPLE, answer

PAGE = Path(__file__).parents[2] / "docs" / "verify-run.md"
HEAD = """# A layout, planned and run

`meshwright verify run` runs a layout on real processes and lays what was measured beside what the planner says. This
page is `python -m tests.runtime.report`: `tiny-qwen3`, 8 samples of 64 positions a step, gloo on one machine.

State, bytes of messages and FLOPs are to be exact; where a run differs from the plan by design, the difference is a
term with a name and a reason, computed from the same tables (`--format json`: `rows[].terms`). The peak is the
planner's simulated memory with those terms. `planned` is the error of that simulation without them.

A peak is what operators made and modules hold: what a kernel takes and gives back inside, gloo's own buffers and an
allocator's rounding are not seen. Bytes that gloo sends in the place of a message are a formula (its reduce_scatter is
an all_reduce), not counted on the wire.

"""

TAIL = """
Not in the grid: experts, context parallelism and offload, which a run does not know; `zero` without dp_shard, which is
refused; split backwards with both bf16 products and sharded state; devices and NCCL. Step time and bubble are told,
not predicted: there are no rates of this machine to predict them from.
"""


def _row(case):
    found = answer(case)
    rows = found.body["rows"]
    peaks = [row for row in rows if row.quantity == "peak"]
    worst = max(peaks, key=lambda row: abs(row.error))
    exact = [row for row in rows if row.within == 0]
    wrong = [f"{row.quantity} {row.name}: {row.predicted:,} for {row.measured:,}" for row in exact if not row.holds]
    named = sorted({term.name for row in exact for term in row.terms if term.reason})
    plan = worst.planned / worst.measured - 1
    line = (
        f"| `{case.layout}` | {case.recipe} | {len(exact) - len(wrong)} of {len(exact)} | {', '.join(named)} "
        f"| {worst.measured:,} | {worst.error:+.2%} | {plan:+.1%} |"
    )
    return line, [abs(row.error) for row in peaks], [f"`{case.id}`: {text}" for text in wrong]


def _ran(case, known):
    """The row of a case, run now or before."""
    if case.id not in known:
        began = time.perf_counter()
        known[case.id] = _row(case)
        _, peaks, misses = known[case.id]
        print(f"{case.id}: {time.perf_counter() - began:.1f} s, peaks {peaks}, {misses}", file=sys.stderr, flush=True)
    return known[case.id]


def main(notes=None):
    """Write the page. notes: a file that keeps rows, so that a run that was stopped goes on."""
    known = json.loads(notes.read_text(encoding="utf-8")) if notes and notes.exists() else {}
    for case in (*SAMPLE, *REST):
        _ran(case, known)
        if notes:
            notes.write_text(json.dumps(known), encoding="utf-8")
    lines, peaks, misses = zip(*(known[case.id] for case in (*SAMPLE, *REST)), strict=True)
    errors, wrong = [error for part in peaks for error in part], [item for part in misses for item in part]
    summary = (
        f"{len(lines)} layouts, {len(errors)} ranks: peak error median {median(errors):.2%}, worst {max(errors):.1%}; "
        f"{len(wrong)} numbers that are to be exact are not.\n\n"
    )
    head = ("layout", "recipe", "exact numbers", "terms in them", "peak bytes", "peak error", "planned")
    table = f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n" + "\n".join(lines)
    told = "".join(f"\n- {item}" for item in wrong) or "\nnone"
    PAGE.write_text(f"{HEAD}{summary}{table}\n\nNot exact, and to be:{told}\n{TAIL}", encoding="utf-8")
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
