"""The engines' files go in; the tables of docs/engines.md come out, each between its two markers.

`python -m tests.ui.engine_page` writes the page anew; `python -m tests.ui.quoted docs/engines.md` its quoted outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meshwright.scenarios.catalog import catalog
from tests.ui.program import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE = ROOT / "docs" / "engines.md"


def generated() -> str:
    """The page with the tables that the files give today."""
    page = PAGE.read_text(encoding="utf-8")
    items = catalog("engines").body["items"]
    for name, lines in {"engines": _engines(items), "axes": _axes(items), "rules": _rules(items)}.items():
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        after = rest.partition(f"<!-- end of {name} -->")[2]
        page = before + f"<!-- {name} -->\n\n" + "\n".join(lines) + f"\n\n<!-- end of {name} -->" + after
    return page


def _engines(items: list[Mapping[str, Any]]) -> Iterator[str]:
    yield "| `--engine` | versions | for | rules | bytes for KV | block | note |"
    yield "|---|---|---|---|---|---|---|"
    for item in items:
        pool = "" if item["pool"] is None else f"`{item['pool']}` at {item['gpu_memory_utilization']:g}"
        cells = (f"`{item['id']}`", f"{item['name']} {item['versions']}", ", ".join(item["jobs"]), len(item["rules"]))
        yield _row(*cells, pool, "" if item["block_size"] is None else item["block_size"], item["note"])


def _axes(items: list[Mapping[str, Any]]) -> Iterator[str]:
    fields = list(dict.fromkeys(axis for item in items for axis in item["axes"]))
    yield _row("field", *(item["name"] for item in items))
    yield "|" + "---|" * (len(items) + 1)
    for name in fields:
        yield _row(f"`{name}`", *(_axis(item, name) for item in items))


def _axis(item: Mapping[str, Any], name: str) -> str:
    """How an engine has a field: its flag, and of a choice our words that it knows."""
    if name not in item["axes"]:
        return "no"
    flag = item["axes"][name]
    words = ", ".join(item["choices"].get(name, ()))
    return f"`{flag}`" * bool(flag) + (" " if flag and words else "") + f"({words})" * bool(words) or "follows"


def _rules(items: list[Mapping[str, Any]]) -> Iterator[str]:
    yield "| engine | code | keeps | says (`…` where it is its own wording) | source |"
    yield "|---|---|---|---|---|"
    for item in items:
        for rule in item["rules"]:
            said = f"`{rule['message']}`" if rule["wording"] == "literal" else rule["message"]
            note = f" ({rule['note']})" if rule["note"] else ""
            yield _row(item["name"], rule["code"], f"`{rule['requires']}`{note}", said, rule["source"])


def _row(*cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(generated(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
