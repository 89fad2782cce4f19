"""A `Result` goes in; Markdown (GitHub's) comes out: the verdict, every table whole with its units, the next commands.

Numbers stand exactly in the unit of their header: integers whole, the rest to six significant digits.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from meshwright.base.leaves import cells, records
from meshwright.base.result import Result, plain
from meshwright.output.collective_check_tables import CHECK_COLUMNS
from meshwright.output.collective_tables import (
    ALGORITHM_COLUMNS,
    CROSSING_COLUMNS,
    PORT_COLUMNS,
    crossing_rows,
    flip_lines,
    port_rows,
)
from meshwright.output.columns import (
    BATCH_COLUMNS,
    CURVE_COLUMNS,
    FAULT_COLUMNS,
    FORMULA_COLUMNS,
    INPUT_COLUMNS,
    PARETO_COLUMNS,
    PART_COLUMNS,
    PLAN_COLUMNS,
    WIDE_SCHEDULE_COLUMNS,
    catalog_cells,
    curve_rows,
    faulted,
    fullest,
    memory_parts,
    part_rows,
)
from meshwright.output.experts_tables import (
    CAPACITY_COLUMNS,
    EXCHANGE_COLUMNS,
    LAYER_COLUMNS,
    MERGE_COLUMNS,
    heat_map,
)
from meshwright.output.expressions import WHOLE, formulas, inputs
from meshwright.output.intervals import DRAWN_COLUMNS, INTERVAL_COLUMNS
from meshwright.output.pool_tables import NODE_COLUMNS, PERIOD_COLUMNS, REGION_COLUMNS, TRACE_COLUMNS
from meshwright.output.rack_tables import COUNT_COLUMNS, MEDIUM_COLUMNS
from meshwright.output.runs import PARITY_COLUMNS, STEP_COLUMNS
from meshwright.output.topology_tables import ROUND_COLUMNS, link_columns
from meshwright.output.training_tables import SYSTEM_COLUMNS, TRAINING_COLUMNS, calendar_rows, step_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from meshwright.base.result import Candidate, Json, Source
    from meshwright.output.columns import Column

_ESCAPED: Final = str.maketrans({sign: f"\\{sign}" for sign in "\\*|<"} | {"\n": " ", "\r": " "})


def as_markdown(result: Result) -> str:
    """The whole answer, the verdict its first line."""
    return "\n".join([_line(f"{result.verdict.answer}: {result.verdict.text}"), *_sections(result)]).rstrip()


def _sections(result: Result) -> Iterator[str]:
    yield from _tables(result)
    yield from _lists(result)
    if result.next_commands:
        yield from _titled("Next", ["```console", *(f"$ {command}" for command in result.next_commands), "```"])


def _tables(result: Result) -> Iterator[str]:
    drawn = fullest(result)
    if drawn is not None:
        yield from _memory(drawn)
    if result.command == "plan serve":
        yield from _plan(result)
    if result.command == "plan train":
        yield from _training(result)
    yield from _body(result)
    if result.command in {"rack", "pool"}:
        yield from _value("Where the answer changes", plain(result.flips))
    if result.command == "checkpoint timeline":
        yield from _value("Where another save is recovered", plain(result.flips))


def _memory(candidate: Candidate) -> Iterator[str]:
    """The ledger of the fullest device, its capacity last."""
    memory = candidate.memory
    rows = [(name, memory[key]) for key, name in memory_parts(memory)]
    rows += [("total", memory["per_rank_bytes"]), ("capacity", memory["capacity_bytes"])]
    title = f"Memory of the fullest device ({candidate.id}, stage {memory['fullest_stage']})"
    share = [(name, size, size / memory["capacity_bytes"]) for name, size in rows]
    yield from _titled(title, _table(("part", "bytes", "of capacity"), share))
    if "reserve" in memory:
        yield from _titled("Workspace is the sum of", _table(("item", "value"), memory["reserve"].items()))


def _plan(result: Result) -> Iterator[str]:
    batches = "pareto" in result.body
    yield from _titled("Layouts", _drawn(BATCH_COLUMNS if batches else PLAN_COLUMNS, result.candidates))
    if result.best is not None:
        yield from _value("Exchanges of one step", plain(result.best.measures["groups"]))
    for title, columns, rows in (
        ("Pareto front: tokens a second, per user against per GPU", PARETO_COLUMNS, result.body.get("pareto")),
        ("Under the fault", FAULT_COLUMNS, faulted(result)),
        ("Cost against the deadline", CURVE_COLUMNS, curve_rows(result)),
    ):
        if rows:
            yield from _titled(title, _drawn(columns, rows))
    yield from _value("What would change the step", plain(result.sensitivity))
    yield from _value("Where the choice changes", plain(result.flips))


def _training(result: Result) -> Iterator[str]:
    """Systems, layouts, and where the time of the shown layout goes."""
    shown = result.best or result.candidates[0]
    yield from _titled("Systems", _drawn(SYSTEM_COLUMNS, result.body["systems"]))
    yield from _titled("Layouts", _drawn(TRAINING_COLUMNS, result.candidates))
    for title, rows in ((f"A step of {shown.id}", step_rows(shown)), ("The calendar", calendar_rows(shown))):
        whole = rows[-1][1]
        yield from _titled(title, _table(("part", "s", "share"), [(*row, row[1] / whole) for row in rows]))
    if shown.measures["simulated"] is not None:
        yield from _value(f"The simulated step of {shown.id}", plain(shown.measures["simulated"]))
        yield from _value("Alive at its peak", plain(shown.measures["peak_alive"]))


def _body(result: Result) -> Iterator[str]:
    """The blocks of one verb: a catalog and a model's parts in their columns, the rest as it is named."""
    body = dict(result.body)
    items: list[Mapping[str, Any]] = body.pop("items", [])
    if items:
        rows = [{"id": item["id"], **catalog_cells(item)} for item in items]
        yield from _value("Items", plain(rows))
        named: dict[Source, None] = {source: None for item in items for source in item["sources"]}
        yield from _listed("Sources of the items", (_source(source) for source in named))
    if result.command in _DRAWN:
        yield from _DRAWN[result.command](result, body)
    if "answer" in body and "steps" in body:
        for step in body["steps"]:
            yield from _step(step, body["answer"][step["id"]])
        return
    for drawn in ("curves", "pareto", *(("systems",) if result.command == "plan train" else ())):
        body.pop(drawn, None)
    yield from _fields("Details", cast("dict[str, Json]", plain(body)))


def _parts(_result: Result, body: dict[str, Any]) -> Iterator[str]:
    yield from _titled("Parts", _drawn(PART_COLUMNS, part_rows(body)))
    for name in ("parameters", "parameter_bytes"):
        del body[name]


def _formulas(result: Result, body: dict[str, Any]) -> Iterator[str]:
    del body["expression"]
    yield from _titled("Formulas", _drawn(FORMULA_COLUMNS, formulas(result, WHOLE)))
    yield from _titled("Inputs", _drawn(INPUT_COLUMNS, inputs(result)))


def _schedules(_result: Result, body: dict[str, Any]) -> Iterator[str]:
    yield from _titled("Schedules", _drawn(WIDE_SCHEDULE_COLUMNS, body.pop("schedules")))
    drawn = body.pop("timeline")
    if drawn is not None:
        title = f"Timeline of {drawn['schedule']}, {drawn['letter_s']:.6g} s a letter"
        yield from _titled(title, ["```text", *drawn["ranks"], "```"])


def _intervals(_result: Result, body: dict[str, Any]) -> Iterator[str]:
    yield from _titled("Intervals", _drawn(INTERVAL_COLUMNS, body.pop("intervals")))
    drawn = body.pop("simulated")
    if drawn:
        yield from _titled("The run, drawn", _drawn(DRAWN_COLUMNS, drawn))


def _racks(_result: Result, body: dict[str, Any]) -> Iterator[str]:
    asked = body.pop("asked")
    if asked:
        yield from _titled("Asked about", _drawn(COUNT_COLUMNS, asked))
    yield from _titled("Steps", _drawn(COUNT_COLUMNS, body.pop("steps")))
    yield from _titled("Media", _drawn(MEDIUM_COLUMNS, body.pop("media")))


def _pool(_result: Result, body: dict[str, Any]) -> Iterator[str]:
    yield from _titled("Regions", _drawn(REGION_COLUMNS, body.pop("regions")))
    yield from _titled("Nodes", _drawn(NODE_COLUMNS, body.pop("nodes")))
    trace, reads = body.pop("trace"), body["reads"]
    if reads is not None and reads.periods:
        yield from _titled("Reads, one each period", _drawn(PERIOD_COLUMNS, reads.periods))
    if trace:
        yield from _titled("Operations", _drawn(TRACE_COLUMNS, trace))


def _experts(_result: Result, body: dict[str, Any]) -> Iterator[str]:
    layers, sent, merges = body.pop("layers"), body.pop("exchange"), body.pop("merges")
    yield from _titled("Rows by expert", ["```text", *heat_map(layers), "```"])
    yield from _titled("Layers", _drawn(LAYER_COLUMNS, layers))
    if layers[0].capacity_rows is not None:
        yield from _titled("Capacity", _drawn(CAPACITY_COLUMNS, layers))
    if sent:
        yield from _titled("Dispatch and combine", _drawn(EXCHANGE_COLUMNS, sent))
    if merges:
        yield from _titled("Sums of a layer", _drawn(MERGE_COLUMNS, merges))


def _checked(_result: Result, body: dict[str, Any]) -> Iterator[str]:
    yield from _titled("Sizes", _drawn(CHECK_COLUMNS, body.pop("rows")))


def _networks(result: Result, body: dict[str, Any]) -> Iterator[str]:
    yield from _titled("Links", _drawn(link_columns(result), body.pop("links")))
    rounds = body.pop("rounds")
    if rounds:
        yield from _titled("Rounds", _drawn(ROUND_COLUMNS, rounds))


def _ran(_result: Result, body: dict[str, Any]) -> Iterator[str]:
    yield from _titled("Steps", _drawn(STEP_COLUMNS, body.pop("steps")))


def _parity(_result: Result, body: dict[str, Any]) -> Iterator[str]:
    yield from _titled("Layouts", _drawn(PARITY_COLUMNS, body.pop("layouts")))


def _collective(result: Result, body: dict[str, Any]) -> Iterator[str]:
    yield from _titled(f"Algorithms on {body.pop('fabric')}", _drawn(ALGORITHM_COLUMNS, result.candidates))
    for title, columns, rows in (
        ("Links of each axis", PORT_COLUMNS, port_rows(body)),
        ("From box to box", CROSSING_COLUMNS, crossing_rows(body)),
    ):
        if rows:
            yield from _titled(title, _drawn(columns, rows))
    yield from _listed("Where the fastest changes with size", flip_lines(result))
    del body["merges"]


_DRAWN: Final[Mapping[str, Callable[[Result, dict[str, Any]], Iterator[str]]]] = {
    "inspect": _parts,
    "explain": _formulas,
    "schedule": _schedules,
    "topology": _networks,
    "checkpoint interval": _intervals,
    "experts": _experts,
    "rack": _racks,
    "pool": _pool,
    "collective check": _checked,
    "run train": _ran,
    "verify parity": _parity,
    "collective time": _collective,
}
"""The tables of a command; what they hold is taken out of the body."""


def _step(step: Mapping[str, Any], answer: Any) -> Iterator[str]:
    """One step of a study: a result as it stands alone, rows as a table, one value as a line."""
    title = f"{step['id']}: {step['title']}"
    if isinstance(answer, Result):
        yield from _titled(title, [_line(f"{answer.verdict.answer}: {answer.verdict.text}")])
        yield from _tables(answer)
    elif isinstance(answer, (dict, list)):
        yield from _value(title, cast("Json", answer))
    else:
        yield from _titled(title, [_cell(answer)])


def _fields(title: str, record: dict[str, Json]) -> Iterator[str]:
    """A mapping: its single values as one table, then each table that it holds."""
    row = cells(record)
    tables = {name: value for name, value in row.items() if records(value)}
    single = [(name, value) for name, value in row.items() if name not in tables and value != []]
    if single:
        yield from _titled(title, _table(("field", "value"), single))
    for name, value in tables.items():
        yield from _value(name, value)


def _value(title: str, value: Json) -> Iterator[str]:
    """Rows as a table, a mapping as fields, nothing for what is empty."""
    rows = records(value)
    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        yield from _titled(title, _table(names, ([row.get(name) for name in names] for row in rows)))
    elif isinstance(value, dict):
        yield from _fields(title, value)


def _lists(result: Result) -> Iterator[str]:
    yield from _listed("Warnings", result.warnings)
    yield from _listed("Notes", result.notes)
    yield from _listed("Defaulted", (f"{item.field} = {item.value} ({item.origin})" for item in result.defaulted))
    yield from _listed("Not modelled", result.not_modelled)
    yield from _listed("Sources", (_source(source) for source in result.sources))


def _source(source: Source) -> str:
    return f"{source.title}, {source.place} (read {source.read})"


def _drawn(columns: Sequence[Column], rows: Iterable[Any]) -> list[str]:
    """Columns that a terminal has too, with the unit in their header."""
    headers = [f"{column.name} ({column.unit})" if column.unit else column.name for column in columns]
    return _table(headers, ([column.value(row) for column in columns] for row in rows))


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Numbers to the right, text to the left, as the first cell that is not empty says."""
    kept = [list(row) for row in rows]
    sides = [_side([row[place] for row in kept]) for place in range(len(headers))]
    lines = [[_line(header) for header in headers], sides, *([_cell(cell) for cell in row] for row in kept)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _side(column: Sequence[object]) -> str:
    first = next((cell for cell in column if cell is not None), None)
    return "---:" if isinstance(first, (int, float)) and not isinstance(first, bool) else "---"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{_line(name)}={_cell(item)}" for name, item in cast("dict[str, object]", value).items())
    return _line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    items = [f"- {_line(line)}" for line in lines]
    if items:
        yield from _titled(title, items)


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from ("", f"## {_line(title)}", "", *lines)


def _line(text: str) -> str:
    """Text on one line, with the signs of Markdown that would change it escaped; code spans stay."""
    return text.translate(_ESCAPED).replace("](", "]\\(")
