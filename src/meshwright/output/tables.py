"""A `Result` goes in; text for a terminal comes out: the verdict, the bars, the tables, the next command."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any, Final, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from meshwright.base.result import plain as plain_value
from meshwright.base.units import show_bytes, show_flops, show_rate, show_seconds
from meshwright.output.batch_rows import batch_row, pareto_row, spread
from meshwright.output.expressions import formulas, inputs
from meshwright.output.expressions import shown as number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from meshwright.base.result import Candidate, Result

_ROWS: Final = 7
_FLIPS: Final = 6
_POINTS: Final = 10
_BAR: Final = 36
_NARROWEST: Final = 80
_PARTS: Final = (("parameters_bytes", "weights"), ("kv_cache_bytes", "KV cache"), ("workspace_bytes", "workspace"))


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
    console.print(Text.assemble((result.verdict.answer, "bold"), f": {result.verdict.text}"))
    best = result.best or (result.candidates[0] if result.command == "fit" else None)
    if best is not None and best.memory:
        _bars(console, best)
    if result.command == "inspect":
        _inspect(console, result.body)
    elif result.command == "explain":
        _explanation(console, result)
    elif "pareto" in result.body:
        _batches(console, result)
    elif result.command == "plan serve":
        _candidates(console, result)
    elif "items" in result.body:
        _items(console, cast("list[Mapping[str, Any]]", result.body["items"]))
    elif "answer" in result.body:
        _answer(console, result.body["answer"])
    _closing(console, result)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip()


def _bars(console: Console, candidate: Candidate) -> None:
    """The ledger of the fullest rank as bars against its capacity."""
    memory = candidate.memory
    capacity = memory["capacity_bytes"]
    console.print(f"\nmemory of the fullest device ({candidate.id}, stage {memory['fullest_stage']})")
    for key, name in _PARTS:
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
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("layout", "fits", "step", "last finish", "on time", "GPU-s/session", "memory", "why not"):
        table.add_column(name, justify="left" if name in {"layout", "fits", "why not"} else "right", overflow="fold")
    shown = _shown(result.candidates)
    for item in shown:
        table.add_row(*_row(item))
    console.print()
    console.print(table)
    if len(result.candidates) > len(shown):
        console.print(f"{len(result.candidates) - len(shown)} more layouts: --format json lists them all")
    best = result.best
    if best is not None:
        _step(console, best)
        _levers(console, result)
        _flips(console, result)
        _fault(console, best)


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


def _row(item: Candidate) -> tuple[str, ...]:
    cost, count = item.measures["cost_per_on_time_gpu_s"], item.measures["on_time_count"]
    return (
        item.id,
        "yes" if item.fits else "no",
        _seconds(item.measures["step_time_s"]),
        _seconds(item.measures["last_finish_s"]),
        "" if count is None else str(count),
        "" if cost is None else f"{cost:.3f}",
        show_bytes(item.memory["per_rank_bytes"]) if item.memory else "",
        "" if item.excluded is None else f"{item.excluded.code} {item.excluded.reason}",
    )


def _step(console: Console, best: Candidate) -> None:
    measures = best.measures
    local, merged = _seconds(measures["local_time_s"]), _seconds(measures["exchange_time_s"])
    console.print(f"\none step: {local} on the device, {merged} exchanging")
    for group in measures["groups"]:
        rounds = f" in {group['rounds']} rounds" if group["rounds"] else ""
        console.print(
            f"  {group['calls_per_step']} x {group['operation']} over {group['ranks']} ranks after {group['after']}: "
            f"{group['algorithm']}{rounds}, {_seconds(group['time_s'])} each ({group['basis']})"
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


def _fault(console: Console, best: Candidate) -> None:
    fault = best.measures["fault"]
    if fault is None:
        return
    cost = fault["cost_per_on_time_gpu_s"]
    told = "none on time" if cost is None else f"{fault['on_time_count']} on time at {cost:.3f} GPU-s each"
    console.print(f"under the fault: last finish {_seconds(fault['last_finish_s'])}, {told}")


def _levers(console: Console, result: Result) -> None:
    useful = [lever for lever in result.sensitivity if lever.saving_s > 0]
    if useful:
        console.print("what would shorten the step:")
    for lever in useful[:4]:
        console.print(f"  {lever.parameter} {lever.change}: saves {_seconds(lever.saving_s)}")


def _inspect(console: Console, body: Mapping[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("part", "parameters", "bytes"):
        table.add_column(name, justify="left" if name == "part" else "right")
    for part, count in body["parameters"].items():
        if count:
            table.add_row(part, f"{count:,}", show_bytes(body["parameter_bytes"][part]))
    console.print()
    console.print(table)
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
        told = {key: value for key, value in item.items() if key not in _HIDDEN and value not in ("", None, {})}
        shown = ", ".join(_pair(key, value) for key, value in told.items())
        console.print(Text.assemble((str(item["id"]), "bold"), f"  {shown}"))
        for source in item.get("sources", ()):
            console.print(f"    source: {source.title}, {source.place} (read {source.read})")


_HIDDEN: Final = frozenset({"id", "sources", "facts", "note"})


def _answer(console: Console, answer: Any) -> None:
    """A study's answer: fields in a column, rows in a table."""
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
        return " ".join(f"{name}={_short(key, item)}" for name, item in cast("dict[str, Any]", value).items())
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


def _seconds(value: float | None) -> str:
    return "" if value is None else show_seconds(value)
