"""`python -m benchmarks`: speed, as ratios within one run, goes out to docs/benchmarks.md; exit 1 beyond a budget."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks import engine, run, training
from benchmarks.layouts import ROWS, Rate, measure
from benchmarks.processes import in_turns, ratio

_ROOT = Path(__file__).resolve().parents[1]
_PAGE = _ROOT / "docs" / "benchmarks.md"
_RUNS = 11
_MODELS = ("Qwen/Qwen3-32B", "Qwen/Qwen3-235B-A22B")
_PLAN = (
    *("plan", "serve", "Qwen/Qwen3-32B", "--on", "hgx-h100", "--sessions", "4", "--context", "131064"),
    *("--new-tokens", "8", "--deadline", "130ms", "--on-time", "75%", "--all-reduce", "ring"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One command line of ours, what it is held against, and the seconds it may take."""

    arguments: tuple[str, ...]
    against: tuple[str, ...]
    budget_s: float


_QUESTIONS = (
    Question(arguments=("--help",), against=("pass", "import click"), budget_s=0.150),
    Question(arguments=_PLAN, against=("pass", "import numpy, pydantic, rich, click"), budget_s=1.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Medians of one question. others: (python code, its seconds, our ratio to it)."""

    question: Question
    wall_s: float
    cpu_s: float
    others: tuple[tuple[str, float, float], ...]

    @property
    def exceeded(self) -> bool:
        """Whether the budget is exceeded, and not because the process had to wait for a core."""
        return min(self.wall_s, self.cpu_s) > self.question.budget_s


def main() -> int:
    """Measure, write the page, and say what is beyond its budget."""
    timings = [_timed(question) for question in _QUESTIONS]
    rates = [measure(name, "hgx-h100 x16", _RUNS) for name in _MODELS]
    speed = engine.measure(_RUNS)
    searches = [training.measure(case, 3) for case in training.CASES]
    pair = run.measure(_RUNS)
    pages = (_page(timings, rates), engine.page(speed), training.page(searches), run.page(pair))
    text = "\n\n".join("\n".join(page) for page in pages) + "\n"
    part = _PAGE.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(_PAGE)
    print(text)
    slow = [
        *(item.exceeded for item in timings),
        bool(speed.exceeded),
        *(item.exceeded for item in searches),
        pair.exceeded,
    ]
    return int(any(slow))


def _timed(question: Question) -> Timing:
    commands = {code: (sys.executable, "-c", code) for code in question.against}
    found = in_turns({"": (*_program(), *question.arguments), **commands}, _RUNS)
    ours = found.pop("")
    others = tuple((code, median(run.wall_s for run in runs), ratio(ours, runs)) for code, runs in found.items())
    return Timing(
        question=question,
        wall_s=median(run.wall_s for run in ours),
        cpu_s=median(run.cpu_s for run in ours),
        others=others,
    )


def _program() -> tuple[str, ...]:
    """The installed command of this interpreter, or the module where it is not installed."""
    script = Path(sysconfig.get_path("scripts")) / "meshwright"
    return (str(script),) if script.exists() else (sys.executable, "-m", "meshwright")


def _page(timings: list[Timing], rates: list[Rate]) -> list[str]:
    lines = [
        "# Benchmarks",
        "",
        f"Written by `make bench` (`python -m benchmarks`) on {datetime.now(UTC):%Y-%m-%d} at {_commit()}, on",
        f"{_machine()}.",
        "",
        f"Seconds are medians of {_RUNS} whole processes. A ratio is the median over rounds in which both ran side",
        "by side; it is what compares between machines. `make bench` exits 1 when a budget is exceeded, in wall and in",
        "CPU time: waiting for a core that others hold is nobody's fault.",
        "",
        "| command | wall | CPU | budget | against | its wall | ratio |",
        "|---|---:|---:|---:|---|---:|---:|",
    ]
    for timing in timings:
        name = " ".join(("meshwright", *timing.question.arguments[:3]))
        budget = f"{timing.question.budget_s:.3f} s{' **exceeded**' if timing.exceeded else ''}"
        own = f"`{name}` | {timing.wall_s:.3f} s | {timing.cpu_s:.3f} s | {budget}"
        for code, seconds, times in timing.others:
            lines.append(f"| {own} | `python -c '{code}'` | {seconds:.3f} s | {times:.2f} |")
    lines += [
        "",
        f"The plan is `meshwright {' '.join(_PLAN)}`.",
        "",
        f"One core evaluates a table of {ROWS:,} layouts (`estimate_step` and `serving_ledger`, in one process);",
        "a pass is `a * b + c` over float64 columns of the same length, taken in turns with them.",
        "",
        "| model | layouts a second | step | ledger | numpy passes |",
        "|---|---:|---:|---:|---:|",
    ]
    for rate in rates:
        parts = f"{rate.step_s * 1e3:.1f} ms | {rate.ledger_s * 1e3:.1f} ms"
        lines.append(f"| {rate.model} | {rate.per_s:,.0f} | {parts} | {rate.passes:,.0f} |")
    return lines


def _machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    busy = f", {os.getloadavg()[0]:.1f} processes busy" if hasattr(os, "getloadavg") else ""
    return f"{cores} cores of {platform.machine()}{busy}, {platform.system()}, Python {platform.python_version()}"


def _commit() -> str:
    try:
        head = _git("rev-parse", "--short", "HEAD")
        return f"commit {head}{' with changes' if _git('status', '--porcelain', '--', 'src') else ''}"
    except (OSError, subprocess.CalledProcessError):
        return "a tree without commits"


def _git(*arguments: str) -> str:
    done = subprocess.run(("git", *arguments), cwd=_ROOT, capture_output=True, text=True, check=True)  # noqa: S603, S607
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
