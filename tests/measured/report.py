"""The rows of engines' start-up logs and the cases go in; `docs/kv-truth.md` is written.

`python -m tests.measured.report`. Exit code 1 when a row disagrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.measured.ask import TOLERANCE, Answer, answer, checked, family_of, rows, table

PAGE: Final = Path(__file__).parents[2] / "docs" / "kv-truth.md"
COMMAND: Final = ".venv/bin/python -m tests.measured.report"
_ORDER: Final = ("agrees", "circular agrees", "rule changed", "later architecture", "not answerable", "DISAGREES")


def main() -> int:
    """Write the page, and say whether any row disagrees."""
    PAGE.write_text(page(), encoding="utf-8")
    found = Counter(answer(row).verdict for row in rows())
    print(", ".join(f"{found[verdict]} {verdict}" for verdict in _ORDER if found[verdict]))
    return 1 if found["DISAGREES"] else 0


def page() -> str:
    """The text of `docs/kv-truth.md`."""
    return f"{_opening()}\n\n{_rows_table()}\n\n{_cases_table()}\n"


def _opening() -> str:
    counts = Counter(answer(row).verdict for row in rows())
    told = "\n".join(f"- *{verdict}*: {counts[verdict]}. {_MEANS[verdict]}" for verdict in _ORDER if counts[verdict])
    return f"""# KV cache against engines' own logs

A serving engine logs, when it starts, how much memory it found for KV and how many tokens fit there. Their ratio is the
bytes that one token takes on one GPU: `memory.kv_bytes_per_token` of `meshwright fit`. {len(rows())} logs, kept with
their sources in `tests/measured/data`; the product must be within {TOLERANCE:.1%} of each row that it is asked.

This page is written by

    {COMMAND}

A test fails when the page is not what the command would write, and when a row is outside the tolerance.

{told}

One log (kv-090) states every part of its budget: there `fit --engine vllm` also gives the available KV, the blocks, the
tokens and the concurrency within {TOLERANCE:.1%}."""


_MEANS: Final = {
    "agrees": "The model is named by the source.",
    "circular agrees": "The model was named by matching its KV geometry: it must agree, and proves nothing.",
    "rule changed": "The engine's way to count tokens of such layers changed between versions, so no ratio is memory.",
    "later architecture": "The architecture is not read here.",
    "not answerable": "The source does not state what is needed, states something else, or needs what is not built.",
    "DISAGREES": "Outside the tolerance.",
}


def _rows_table() -> str:
    lines = [
        "| row | engine | model | tp | predicted | stated | error | verdict |",
        "|---|---|---|--:|--:|--:|--:|---|",
    ]
    for row in rows():
        found = answer(row)
        engine = f"{row['engine']} {row['engine_version']}"
        cells = (row["id"], engine, row["model"], row["tp"], *_numbers(found), _verdict(found))
        lines.append(f"| {' | '.join(cells)} |")
    return "## Rows\n\nBytes of a token on each GPU.\n\n" + "\n".join(lines)


def _numbers(found: Answer) -> tuple[str, str, str]:
    predicted = "" if found.predicted is None else f"{found.predicted:,}"
    stated = "" if found.stated is None else f"{found.stated:,.0f}"
    return predicted, stated, "" if found.error is None else f"{found.error:+.2%}"


def _verdict(found: Answer) -> str:
    return f"{found.verdict}: {found.reason}" if found.reason else found.verdict


def _cases_table() -> str:
    lines = ["| case | source | question | answer |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {case['source']} | {case['question']} | {_told(case)} |" for name, case in table("cases").items()
    ]
    opening = "Questions of practitioners about fitting and degrees; an answer is a field of `fit`, checked by a test."
    return f"## Cases\n\n{opening}\n\n" + "\n".join(lines)


def _told(case: Mapping[str, Any]) -> str:
    told = [f"no number: {case['reason']}"] if "reason" in case else []
    for check in case.get("checks", ()):
        missing = family_of(check["model"])
        told.append(f"family not here yet: {missing}" if missing else _shown(check))
    return "; ".join(dict.fromkeys(told))


def _shown(check: Mapping[str, Any]) -> str:
    if "says" in check:
        return f"says: {check['says']}"
    found, _ = checked(check)
    if "engine" in check:
        eps = check.get("ep", {})
        told = ", ".join(f"tp={tp}{f' ep={eps[tp]}' if tp in eps else ''} {code}" for tp, code in found.items())
        return f"{check['model']} on {check['engine']}: {told}"
    if "degrees" in check:
        rule = f" by {check['not_refused_by']}" if "not_refused_by" in check else ""
        return f"{check['model']}: tp {', '.join(map(str, found))}{rule}"
    if "code" in check:
        return f"{check['model']}: tp={check['tp']} breaks {found}"
    return f"`{check['path']}` {found:,}" if isinstance(found, int) else f"`{check['path']}` {found}"


if __name__ == "__main__":
    raise SystemExit(main())
