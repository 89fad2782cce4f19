"""The cases about training go in; `docs/training-cases.md` is written.

`python -m tests.measured.training_report`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.measured.ask import GIB, table
from tests.measured.training_cases import CASES, asked, stated

PAGE: Final = Path(__file__).parents[2] / "docs" / "training-cases.md"
COMMAND: Final = ".venv/bin/python -m tests.measured.training_report"
_STATUS: Final = {"held": "held", "in_part": "in part", "waiting": "waiting"}
_KINDS: Final = {"a": "Memory of training", "c": "Speed"}


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(_counted())
    return 0


def page() -> str:
    """The text of `docs/training-cases.md`."""
    sections = [_section(kind, title) for kind, title in _KINDS.items()]
    return "\n\n".join([_opening(), *sections]) + "\n"


def _counted() -> str:
    counts = Counter(case["status"] for case in table(CASES).values())
    return ", ".join(f"{counts[status]} {word}" for status, word in _STATUS.items())


def _opening() -> str:
    return f"""# Questions about training, and what is answered

Questions that practitioners asked in public threads, with what turned out to be true there. Each is typed as a command;
a field of its answer must be what the thread states, within the tolerance. {_counted()}.

- *held*: every value that the thread gives to check.
- *in part*: one value is not; which, and why, stands beside the case.
- *waiting*: nothing is asked yet.

What a question needs and a thread does not say is listed as *assumed*. The facts are kept in
`tests/measured/data/training-cases.toml`. This page is written by

    {COMMAND}

and a test fails when it is not what the command would write."""


def _section(kind: str, title: str) -> str:
    cases = [_case(name, case) for name, case in table(CASES).items() if name.startswith(kind)]
    return "\n\n".join([f"## {title}", *cases])


def _case(name: str, case: Mapping[str, Any]) -> str:
    lines = [f"### {name}: {_STATUS[case['status']]}", "", case["question"], "", f"- source: {case['source']}"]
    lines.append(f"- stated there: {case['stated']}")
    lines += [f"- {word}: {case[key]}" for key, word in _NOTES.items() if key in case]
    if "checks" in case:
        lines += ["", "| what | answered | stated | command, field |", "|---|--:|--:|---|", *map(_row, case["checks"])]
    return "\n".join(lines)


_NOTES: Final = {"assumed": "assumed", "not_held": "not held", "reason": "not asked"}


def _row(check: Mapping[str, Any]) -> str:
    commands = [f"`meshwright {check['command']}`", f"`{check['path']}`"]
    commands += [f"{word} that of `meshwright {check[word]}`" for word in ("minus", "over") if word in check]
    commands += [f"over `{check['over_path']}`"] if "over_path" in check else []
    return f"| {check['value']} | {_shown(asked(check), check)} | {_stated(check)} | {', '.join(commands)} |"


def _stated(check: Mapping[str, Any]) -> str:
    if stated(check) is None:
        return f"above {_number(check['above'])}" if "above" in check else f"below {_number(check['below'])}"
    within = f" ± {check['rel_tol']:.1%}" if "rel_tol" in check else ""
    within += f" ± {check['abs_tol']:g}" if "abs_tol" in check else ""
    return _shown(stated(check), check) + within


def _shown(value: Any, check: Mapping[str, Any]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value.replace("_", " ")
    return f"{value / GIB:.3f} GiB" if "expected_gib" in check else _number(value)


def _number(value: float) -> str:
    for size, prefix in ((1e12, "T"), (1e9, "G")):
        if value >= size:
            return f"{value / size:.2f} {prefix}"
    return f"{value:.4g}"


if __name__ == "__main__":
    raise SystemExit(main())
