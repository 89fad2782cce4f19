"""Which columns the tables of an answer have, and how each cell is shown: for a terminal, and exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from meshwright.base.units import show_bytes, show_flops, show_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meshwright.base.result import Candidate, Result

_KILO: Final = 1000
MEMORY_PARTS: Final = (
    ("parameters_bytes", "weights"),
    ("kv_cache_bytes", "KV cache"),
    ("workspace_bytes", "workspace"),
)
"""The parts of a ledger that add up to `per_rank_bytes`, and what each is called."""
STATE_PARTS: Final = (
    ("parameters_bytes", "parameters"),
    ("gradients_bytes", "gradients"),
    ("optimizer_state_bytes", "optimizer"),
)
COMPUTED_PARTS: Final = (
    ("activations_bytes", "activations"),
    ("gathered_bytes", "gathered"),
    ("transient_bytes", "transient"),
    ("workspace_bytes", "workspace"),
)
BUDGET_PARTS: Final = (("activation_budget_bytes", "budget"),)
"""Of training: what is resident, and what is beside it, computed or as a budget says."""
HIDDEN_OF_ITEMS: Final = frozenset({"id", "sources", "facts", "note", "choices"})
"""What a catalog's line leaves to JSON, or shows in a place of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. value: the exact cell of a row, None for an empty one.   show: that cell as a terminal has it.

    unit: of the exact cell, "" where it has none.   side: where the cells stand.
    """

    name: str
    value: Callable[[Any], Any]
    show: Callable[[Any], str] = str
    unit: str = ""
    side: Literal["left", "right"] = "right"

    def text(self, row: Any) -> str:
        """The cell of a row for reading."""
        value = self.value(row)
        return "" if value is None else self.show(value)


def yes_or_no(value: object) -> str:
    """A truth as a word."""
    return "yes" if value else "no"


def memory_parts(memory: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The parts of this ledger that add up to its `per_rank_bytes`, and what each is called."""
    if "optimizer_state_bytes" not in memory:
        return MEMORY_PARTS
    return (*STATE_PARTS, *(COMPUTED_PARTS if memory["activation_budget_bytes"] is None else BUDGET_PARTS))


def fullest(result: Result) -> Candidate | None:
    """The candidate whose memory an answer draws: the best, that which fit was asked about, or nearest to training."""
    drawn = result.best or (result.candidates[0] if result.command in {"fit", "plan train"} else None)
    return drawn if drawn is not None and drawn.memory else None


def catalog_cells(item: Mapping[str, Any]) -> dict[str, Any]:
    """What a catalog's entry tells beside its id; a list as words."""
    told = {key: value for key, value in item.items() if key not in HIDDEN_OF_ITEMS and value not in ("", None, {})}
    return {key: _words(value) for key, value in told.items()}


def _words(value: Any) -> Any:
    """A list as words, and records by their ids."""
    if isinstance(value, (tuple, list)) and all(isinstance(item, dict) for item in cast("list[Any]", value)):
        return " ".join(str(item["id"]) for item in cast("list[dict[str, Any]]", value))
    return " ".join(map(str, cast("list[Any]", value))) if isinstance(value, (tuple, list)) else value


def faulted(result: Result) -> list[Candidate]:
    """The layouts that fit, where a plan has a fault."""
    return [item for item in result.candidates if item.fits and item.measures.get("fault") is not None]


def curve_rows(result: Result) -> list[dict[str, Any]]:
    """Each deadline at which a layout's cost steps, with and without the fault; none where it is never in time."""
    return [
        {"id": curve["id"], "fault": name == "with_fault", **point}
        for curve in result.body.get("curves", ())
        for name in ("points", "with_fault")
        for point in curve[name] or ()
    ]


def show_energy(value: float) -> str:
    """Joules for reading: 1.21 kJ."""
    return f"{value / _KILO:.2f} kJ" if value >= _KILO else f"{value:.2f} J"


def _fault(item: Candidate) -> Mapping[str, Any]:
    return item.measures["fault"]


def _measure(name: str) -> Callable[[Candidate], Any]:
    return lambda item: item.measures[name]


def why_not(item: Candidate) -> str | None:
    """The code and the reason that exclude a candidate."""
    return None if item.excluded is None else f"{item.excluded.code} {item.excluded.reason}"


def _tenths(value: float) -> str:
    return f"{value:,.1f}"


PLAN_COLUMNS: Final = (
    Column(name="layout", value=lambda item: item.id, side="left"),
    Column(name="fits", value=lambda item: item.fits, show=yes_or_no, side="left"),
    Column(name="step", value=_measure("step_time_s"), show=show_seconds, unit="s"),
    Column(name="last finish", value=_measure("last_finish_s"), show=show_seconds, unit="s"),
    Column(name="on time", value=_measure("on_time_count")),
    Column(name="GPU-s/session", value=_measure("cost_per_on_time_gpu_s"), show=lambda value: f"{value:.3f}"),
    Column(name="memory", value=lambda item: item.memory.get("per_rank_bytes"), show=show_bytes, unit="bytes"),
    Column(name="why not", value=why_not, side="left"),
)
"""A plan's candidates."""
BATCH_COLUMNS: Final = (
    Column(name="layout", value=lambda item: item.id, side="left"),
    Column(name="fits", value=lambda item: item.fits, show=yes_or_no, side="left"),
    Column(name="batch", value=_measure("batch")),
    Column(name="limited by", value=_measure("limited_by"), side="left"),
    Column(name="tpot", value=_measure("tpot_s"), show=show_seconds, unit="s"),
    Column(name="ttft", value=_measure("ttft_s"), show=show_seconds, unit="s"),
    Column(name="tokens/s/GPU", value=_measure("tokens_per_s_per_gpu"), show=_tenths),
    Column(name="memory", value=lambda item: item.memory.get("per_rank_bytes"), show=show_bytes, unit="bytes"),
    Column(name="why not", value=why_not, side="left"),
)
"""A plan's candidates under continuous batching."""
PARETO_COLUMNS: Final = (
    Column(name="layout", value=lambda point: point["id"], side="left"),
    Column(name="batch", value=lambda point: point["batch"]),
    Column(name="tokens/s/user", value=lambda point: point["tokens_per_s_per_user"], show=_tenths),
    Column(name="tokens/s/GPU", value=lambda point: point["tokens_per_s_per_gpu"], show=_tenths),
    Column(name="tpot", value=lambda point: point["tpot_s"], show=show_seconds, unit="s"),
    Column(name="limited by", value=lambda point: point["limited_by"], side="left"),
    Column(name="breaks", value=lambda point: ", ".join(point["breaks"]) or None, side="left"),
)
"""The points of a Pareto front."""
FAULT_COLUMNS: Final = (
    Column(name="layout", value=lambda item: item.id, side="left"),
    Column(name="replicas stopped", value=lambda item: len(_fault(item)["stopped_replicas"])),
    Column(name="last finish", value=lambda item: _fault(item)["last_finish_s"], show=show_seconds, unit="s"),
    Column(name="on time", value=lambda item: _fault(item)["on_time_count"]),
    Column(
        name="GPU-s/session",
        value=lambda item: _fault(item)["cost_per_on_time_gpu_s"],
        show=lambda value: f"{value:.3f}",
    ),
    Column(name="energy", value=lambda item: _fault(item)["energy_j"], show=show_energy, unit="J"),
)
"""The candidates of `faulted` with the fault replayed."""
CURVE_COLUMNS: Final = (
    Column(name="layout", value=lambda row: row["id"], side="left"),
    Column(name="fault", value=lambda row: row["fault"], show=yes_or_no, side="left"),
    Column(name="from a deadline of", value=lambda row: row["deadline_s"], show=show_seconds, unit="s"),
    Column(name="on time", value=lambda row: row["on_time_count"]),
    Column(name="GPU-s/session", value=lambda row: row["cost_per_on_time_gpu_s"], show=lambda value: f"{value:.3f}"),
)
"""The rows of `curve_rows`."""
PART_COLUMNS: Final = (
    Column(name="part", value=lambda row: row[0], side="left"),
    Column(name="parameters", value=lambda row: row[1], show=lambda value: f"{value:,}"),
    Column(name="bytes", value=lambda row: row[2], show=show_bytes),
)
"""A model's parts: name, count, bytes."""
CONVENTION_COLUMNS: Final = (
    Column(name="convention", value=lambda row: row["convention"], side="left"),
    Column(name="training", value=lambda row: row["flops_per_token"], show=show_flops, unit="FLOP/token"),
    Column(name="times shapes", value=lambda row: row["times_shapes"], show=lambda value: f"{value:.3f}"),
    Column(name="counts", value=lambda row: row["title"], side="left"),
)
"""Training FLOPs of a token, by every way to count them."""

FORMULA_COLUMNS: Final = (
    Column(name="name", value=lambda item: item.name, side="left"),
    Column(name="formula", value=lambda item: item.words, side="left"),
    Column(name="values", value=lambda item: item.values, side="left"),
    Column(name="value", value=lambda item: item.value),
    Column(name="source", value=lambda item: item.source or None, side="left"),
)
"""The formulas of an explained number."""
INPUT_COLUMNS: Final = (
    Column(name="name", value=lambda item: item.path, side="left"),
    Column(name="value", value=lambda item: item.value),
    Column(name="basis", value=lambda item: item.basis, side="left"),
    Column(name="source", value=lambda item: item.source or None, side="left"),
)
"""The inputs of an explained number."""


SCHEDULE_COLUMNS: Final = (
    Column(name="schedule", value=lambda row: row.schedule, side="left"),
    Column(name="fits", value=lambda row: row.fits, show=yes_or_no, side="left"),
    Column(name="total", value=lambda row: row.total_s, show=show_seconds, unit="s"),
    Column(name="idle", value=lambda row: row.idle_fraction, show=lambda value: f"{value:.1%}"),
    Column(name="over ideal", value=lambda row: row.bubble_over_ideal, show=lambda value: f"{value:+.1%}"),
    Column(name="largest peak", value=lambda row: row.largest_peak_bytes, show=show_bytes, unit="bytes"),
    Column(name="sets", value=lambda row: row.activation_sets, show=lambda value: f"{value:g}"),
    Column(name="messages", value=lambda row: row.messages),
    Column(name="copies", value=lambda row: row.parameter_copies),
    Column(name="why not", value=why_not, side="left"),
)
"""The schedules of `schedule`."""
WIDE_SCHEDULE_COLUMNS: Final = (
    *SCHEDULE_COLUMNS[:3],
    Column(name="no barrier", value=lambda row: row.step_without_barrier_s, show=show_seconds, unit="s"),
    *SCHEDULE_COLUMNS[3:],
)
"""The same where lines have no end; a terminal tells those apart that gain."""


def part_rows(body: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """The parts that a model has, its total among them."""
    return [(part, count, body["parameter_bytes"][part]) for part, count in body["parameters"].items() if count]
