"""Cases about collectives go in; what the command line says to each of their checks, and a page of them, come out.

`python -m tests.measured.collective_cases` writes `docs/collective-cases.md`.
"""

from __future__ import annotations

import shlex
import tempfile
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.golden.paths import select
from tests.measured import nccl_text
from tests.measured.ask import table
from tests.ui.program import answer_of

CASES: Final = "collective-cases"
PAGE: Final = Path(__file__).parents[2] / "docs" / "collective-cases.md"
COMMAND: Final = ".venv/bin/python -m tests.measured.collective_cases"
FILE: Final = "FILE"
_STATUS: Final = {"held": "held", "in_part": "in part", "waiting": "waiting"}
_NOTES: Final = {"assumed": "assumed", "not_held": "not held", "reason": "not asked"}


def checks() -> list[tuple[str, int, Mapping[str, Any]]]:
    """Every check with its case and number."""
    return [(name, at, check) for name, case in table(CASES).items() for at, check in enumerate(case.get("checks", ()))]


def asked(name: str, check: Mapping[str, Any]) -> Any:
    """The field of the answer to a check of a case."""
    return select(_answer(name, check["command"], check.get("code", 0)), check["path"])


@cache
def _answer(name: str, command: str, code: int) -> Any:
    """The JSON answer of `meshwright COMMAND`, which must end with that exit code."""
    log = table(CASES)[name]["log"]
    rates = [(int(size), float(rate)) for size, rate in log["rates"]]
    machine = {key: log[key] for key in ("hosts", "ranks_per_host", "device")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.txt"
        file.write_text(nccl_text.text(rates, operation="all_reduce", **machine), encoding="utf-8")
        return answer_of(*(str(file) if word == FILE else word for word in shlex.split(command)), code=code)


def page() -> str:
    """The text of `docs/collective-cases.md`."""
    counts = Counter(case["status"] for case in table(CASES).values())
    counted = ", ".join(f"{counts[status]} {word}" for status, word in _STATUS.items())
    opening = f"""# Questions about collectives, and what is answered

Questions that practitioners asked in public threads, with what turned out to be true there. Each is typed as a command
on the file that nccl-tests would have printed for the rates that the thread states; a field of its answer must be what
the thread says, within the tolerance. {counted}.

What a question needs and a thread does not say is listed as *assumed*. The facts are kept in
`tests/measured/data/collective-cases.toml`. This page is written by

    {COMMAND}

and a test fails when it is not what the command would write."""
    return "\n\n".join([opening, *(_case(name, case) for name, case in table(CASES).items())]) + "\n"


def _case(name: str, case: Mapping[str, Any]) -> str:
    lines = [f"## {name}: {_STATUS[case['status']]}", "", case["question"], "", f"- source: {case['source']}"]
    lines.append(f"- stated there: {case['stated']}")
    lines += [f"- {word}: {case[key]}" for key, word in _NOTES.items() if key in case]
    if "checks" in case:
        rates = ", ".join(f"{rate:g} GB/s at {size} B" for size, rate in case["log"]["rates"])
        lines += [f"- file: {case['log']['hosts']} x {case['log']['ranks_per_host']} ranks, {rates}", ""]
        lines += ["| what | answered | stated | command, field |", "|---|--:|--:|---|"]
        lines += [_row(name, check) for check in case["checks"]]
    return "\n".join(lines)


def _row(name: str, check: Mapping[str, Any]) -> str:
    command = f"`meshwright {check['command']}`, `{check['path']}`"
    return f"| {check['value']} | {_shown(asked(name, check))} | {_stated(check)} | {command} |"


def _stated(check: Mapping[str, Any]) -> str:
    if "expected" not in check:
        return f"{_shown(check['above'])} to {_shown(check['below'])}"
    return _shown(check["expected"]) + (f" ± {check['rel_tol']:.1%}" if "rel_tol" in check else "")


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value.replace("_", " ")
    return f"{value / 1e9:.1f} GB/s" if value > 1e6 else f"{value:.3f}"


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
