"""A `Result` goes in; text for a terminal comes out: the verdict, the bars, the tables, the next command."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any, Final, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from meshwright.base.result import Result
from meshwright.base.result import plain as plain_value
from meshwright.base.units import show_bytes, show_flops, show_seconds
from meshwright.output.amounts import pair, short
from meshwright.output.collective_check_tables import CHECK_COLUMNS, check_lines
from meshwright.output.collective_tables import draw_collective
from meshwright.output.columns import (
    CONVENTION_COLUMNS,
    PART_COLUMNS,
    SCHEDULE_COLUMNS,
    catalog_cells,
    fullest,
    memory_parts,
    part_rows,
)
from meshwright.output.experts_tables import draw_experts
from meshwright.output.explanation import draw_explanation
from meshwright.output.intervals import DRAWN_COLUMNS, INTERVAL_COLUMNS, curve_bars, interval_totals
from meshwright.output.local_tables import draw_local
from meshwright.output.plan_tables import draw_columns, draw_flips, draw_plan
from meshwright.output.pool_tables import draw_pool
from meshwright.output.rack_tables import draw_rack
from meshwright.output.runs import PARITY_COLUMNS, STEP_COLUMNS, run_totals, shown_steps
from meshwright.output.saves import SAVE_COLUMNS, save_bars, save_totals
from meshwright.output.topology_tables import draw_topology
from meshwright.output.training_tables import draw_training
from meshwright.output.verify_tables import draw_verify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meshwright.base.result import Candidate

_CHANGES: Final = 12
_MOST_COLUMNS: Final = 9
_SAVES: Final = 12
_BAR: Final = 36
_NAME: Final = 10
_NARROWEST: Final = 80


def as_text(result: Result, *, width: int, colour: bool) -> str:
    """The whole answer, tables no wider than `width` columns."""
    stream = StringIO()
    console = Console(
        file=stream,
        width=max(width, _NARROWEST),
        force_terminal=colour,
        highlight=False,
        soft_wrap=True,
        markup=False,  # names and reasons are shown as they are, brackets and colons included
        emoji=False,
    )
    _draw(console, result)
    _closing(console, result)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip()


def _draw(console: Console, result: Result) -> None:
    """The verdict, the bars and the tables of its command; a catalog and a study's steps by what they hold."""
    console.print(Text.assemble((result.verdict.answer, "bold"), f": {result.verdict.text}"))
    drawn = fullest(result)
    if drawn is not None:
        _bars(console, drawn)
    if result.command in _DRAWN:
        _DRAWN[result.command](console, result)
    elif "items" in result.body:
        _items(console, cast("list[Mapping[str, Any]]", result.body["items"]))
    elif "steps" in result.body:
        _steps(console, result.body)
    elif "answer" in result.body:
        _answer(console, result.body["answer"])


def _bars(console: Console, candidate: Candidate) -> None:
    """The ledger of the fullest rank as bars against its capacity."""
    memory = candidate.memory
    capacity = memory["capacity_bytes"]
    console.print(f"\nmemory of the fullest device ({candidate.id}, stage {memory['fullest_stage']})")
    parts = memory_parts(memory)
    wide = max(_NAME, *(len(name) for _, name in parts))
    for key, name in parts:
        console.print(f"  {name:<{wide}} {_bar(memory[key], capacity)} {show_bytes(memory[key]):>10}")
    total, free = memory["per_rank_bytes"], capacity - memory["per_rank_bytes"]
    state = f"{show_bytes(free)} free" if free >= 0 else f"{show_bytes(-free)} too much"
    console.print(
        f"  {'total':<{wide}} {_bar(total, capacity)} {show_bytes(total):>10} of {show_bytes(capacity)}, {state}"
    )
    _below_the_bars(console, memory)


def _below_the_bars(console: Console, memory: Mapping[str, Any]) -> None:
    """The items of a computed reserve, and what an engine's rule leaves for KV."""
    if "reserve" in memory:
        items = ", ".join(pair(key, value) for key, value in memory["reserve"].items())
        console.print(f"workspace is the sum of {items.replace('_', ' ')}")
    if "by_length" in memory:
        rows = [f"{row['context']:,} x {row['max_sessions']:,}" for row in memory["by_length"]]
        console.print(f"room by length of session (tokens x sessions): {', '.join(rows)}")
    if "engine" in memory:
        engine = memory["engine"]
        told = [f"{show_bytes(engine['available_kv_bytes'])} for KV"]
        if engine["kv_tokens"] is not None:
            told.append(pair("tokens", engine["kv_tokens"]))
        if engine["max_concurrency"] is not None:
            told.append(f"{engine['max_concurrency']:.2f} requests of {engine['max_model_len']:,} tokens")
        told.append(f"reserve {show_bytes(engine['reserve_bytes'])} ({engine['reserve_basis']})")
        console.print(f"{engine['name']} at {engine['gpu_memory_utilization']:g}: {', '.join(told)}")


def _bar(value: int, capacity: int) -> str:
    filled = min(_BAR, round(_BAR * value / capacity))
    return "█" * filled + "·" * (_BAR - filled)


def _intervals(console: Console, result: Result) -> None:
    """The curve as bars, every interval with its parts, and the runs drawn at each."""
    body = result.body
    for line in curve_bars(body):
        console.print(line)
    console.print()
    draw_columns(console, INTERVAL_COLUMNS, body["intervals"])
    if body["simulated"]:
        console.print("\nthe run, drawn:")
        draw_columns(console, DRAWN_COLUMNS, body["simulated"])
    for line in interval_totals(body):
        console.print(line)


def _saves(console: Console, result: Result) -> None:
    """Saves as bars and as a table, what waits for the writer, and where another save is recovered."""
    for line in save_bars(result.body):
        console.print(line)
    rows = result.body["saves"]
    console.print()
    draw_columns(console, SAVE_COLUMNS, rows[:_SAVES])
    if len(rows) > _SAVES:
        console.print(f"{len(rows) - _SAVES} more saves: --format json lists them all")
    for line in save_totals(result.body):
        console.print(line)
    draw_flips(console, result)


def _checked(console: Console, result: Result) -> None:
    """Every size beside what is expected, the parts of the curve, and causes in their order."""
    console.print()
    draw_columns(console, CHECK_COLUMNS, result.body["rows"])
    for line in check_lines(result.body):
        console.print(line)


def _ran(console: Console, result: Result) -> None:
    """The steps of a run, and what it ran on."""
    body = result.body
    rows, more = shown_steps(body)
    console.print()
    draw_columns(console, STEP_COLUMNS, rows)
    if more:
        console.print(f"{more} more steps between: --format json lists them all")
    for line in run_totals(body):
        console.print(line)


def _parity(console: Console, result: Result) -> None:
    """How far each layout lies from one process."""
    console.print()
    draw_columns(console, PARITY_COLUMNS, result.body["layouts"])


def _inspect(console: Console, result: Result) -> None:
    body = result.body
    console.print()
    draw_columns(console, PART_COLUMNS, part_rows(body))
    formats = ", ".join(f"{name} {show_bytes(size)}" for name, size in body["bytes_by_format"].items())
    kinds = ", ".join(f"{name} {size:,} B" for name, size in body["kv_bytes_per_token_by_kind"].items())
    console.print(f"\nformats     {formats}")
    console.print(f"KV a token  {kinds}; fixed state {show_bytes(body['fixed_state_bytes'])} a session")
    console.print(f"active      {body['active_parameters']:,} parameters a token")
    work, weights = show_flops(body["flops_per_token"]), show_bytes(body["weight_bytes_per_step"])
    state = show_bytes(body["state_bytes_per_step"])
    console.print(f"one step    {work} a token, reads {weights} of weights and {state} of state")
    training = body["training"]
    if training is not None:
        whole = show_flops(training["flops_per_sequence"])
        console.print(f"\ntraining on a sequence of {training['sequence']:,} tokens, {whole} of it by shapes:")
        draw_columns(console, CONVENTION_COLUMNS, training["conventions"])


def _schedules(console: Console, result: Result) -> None:
    """Every schedule, and the step of the chosen one."""
    body = result.body
    console.print()
    draw_columns(console, SCHEDULE_COLUMNS, body["schedules"])
    ran = [row for row in body["schedules"] if row.total_s is not None]
    shown = {row.schedule: (show_seconds(row.total_s), show_seconds(row.step_without_barrier_s)) for row in ran}
    gaining = [f"{name} {without}" for name, (total, without) in shown.items() if without != total]
    if gaining:
        console.print(f"\nwithout a barrier between steps: {', '.join(gaining)}; any other as its total")
    drawn = body["timeline"]
    if drawn is not None:
        console.print(f"\n{drawn['schedule']}, a rank a row, {show_seconds(drawn['letter_s'])} a letter:")
        for number, letters in enumerate(drawn["ranks"]):
            console.print(f"  {number:>2} {letters}")
        console.print("F forward, B backward, W weight gradient, U update; small: entered at the last rank")
        spent = body["critical_path_s"].items()
        path = ", ".join(f"{kind.replace('_', ' ')} {show_seconds(seconds)}" for kind, seconds in spent)
        console.print(f"critical path: {path}")


def _items(console: Console, items: list[Mapping[str, Any]]) -> None:
    """A catalog: one line an entry, its sources under it."""
    for item in items:
        shown = ", ".join(pair(key, value) for key, value in catalog_cells(item).items())
        console.print(Text.assemble((str(item["id"]), "bold"), f"  {shown}"))
        for source in item.get("sources", ()):
            console.print(f"    source: {source.title}, {source.place} (read {source.read})")


def _steps(console: Console, body: Mapping[str, Any]) -> None:
    """A study of several steps, one after the other."""
    for step in body["steps"]:
        console.print(f"\n{step['id']}: {step['title']}")
        _answer(console, body["answer"][step["id"]])


def _answer(console: Console, answer: Any) -> None:
    """A study's answer: a result as it is drawn alone, fields in a column, rows in a table."""
    if isinstance(answer, Result):
        _draw(console, answer)
        return
    value = plain_value(answer)
    if _are_records(value):
        _records(console, cast("list[dict[str, Any]]", value))
    elif isinstance(value, dict):
        for key, item in value.items():
            if _are_records(item):
                console.print(f"\n{key}")
                _records(console, cast("list[dict[str, Any]]", item))
            else:
                console.print(f"  {key:<24} {_cell(key, item)}")
    elif value is not None and not isinstance(value, list):
        console.print(f"  {short('', value)}")


def _are_records(value: object) -> bool:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return bool(items) and isinstance(items[0], dict)


def _records(console: Console, rows: list[dict[str, Any]]) -> None:
    """Rows as they are; of many fields a line a field and a column a row."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    fields = list(rows[0])
    if len(fields) <= _MOST_COLUMNS:
        for key in fields:
            table.add_column(key, justify="right")
        for row in rows:
            table.add_row(*(_cell(key, item) for key, item in row.items()))
    else:
        table.add_column(fields[0])
        for row in rows:
            table.add_column(_cell(fields[0], row[fields[0]]), justify="right")
        for key in fields[1:]:
            table.add_row(key, *(_cell(key, row[key]) for row in rows))
    console.print(table)


def _cell(key: str, value: Any) -> str:
    """A number by its name; what is a list, item by item."""
    if not isinstance(value, list):
        return short(key, value)
    return "; ".join(short(key, item) for item in cast("list[Any]", value))


def _changes(console: Console, result: Result) -> None:
    """Inputs that differ, then numbers, largest change first; the best of both is told once, as `best`."""
    body = cast("dict[str, Any]", plain_value(result.body))
    twice = body["best_ids"]["a"] if body["best_ids"]["a"] == body["best_ids"]["b"] else None
    told: dict[str, list[str]] = {
        "inputs that differ": [
            f"{item['path']}: {_word(item['a'])} to {_word(item['b'])}" for item in body["inputs_changed"]
        ],
        "numbers that moved, largest first": [_moved(item) for item in body["changes"] if item["of"] != twice],
        "words that differ": [
            f"{item['of']} {item['path']}: {_word(item['a'])} to {_word(item['b'])}"
            for item in body["words_changed"]
            if item["of"] != twice
        ],
    }
    for side in ("a", "b"):
        only = [f"{item['of']} {item['path']}" for item in body["only"] if item["side"] == side and item["of"] != twice]
        told[f"only in {side.upper()}"] = [*body["candidates_only"][side], *only]
    for title, lines in told.items():
        if lines:
            console.print(f"\n{title}:")
        for line in lines[:_CHANGES]:
            console.print(f"  {line}")
        if len(lines) > _CHANGES:
            console.print(f"  {len(lines) - _CHANGES} more: --format json lists them all")


def _moved(item: dict[str, Any]) -> str:
    name = item["path"].partition("[")[0] if item["path"].endswith("]") else item["path"]
    relative = "" if item["relative"] is None else f" ({item['relative']:+.2%})"
    return f"{item['of']} {item['path']}: {short(name, item['a'])} to {short(name, item['b'])}{relative}"


def _word(value: object) -> str:
    return "none" if value is None else str(value)


def _closing(console: Console, result: Result) -> None:
    for word, lines in (("warning", result.warnings), ("note", result.notes)):
        for line in lines:
            console.print(f"\n{word}: {line}")
    if result.defaulted:
        names = ", ".join(f"{item.field}={item.value}" for item in result.defaulted)
        console.print(f"\ndefaulted: {names} ({result.defaulted[0].origin})")
    if result.not_modelled:
        console.print("\nnot modelled: " + "; ".join(result.not_modelled))
    for command in result.next_commands:
        console.print(f"\nnext: {command}")


_DRAWN: Final[Mapping[str, Callable[[Console, Result], None]]] = {
    "inspect": _inspect,
    "explain": draw_explanation,
    "plan serve": draw_plan,
    "plan train": draw_training,
    "schedule": _schedules,
    "experts": draw_experts,
    "rack": draw_rack,
    "pool": draw_pool,
    "topology": draw_topology,
    "checkpoint interval": _intervals,
    "checkpoint timeline": _saves,
    "collective check": _checked,
    "calibrate local": lambda console, result: draw_local(console, result.body),
    "run train": _ran,
    "verify parity": _parity,
    "verify run": draw_verify,
    "collective time": draw_collective,
    "compare": _changes,
}
"""What draws the answer of a command."""
