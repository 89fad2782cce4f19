"""A `Result` goes in; text for a terminal comes out: the verdict, the bars, the tables, the next command."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any, Final, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from meshwright.base.result import Result
from meshwright.base.result import plain as plain_value
from meshwright.base.units import show_bytes, show_flops, show_rate, show_seconds
from meshwright.output.batch_rows import batch_row, pareto_row, spread
from meshwright.output.columns import (
    CURVE_COLUMNS,
    FAULT_COLUMNS,
    MEMORY_PARTS,
    PART_COLUMNS,
    PLAN_COLUMNS,
    catalog_cells,
    curve_rows,
    faulted,
    fullest,
    part_rows,
    show_energy,
)
from meshwright.output.expressions import formulas, inputs
from meshwright.output.expressions import shown as number
from meshwright.output.saves import SAVE_COLUMNS, save_bars, save_row, save_totals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from meshwright.base.result import Candidate
    from meshwright.output.columns import Column

_ROWS: Final = 7
_FLIPS: Final = 6
_POINTS: Final = 10
_CHANGES: Final = 12
_SAVES: Final = 12
_BAR: Final = 36
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
    """The verdict, the bars and the tables of its command."""
    console.print(Text.assemble((result.verdict.answer, "bold"), f": {result.verdict.text}"))
    drawn = fullest(result)
    if drawn is not None:
        _bars(console, drawn)
    if result.command == "inspect":
        _inspect(console, result.body)
    elif result.command == "explain":
        _explanation(console, result)
    elif "pareto" in result.body:
        _batches(console, result)
    elif result.command == "plan serve":
        _candidates(console, result)
    elif result.command == "checkpoint timeline":
        _saves(console, result)
    elif "items" in result.body:
        _items(console, cast("list[Mapping[str, Any]]", result.body["items"]))
    elif "steps" in result.body:
        _steps(console, result.body)
    elif "answer" in result.body:
        _answer(console, result.body["answer"])
    elif result.command == "compare":
        _changes(console, cast("dict[str, Any]", plain_value(result.body)))


def _bars(console: Console, candidate: Candidate) -> None:
    """The ledger of the fullest rank as bars against its capacity."""
    memory = candidate.memory
    capacity = memory["capacity_bytes"]
    console.print(f"\nmemory of the fullest device ({candidate.id}, stage {memory['fullest_stage']})")
    for key, name in MEMORY_PARTS:
        console.print(f"  {name:<10} {_bar(memory[key], capacity)} {show_bytes(memory[key]):>10}")
    total, free = memory["per_rank_bytes"], capacity - memory["per_rank_bytes"]
    state = f"{show_bytes(free)} free" if free >= 0 else f"{show_bytes(-free)} too much"
    console.print(f"  {'total':<10} {_bar(total, capacity)} {show_bytes(total):>10} of {show_bytes(capacity)}, {state}")
    _below_the_bars(console, memory)


def _below_the_bars(console: Console, memory: Mapping[str, Any]) -> None:
    """The items of a computed reserve, and what an engine's rule leaves for KV."""
    if "reserve" in memory:
        items = ", ".join(_pair(key, value) for key, value in memory["reserve"].items())
        console.print(f"workspace is the sum of {items.replace('_', ' ')}")
    if "engine" in memory:
        engine = memory["engine"]
        console.print(
            f"{engine['name']} at {engine['gpu_memory_utilization']:g}: {show_bytes(engine['available_kv_bytes'])} for "
            f"KV, {_pair('tokens', engine['kv_tokens'])}, {_pair('requests', engine['max_concurrency'])} of "
            f"{_pair('tokens', engine['max_model_len'])}, reserve {show_bytes(engine['reserve_bytes'])} "
            f"({engine['reserve_basis']})"
        )


def _bar(value: int, capacity: int) -> str:
    filled = min(_BAR, round(_BAR * value / capacity))
    return "█" * filled + "·" * (_BAR - filled)


def _candidates(console: Console, result: Result) -> None:
    shown = _shown(result.candidates)
    console.print()
    _columns(console, PLAN_COLUMNS, shown)
    if len(result.candidates) > len(shown):
        console.print(f"{len(result.candidates) - len(shown)} more layouts: --format json lists them all")
    best = result.best
    if best is not None:
        _step(console, best)
        _levers(console, result)
        _flips(console, result)
        if best.measures["energy_j"] is not None:
            console.print(f"energy until the last finish: {show_energy(best.measures['energy_j'])}")
        _fault(console, result)
        _curves(console, result)


def _batches(console: Console, result: Result) -> None:
    """Layouts with their batches, the Pareto front, and what a step of the best takes."""
    columns = ("layout", "fits", "batch", "limited by", "tpot", "ttft", "tokens/s/GPU", "memory", "why not")
    rows = [batch_row(item) for item in _shown(result.candidates)]
    console.print()
    console.print(_table(columns, rows, {"layout", "fits", "limited by", "why not"}))
    if len(result.candidates) > len(rows):
        console.print(f"{len(result.candidates) - len(rows)} more layouts: --format json lists them all")
    points = result.body["pareto"]
    if points:
        columns = ("layout", "batch", "tokens/s/user", "tokens/s/GPU", "tpot", "limited by", "breaks")
        shown = spread(points, _POINTS)
        console.print("\ntokens a second, per user against per GPU (no other batch or layout beats these in both):")
        console.print(_table(columns, [pareto_row(item) for item in shown], {"layout", "limited by", "breaks"}))
        if len(points) > len(shown):
            console.print(f"{len(points) - len(shown)} more points: --format json lists them all")
    if result.best is not None:
        _step(console, result.best)
        _levers(console, result)
        _flips(console, result)


def _saves(console: Console, result: Result) -> None:
    """Saves as bars and as a table, what waits for the writer, and where another save is recovered."""
    for line in save_bars(result.body):
        console.print(line)
    rows = [save_row(save) for save in result.body["saves"]]
    console.print()
    console.print(_table(SAVE_COLUMNS, rows[:_SAVES], {"save", "state"}))
    if len(rows) > _SAVES:
        console.print(f"{len(rows) - _SAVES} more saves: --format json lists them all")
    for line in save_totals(result.body):
        console.print(line)
    _flips(console, result)


def _table(columns: Sequence[str], rows: Sequence[tuple[str, ...]], left: set[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _shown(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first rows, and the first row of every limit that they do not show."""
    shown = list(candidates[:_ROWS])
    for item in candidates[_ROWS:]:
        limits = {other.excluded.limit for other in shown if other.excluded is not None}
        if item.excluded is not None and item.excluded.limit not in limits:
            shown.append(item)
    return shown


def _columns(console: Console, columns: Sequence[Column], rows: Sequence[Any]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.name, justify=column.side, overflow="fold")
    for row in rows:
        table.add_row(*(column.text(row) for column in columns))
    console.print(table)


def _step(console: Console, best: Candidate) -> None:
    measures = best.measures
    local, merged = show_seconds(measures["local_time_s"]), show_seconds(measures["exchange_time_s"])
    console.print(f"\none step: {local} on the device, {merged} exchanging")
    for group in measures["groups"]:
        rounds = f" in {group['rounds']} rounds" if group["rounds"] else ""
        console.print(
            f"  {group['calls_per_step']} x {group['operation']} over {group['ranks']} ranks after {group['after']}: "
            f"{group['algorithm']}{rounds}, {show_seconds(group['time_s'])} each ({group['basis']})"
        )
    if measures["idle_devices"]:
        console.print(f"  {measures['idle_devices']} devices idle")


def _flips(console: Console, result: Result) -> None:
    """Where another layout, or none, takes over: the first of each parameter on either side of its present value."""
    if result.flips:
        console.print("the choice changes when:")
    for flip in result.flips[:_FLIPS]:
        shown = _SI[flip["unit"]](flip["value"])
        console.print(f"  {flip['parameter']} at {shown}: {flip['from'] or 'none'} to {flip['to'] or 'none'}")
    if len(result.flips) > _FLIPS:
        console.print(f"  {len(result.flips) - _FLIPS} more: --format json lists them all")


def _fault(console: Console, result: Result) -> None:
    """Every layout that fits, with the fault replayed, in the order of the plan."""
    rows = faulted(result)
    if rows:
        console.print("\nunder the fault:")
        _columns(console, FAULT_COLUMNS, rows[:_ROWS])


def _curves(console: Console, result: Result) -> None:
    """Where the cost of an on-time session steps as the deadline moves."""
    rows = curve_rows(result)
    if rows:
        console.print("\ncost against the deadline:")
        _columns(console, CURVE_COLUMNS, rows)


def _levers(console: Console, result: Result) -> None:
    useful = [lever for lever in result.sensitivity if lever.saving_s > 0]
    if useful:
        console.print("what would shorten the step:")
    for lever in useful[:4]:
        console.print(f"  {lever.parameter} {lever.change}: saves {show_seconds(lever.saving_s)}")


def _inspect(console: Console, body: Mapping[str, Any]) -> None:
    console.print()
    _columns(console, PART_COLUMNS, part_rows(body))
    formats = ", ".join(f"{name} {show_bytes(size)}" for name, size in body["bytes_by_format"].items())
    kinds = ", ".join(f"{name} {size:,} B" for name, size in body["kv_bytes_per_token_by_kind"].items())
    console.print(f"\nformats     {formats}")
    console.print(f"KV a token  {kinds}; fixed state {show_bytes(body['fixed_state_bytes'])} a session")
    console.print(f"active      {body['active_parameters']:,} parameters a token")
    work, weights = show_flops(body["flops_per_token"]), show_bytes(body["weight_bytes_per_step"])
    state = show_bytes(body["state_bytes_per_step"])
    console.print(f"one step    {work} a token, reads {weights} of weights and {state} of state")


def _explanation(console: Console, result: Result) -> None:
    """Formulas from the number downwards, then every input."""
    nodes = result.body["expression"]
    for item in formulas(nodes, result.body["path"], result.inputs["options"].depth):
        pad = " " * len(item.name)
        lines = dict.fromkeys([item.words, item.values, number(item.value)])
        for start, line in zip([f"\n{item.name}", *[pad] * len(lines)], lines, strict=False):
            console.print(f"{start} = {line}")
        read = _short(item.name, item.value)
        told = [*([read] if read != number(item.value) else []), *([item.source] if item.source else [])]
        if told:
            console.print(f"{pad}   {'; '.join(told)}")
    given = inputs(nodes)
    sources = list(dict.fromkeys(item.source for item in given if item.source))
    console.print("\ninputs" if given else "\nno input: a count or a choice")
    for item in given:
        where = f" [{sources.index(item.source) + 1}]" if item.source else ""
        console.print(f"  {item.path} = {number(item.value)}  {item.basis}{where}")
    for index, source in enumerate(sources):
        console.print(f"  [{index + 1}] {source}")


def _items(console: Console, items: list[Mapping[str, Any]]) -> None:
    """A catalog: one line an entry, its sources under it."""
    for item in items:
        shown = ", ".join(_pair(key, value) for key, value in catalog_cells(item).items())
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
    if isinstance(value, list) and value and isinstance(value[0], dict):
        table = Table(box=None, pad_edge=False, header_style="bold")
        rows = cast("list[dict[str, Any]]", value)
        for key in rows[0]:
            table.add_column(key, justify="right")
        for row in rows:
            table.add_row(*(_short(key, item) for key, item in row.items()))
        console.print(table)
    elif isinstance(value, dict):
        for key, item in value.items():
            console.print(f"  {key:<24} {_short(key, item)}")
    elif value is not None and not isinstance(value, list):
        console.print(f"  {_short('', value)}")


def _changes(console: Console, body: dict[str, Any]) -> None:
    """Inputs that differ, then numbers, largest change first; the best of both is told once, as `best`."""
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
    return f"{item['of']} {item['path']}: {_short(name, item['a'])} to {_short(name, item['b'])}{relative}"


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


def _pair(key: str, value: Any) -> str:
    return f"{key.removesuffix('_bytes_per_s').removesuffix('_bytes').removesuffix('_s')} {_short(key, value)}"


def _short(key: str, value: Any) -> str:
    """A number by the unit at the end of its name."""
    if isinstance(value, dict):
        unit = any(key.endswith(suffix) for suffix, _ in _BY_SUFFIX)  # of all of them, or each by its own name
        return " ".join(
            f"{name}={_short(key if unit else name, item)}" for name, item in cast("dict[str, Any]", value).items()
        )
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else str(value)
    for suffix, shown in _BY_SUFFIX:
        if key.endswith(suffix):
            return shown(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


_SI: Final[dict[str, Callable[[float], str]]] = {
    "s": show_seconds,
    "B": show_bytes,
    "B/s": show_rate,
    "": lambda value: f"{value:,.0f}",
}
_BY_SUFFIX: Final[tuple[tuple[str, Callable[[float], str]], ...]] = (
    ("bytes_per_s", show_rate),
    ("flops_per_s", lambda value: show_flops(value, "FLOP/s")),
    ("bytes", show_bytes),
    ("_s", show_seconds),
    ("flops", show_flops),
)
