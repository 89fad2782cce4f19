"""The golden rows go in; `docs/golden.md` is written, and every answer printed with its distance from the expected one.

`python -m tests.golden.report`. Exit code 1 when an answer is not the expected one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tests.golden.registry import answer, answered, routes
from tests.golden.rows import CHAPTERS, UNITS, Fact, agrees, facts, relative_distance, titles
from tests.golden.waiting import built, waiting

PAGE: Final = Path(__file__).parents[2] / "docs" / "golden.md"
COMMAND: Final = ".venv/bin/python -m tests.golden.report"


def main() -> int:
    """Print, write, and say whether every answer agrees."""
    lines = [_line(fact) for fact in answered()]
    print("\n".join(lines))
    _write(PAGE, page())
    failed = sum(line.startswith("NO") for line in lines)
    print(f"{len(lines)} answered, {failed} of them not as expected; wrote docs/{PAGE.name}")
    return 1 if failed else 0


def page() -> str:
    """The text of `docs/golden.md`."""
    blocks = [_opening(), *(_chapter(chapter) for chapter in CHAPTERS), _waiting_rows(), _commands()]
    return "\n\n".join(blocks) + "\n"


def _opening() -> str:
    total, done, later = len(facts()), len(routes()), len(waiting())
    return f"""# Golden values

The chapters "Supernodes" and "Training systems" print numbers that can be recomputed: {total} rows, kept in
`tests/golden/data`. A row is answered when an adapter in `tests/golden/adapters` hands its inputs to a public function
and selects a field of the answer: the number a user gets from the command. Adapters hold no arithmetic.

This page is written by

    {COMMAND}

(`make golden` installs what it needs and runs it), which also prints every answer and its distance from the expected
value. A test fails when the page is not what the command would write.

- *answered*: {done} rows. The product gives the expected number, within half a unit of its last printed digit, or
  exactly where it is exact; of a wrong number that a row warns of, it gives another one.
- *waiting*: {later} rows of capabilities that are built. They need a mechanism that is not; listed below.
- *not built*: {total - done - later} rows. Their capability is not built yet, so nothing answers them."""


def _chapter(chapter: str) -> str:
    """One table: what of each capability's rows is answered."""
    own = [fact for fact in facts() if fact.chapter == chapter]
    rows = Counter(fact.capability for fact in own)
    done = Counter(fact.capability for fact in own if fact.id in routes())
    later = Counter(fact.capability for fact in own if fact.id in waiting())
    lines = ["| capability | | rows | answered | waiting | not built |", "|---|---|--:|--:|--:|--:|"]
    for name, title in titles().items():
        if rows[name]:
            missing = 0 if name in built() else rows[name]
            counts = (rows[name], done[name], later[name], missing)
            lines.append(f"| {name} | {title} | {' | '.join(str(count or '') for count in counts)} |")
    total = (len(own), done.total(), later.total(), len(own) - done.total() - later.total())
    lines.append(f"| | **all** | {' | '.join(f'**{count}**' for count in total)} |")
    return f"## {chapter}\n\n" + "\n".join(lines)


def _waiting_rows() -> str:
    known = {fact.id: fact for fact in facts()}
    lines = ["| row | capability | question | mechanism it waits for |", "|---|---|---|---|"]
    for name, mechanism in waiting().items():
        lines.append(f"| {name} | {known[name].capability} | {known[name].question} | {mechanism} |")
    return "## Waiting rows\n\n" + "\n".join(lines)


def _commands() -> str:
    """How a user asks for the answered numbers."""
    counts = Counter(route.command for route in routes().values())
    lines = ["| command | rows |", "|---|--:|"]
    lines += [f"| `meshwright {command}` | {count} |" for command, count in sorted(counts.items())]
    return "## What answers them\n\n" + "\n".join(lines)


def _line(fact: Fact) -> str:
    """One answered row: verdict, id, what is expected, what the product says, and the distance over the tolerance."""
    found, wanted = answer(fact), fact.value
    warned = fact.status == "negative"
    right = agrees(found, wanted, fact.rel_tol) != warned
    expected = f"{'not ' if warned else ''}{fact.expected} {fact.unit}".strip()
    distance = relative_distance(found, wanted)
    far = "" if distance is None else f"off by {float(distance):.1e}, allowed {float(fact.rel_tol):.1e}"
    return f"{'ok' if right else 'NO'}  {fact.id}  {expected:<20} {_shown(fact, found):<20} {far:<34} {fact.question}"


def _shown(fact: Fact, found: object) -> str:
    if isinstance(found, (int, float)):
        return f"{found / float(UNITS[fact.unit][1]):.6g}"
    return f"tp={found['tp']}" if isinstance(found, dict) else str(found)


def _write(path: Path, text: str) -> None:
    """To a temporary name, then renamed, so that a reader never sees half a page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
    Path(name).chmod(0o644)
    Path(name).replace(path)


if __name__ == "__main__":
    sys.exit(main())
