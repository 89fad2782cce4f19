"""Meshes and what the user fixed go in; the choices beside the mesh, and which of them each mesh takes, come out.

Choices that differ in nothing but their line (schedule and virtual stages) are a group: much of what a layout costs is
the same for the whole group, and a bound for it spares looking at its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from meshwright.base.errors import ScheduleError
from meshwright.base.numbers import divide_up
from meshwright.cost.pipelines import takes
from meshwright.cost.training_offload import OFFLOADS
from meshwright.layout.layouts import Layouts, distinct
from meshwright.search.candidates import divisors
from meshwright.workload.recomputing import read_recompute
from meshwright.workload.slots import SCHEDULES, Shape, read_schedule

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints
    from meshwright.cost.pipelines import Line
    from meshwright.job.train import TrainJob

Scope: TypeAlias = Literal["launchable", "asked"]
"""`launchable`: what keeps every rule. `asked`: also what contradicts a fixed field, to be judged by its code."""
CHOICES: Final = ("sp", "zero", "micro_batch", "schedule", "virtual_stages", "recompute", "offload")
POLICIES: Final = (
    *("none", "attention", "selective", "full"),
    *("every_2", "every_4", "uniform_2", "uniform_4", "uniform_8"),
)


@dataclass(frozen=True, slots=True)
class KindOfMesh:
    """What of a mesh decides which choices it takes. cut: tp above 1.   copies: of attention.

    sharded: dp_shard x cp above 1.   dp_sharded: dp_shard above 1, which without zero is dp_replicate.
    """

    cut: bool
    pp: int
    copies: int
    sharded: bool
    dp_sharded: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Agreed:
    """The choices that each kind of mesh takes, kind after kind.

    choices: rows of the choices.   groups: where in `choices` each group begins, and the end.   kinds: where in
    `groups` each kind begins, and the end.
    """

    choices: Ints
    groups: Ints
    kinds: Ints


def choices(job: TrainJob, lines: Sequence[Line], fixed: Mapping[str, Any]) -> Layouts:
    """All combinations of the fields beside the mesh, lines fastest."""
    axes: dict[str, Sequence[Any]] = {
        "offload": OFFLOADS[:1],
        "recompute": POLICIES,
        "sp": [False, True],
        "zero": [0, 1, 2, 3],
        "micro_batch": divisors(job.global_batch),
        "line": range(len(lines)),
    }
    axes = {name: [fixed[name]] if name in fixed else values for name, values in axes.items()}
    grid = np.meshgrid(*(np.arange(len(values)) for values in axes.values()), indexing="ij")
    places = {name: own.reshape(-1) for name, own in zip(axes, grid, strict=True)}
    line = places.pop("line")
    found = {name: _column(list(axes[name]))[own] for name, own in places.items()}
    found["schedule"] = _column([name for name, _ in lines])[line]
    found["virtual_stages"] = np.array([pieces for _, pieces in lines], dtype=np.int64)[line]
    return Layouts(columns=found)


def lines(layers: int, stages: Ints, fixed: Mapping[str, Any], scope: Scope) -> tuple[Line, ...]:
    """Schedules with the virtual stages of a rank, up to one a layer.

    Those without a formula of their bubble are for `schedule` alone. Raises SCH003 for an unknown schedule, SCH011 for
    one without a formula.
    """
    if "schedule" in fixed and not _has_formula(fixed["schedule"]):
        raise ScheduleError(11, f"no formula is known for {fixed['schedule']}", "run it: meshwright schedule")
    piped = stages[stages > 1]
    most = max(1, layers // int(piped.min(initial=layers)))
    names = [fixed["schedule"]] if "schedule" in fixed else [name for name in SCHEDULES.names() if _has_formula(name)]
    found: list[Line] = [(None, fixed.get("virtual_stages", 1) if scope == "asked" else 1)]
    found = found if "schedule" not in fixed and (stages == 1).any() else []
    for name in names if len(piped) or "schedule" in fixed else []:
        many = range(2, most + 1) if has_pieces(name) else (1,)
        if "virtual_stages" in fixed:
            many = [item for item in [fixed["virtual_stages"]] if scope == "asked" or (item > 1) == has_pieces(name)]
        found += [(name, count) for count in many]
    if "virtual_stages" in fixed and scope == "launchable":
        found = [(name, count) for name, count in found if count == fixed["virtual_stages"]]
    return tuple(found)


def has_pieces(name: str) -> bool:
    """Whether the virtual stages of a rank are the user's to choose."""
    whole, parts = (Shape(stages=2, micro_batches=4, virtual_stages=pieces) for pieces in (1, 2))
    program = read_schedule(name)
    return program.placement(whole).shape != program.placement(parts).shape


def agreed(  # noqa: PLR0917 - what a choice must agree with
    table: Layouts, kinds: Sequence[KindOfMesh], layers: int, job: TrainJob, fixed: Mapping[str, Any], scope: Scope
) -> Agreed:
    """The choices that do not contradict each kind of mesh. table: all choices."""
    width = max(1, _width(table))
    rows = [np.flatnonzero(_agree(table, kind, layers, job, fixed, scope)) for kind in kinds]
    starts = [np.flatnonzero(np.diff(own // width, prepend=-1)) for own in rows]
    before = np.cumsum([0, *(len(own) for own in rows)])
    groups = [start + at for start, at in zip(starts, before.tolist(), strict=False)]
    return Agreed(
        choices=np.concatenate([np.zeros(0, dtype=np.int64), *rows]),
        groups=np.concatenate([*groups, before[-1:]]),
        kinds=np.cumsum([0, *(len(start) for start in starts)]),
    )


def _width(table: Layouts) -> int:
    """Lines: how many neighbours differ in nothing else."""
    few, _ = distinct(table, ("schedule", "virtual_stages"))
    return len(few)


def _agree(  # noqa: PLR0917 - as above
    table: Layouts, mesh: KindOfMesh, layers: int, job: TrainJob, fixed: Mapping[str, Any], scope: Scope
) -> Bools:
    asked = scope == "asked"

    def bound(*names: str) -> bool:
        """Whether fields must agree: not where all are fixed and it does no harm, nor where one is and it is judged."""
        given = [name in fixed for name in names]
        return not (any(given) if asked else all(given))

    def judged(*names: str) -> bool:
        return not (asked and any(name in fixed for name in names))

    kept = np.ones(len(table), dtype=np.bool_)
    if bound("zero", "dp_shard"):
        kept &= np.where(table.degree("zero") > 0, mesh.sharded, not mesh.dp_sharded)
    if bound("sp", "tp"):
        kept &= ~table.columns["sp"] | mesh.cut
    if bound("schedule", "pp"):
        kept &= _named(table, "schedule") == (mesh.pp > 1)
    if judged("micro_batch", "dp_shard", "dp_replicate"):
        kept &= job.global_batch % (mesh.copies * table.degree("micro_batch")) == 0
    if judged("recompute"):
        kept &= _long_enough(table, mesh.pp, layers)
    if judged("schedule", "virtual_stages", "pp", "micro_batch"):
        rows = np.flatnonzero(kept)
        kept[rows] = _taken(layers, job, mesh, table.take(rows))
    return kept


def _named(table: Layouts, name: str) -> Bools:
    """Where a column holds a name, not None."""
    found = table.values_of(name)
    return np.array([item is not None for item in found.values], dtype=np.bool_)[found.numbers]


def _long_enough(table: Layouts, stages: int, layers: int) -> Bools:
    """Where a virtual stage has as many layers as a policy spreads over: with fewer it is another policy's twin."""
    found = table.values_of("recompute")
    spread = [read_recompute(name) for name in found.values]
    needed = np.array([item.every * item.chunk for item in spread], dtype=np.int64)[found.numbers]
    return needed <= divide_up(np.asarray(layers), stages * table.degree("virtual_stages"))


def _taken(layers: int, job: TrainJob, mesh: KindOfMesh, table: Layouts) -> Bools:
    """Choices whose schedule takes the stages and micro-batches, with a layer for every virtual stage."""
    few, place = distinct(table, ("schedule", "virtual_stages", "micro_batch"))
    counts: Ints = np.maximum(job.global_batch // (mesh.copies * few.degree("micro_batch")), 1)
    rows = zip(few.columns["schedule"].tolist(), few.degree("virtual_stages").tolist(), counts.tolist(), strict=True)
    taken = [
        takes(layers, name, Shape(stages=mesh.pp, micro_batches=count, virtual_stages=pieces))
        for name, pieces, count in rows
    ]
    return np.array(taken, dtype=np.bool_)[place]


def _has_formula(name: str) -> bool:
    return read_schedule(name).BUBBLE is not None


def _column(items: list[Any]) -> Any:
    words = not items or items[0] is None or isinstance(items[0], str)
    found = np.empty(len(items), dtype=object if words else np.bool_ if isinstance(items[0], bool) else np.int64)
    found[:] = items
    return found
