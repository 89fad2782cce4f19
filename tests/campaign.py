"""`python -m tests.campaign [PART ...]`: long randomised tests run, part by part; docs/campaign.md says what was tried.

Every run draws new cases. A part that is run alone renews its own row of the page and leaves the others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from xml.etree import ElementTree as ET

_ROOT = Path(__file__).resolve().parents[1]
_PAGE = _ROOT / "docs" / "campaign.md"
_EXAMPLES = re.compile(r"^ +- (\d+) passing\b.*\bfailing\b", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part. marks: which tests of the folder: those of the campaign, or all of them, with new examples.

    without: a file of the folder that is a part of its own.
    """

    folder: str
    marks: str
    what: str
    without: str | None = None


PARTS = {
    "laws": Part(
        folder="tests/laws", marks="not campaign", what="every law of the suite, over examples it has not seen"
    ),
    "units": Part(
        folder="tests/unit", marks="not campaign", what="every property of the unit tests, over examples of its own"
    ),
    "flips": Part(
        folder="tests/laws/test_no_other_flip.py",
        marks="campaign",
        what="every flip replayed, and 200 values of each parameter planned anew",
    ),
    "schedules": Part(
        folder="tests/laws/test_schedule_grid.py",
        marks="campaign",
        what="every schedule of every shape to 8 stages, unequal times: laws, torch's orders, simpy's times and peaks",
    ),
    "training": Part(
        folder="tests/laws/test_training_search.py",
        marks="campaign",
        what="small spaces of training layouts: the search, and every layout in a table of its own",
    ),
    "training-flips": Part(
        folder="tests/laws/test_training_flips.py", marks="campaign", what="every flip of a training plan replayed"
    ),
    "training-inputs": Part(
        folder="tests/laws/test_explain_training.py",
        marks="campaign",
        what="every input of a training plan changed in its expressions, and planned anew",
    ),
    "explained": Part(
        folder="tests/laws/test_explain.py",
        marks="campaign",
        what="random numbers of random results, each evaluated from its expression",
    ),
    "parity": Part(
        folder="tests/runtime/test_parity.py",
        marks="campaign",
        what="layouts of up to 8 real ranks beside one process in float64: every pair of values of the grid, twice",
    ),
    "bubbles": Part(
        folder="tests/runtime/test_bubbles.py",
        marks="campaign",
        what="every schedule with stages that sleep, on real processes, held to the engine within the stated bound",
    ),
    "local": Part(
        folder="tests/runtime/test_calibrate_local.py",
        marks="campaign",
        what="this machine measured, and real steps of four processes inside the intervals that follow",
    ),
    "tape": Part(
        folder="tests/runtime/test_verify_run.py",
        marks="campaign",
        what="real runs of the whole grid beside their plans: bytes, FLOPs and state exact, peaks within their bounds",
    ),
    "oracle": Part(
        folder="tests/oracle",
        marks="campaign",
        what="random configs, counted here and by transformers",
        without="tests/oracle/test_saved_activations.py",
    ),
    "activations": Part(
        folder="tests/oracle/test_saved_activations.py",
        marks="campaign",
        what="random models in training: bytes kept here and by autograd, each difference named",
    ),
    "configs": Part(folder="tests/ui/fuzz/test_fuzz_configs.py", marks="campaign", what="damaged config.json files"),
    "lines": Part(folder="tests/ui/fuzz/test_fuzz_lines.py", marks="campaign", what="mistyped command lines"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one part did. cases: examples of hypothesis, and what tests recorded as `cases`.

    figures: the other numbers that tests recorded, added up by name.
    """

    tests: int
    failed: int
    cases: int
    figures: Mapping[str, int]
    seconds: float


def main() -> int:
    """Run the parts named, or all of them; 0 when every test passed."""
    named = sys.argv[1:] or list(PARTS)
    unknown = [name for name in named if name not in PARTS]
    if unknown:
        print(f"no part {unknown[0]!r}; known: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    rows = _rows_of_page()
    failed = 0
    for name in named:
        outcome = run(PARTS[name])
        failed += outcome.failed
        rows[name] = _row(name, outcome)
        print(rows[name])
        _write(rows)
    return int(failed > 0)


def run(part: Part) -> Outcome:
    """Run one part in a pytest of its own, its output passed on as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        line = [sys.executable, "-m", "pytest", part.folder, "-q", "-m", part.marks, "-n", str(os.cpu_count() or 1)]
        line += ["--hypothesis-profile=campaign", "--hypothesis-show-statistics", f"--junitxml={report}"]
        if part.without is not None:
            line.append(f"--ignore={part.without}")
        start = perf_counter()
        done = subprocess.run(line, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=False)
        seconds = perf_counter() - start
        print(_without_statistics(done.stdout))
        if not report.exists():
            return Outcome(tests=0, failed=1, cases=0, figures={}, seconds=seconds)
        tests = ET.parse(report).getroot().iter("testcase")  # noqa: S314 - pytest's own report
        found = list(tests)
    figures: Counter[str] = Counter()
    for item in (item for test in found for item in test.iter("property")):
        figures[item.get("name", "")] += int(item.get("value", "0"))
    return Outcome(
        tests=len(found),
        failed=max(
            sum(test.find("failure") is not None or test.find("error") is not None for test in found), done.returncode
        ),
        cases=figures.pop("cases", 0) + sum(map(int, _EXAMPLES.findall(done.stdout))),
        figures=figures,
        seconds=seconds,
    )


def _without_statistics(output: str) -> str:
    """pytest's own lines; the statistics were for counting."""
    return re.sub(
        r"^=+ Hypothesis Statistics =+$.*?(?=^=+ |^\d+ (?:passed|failed))", "", output, flags=re.MULTILINE | re.DOTALL
    )


def _row(name: str, outcome: Outcome) -> str:
    end = "passed" if not outcome.failed else f"**{outcome.failed} failed**"
    figures = f"{outcome.cases:,} | {outcome.tests} | {outcome.seconds:,.0f} | {end}"
    added = ", ".join(f"{number:,} {unit}" for unit, number in outcome.figures.items())
    what = f"{PARTS[name].what}{': ' * bool(added)}{added}"
    return f"| {name} | {what} | {figures} | {datetime.now(UTC):%Y-%m-%d} | {_commit()} |"


def _rows_of_page() -> dict[str, str]:
    """The rows of earlier runs, by part."""
    text = _PAGE.read_text(encoding="utf-8") if _PAGE.exists() else ""
    found = {name: re.search(rf"^\| {name} \|.*$", text, re.MULTILINE) for name in PARTS}
    return {name: match.group() for name, match in found.items() if match is not None}


def _write(rows: dict[str, str]) -> None:
    lines = [
        "# Campaigns",
        "",
        "Long randomised tests, run by `make campaign` and part by part by `python -m tests.campaign PART`. Each run",
        "draws new cases; a case that failed is shown with what repeats it. The gate (`make test`) runs the same",
        "properties over fewer cases, which are always the same.",
        "",
        "| part | what | cases | tests | seconds | end | date | commit |",
        "|---|---|---:|---:|---:|---|---|---|",
        *(rows[name] for name in PARTS if name in rows),
    ]
    part = _PAGE.with_suffix(".part")
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    part.replace(_PAGE)


def _commit() -> str:
    try:
        head = _git("rev-parse", "--short", "HEAD")
        return f"{head}, changed" if _git("status", "--porcelain", "--", "src", "tests") else head
    except (OSError, subprocess.CalledProcessError):
        return "none"


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
