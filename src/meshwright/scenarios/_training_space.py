"""A model, a system and a job go in; every layout that could be launched comes out, as tables of bounded length.

The mesh is the outer loop: layouts of one mesh follow each other, so that what depends on few fields is evaluated once
for many of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import LayoutError
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import Layouts, columns, distinct
from meshwright.layout.rules import keeps_all
from meshwright.model.feed_forwards import Experts
from meshwright.search.candidates import divisors
from meshwright.workload.slots import SCHEDULES, Shape, read_schedule

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints
    from meshwright.job.train import TrainJob
    from meshwright.model.model import Model
    from meshwright.system.system import System

MESH: Final = ("tp", "cp", "pp", "dp_shard", "dp_replicate", "ep", "etp")
CHOICES: Final = ("sp", "zero", "micro_batch", "schedule", "virtual_stages", "recompute", "offload")
POLICIES: Final = ("none", "attention", "selective", "full", "every_2", "uniform_2", "uniform_4")
OFFLOADS: Final = ("none",)
ROWS: Final = 65_536
_NO_FIELD: Final = frozenset({"attention", "replicas"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Space:
    """meshes: a table whose rows keep every rule.   choices: columns of the other fields, all combinations.

    fixed: what the user fixed.
    """

    meshes: Layouts
    choices: Layouts
    fixed: Mapping[str, Any]

    @property
    def size(self) -> int:
        """Combinations, before those that contradict each other are left out."""
        return len(self.meshes) * len(self.choices)


@dataclass(frozen=True, slots=True)
class _KindOfMesh:
    """cut: tp above 1.   copies: of attention.   sharded: dp_shard above 1.   whole: experts cover whole tp groups."""

    cut: bool
    pp: int
    copies: int
    sharded: bool
    whole: bool


def training_space(model: Model, system: System, job: TrainJob, fixed: Mapping[str, Any]) -> Space:
    """The space under the fixed fields. Raises LAY012 (a field no training layout has) and LAY002 (devices)."""
    foreign = [name for name in fixed if name in _NO_FIELD and fixed[name] != _default(name)]
    if foreign:
        cause = f"--layout {foreign[0]}={fixed[foreign[0]]}: plan train has one replica, with data-parallel attention"
        raise LayoutError(12, cause, f"leave {foreign[0]} out")
    meshes = _meshes(model, system, job, fixed)
    choices = Layouts(columns=_choices(model, job, meshes, fixed))
    return Space(meshes=_numbered(meshes, MESH), choices=_numbered(choices, CHOICES), fixed=fixed)


def _numbered(table: Layouts, names: Sequence[str]) -> Layouts:
    """The table with some columns numbered once, for all the tables that are taken from it."""
    return Layouts(columns=table.columns, numbered={name: table.values_of(name) for name in names})


def chunks(space: Space, model: Model, job: TrainJob, most: int = ROWS) -> Iterator[Layouts]:
    """Tables of at most `most` rows, in a fixed order, that together are the space without contradictions."""
    known: dict[tuple[Any, ...], Ints] = {}
    meshes: list[Ints] = []
    choices: list[Ints] = []
    held = 0
    for number, mesh in enumerate(_kinds_of_mesh(space)):
        if mesh not in known:
            known[mesh] = np.flatnonzero(_agree(space, model, job, _KindOfMesh(*mesh)))
        choice = known[mesh]
        while len(choice):
            taken, choice = choice[: most - held], choice[most - held :]
            meshes.append(np.full(len(taken), number))
            choices.append(taken)
            held += len(taken)
            if held == most:
                yield _joined(space, meshes, choices)
                meshes, choices, held = [], [], 0
    if held:
        yield _joined(space, meshes, choices)


def _joined(space: Space, meshes: list[Ints], choices: list[Ints]) -> Layouts:
    """Meshes with their choices beside them."""
    mesh, choice = space.meshes.take(np.concatenate(meshes)), space.choices.take(np.concatenate(choices))
    return replace(
        mesh, columns={**mesh.columns, **choice.columns}, numbered={**mesh.numbered, **choice.numbered}
    )


def _kinds_of_mesh(space: Space) -> list[tuple[Any, ...]]:
    """What of every mesh decides which choices it takes; see `_KindOfMesh`."""
    held = {name: space.meshes.degree(name) for name in MESH}
    copies = held["dp_shard"] * held["dp_replicate"]
    whole = held["ep"] * held["etp"] % held["tp"] == 0
    columns_of = (held["tp"] > 1, held["pp"], copies, held["dp_shard"] > 1, whole)
    return list(zip(*(column.tolist() for column in columns_of), strict=True))


def micro_batches(job: TrainJob, layouts: Layouts) -> Ints:
    """Micro-batches that a rank accumulates in a step; 0 where the copies and micro-batches do not divide it."""
    each = layouts.degree("dp_shard") * layouts.degree("dp_replicate") * layouts.degree("micro_batch")
    plain: Any = job.global_batch
    return np.where(plain % each == 0, plain // each, 0)


def _default(name: str) -> Any:
    return "data_parallel" if name == "attention" else getattr(Layout(), name)


def _meshes(model: Model, system: System, job: TrainJob, fixed: Mapping[str, Any]) -> Layouts:
    """Degrees whose product is the number of devices; the copies of attention see different samples."""
    devices = system.devices
    degrees = divisors(devices)
    heads = max(block.mixer.heads for block in model.kinds)
    tried = {
        "tp": [degree for degree in degrees if heads % degree == 0],
        "cp": [degree for degree in degrees if job.sequence % (2 * degree) == 0 or degree == 1],
        "pp": [degree for degree in degrees if degree <= model.layers],
        "dp_shard": list(degrees),
        "dp_replicate": list(degrees),
    }
    tried = {name: [fixed[name]] if name in fixed else values for name, values in tried.items()}
    rows = _products(tried, devices)
    if not rows:
        asked = ", ".join(f"{name}={fixed[name]}" for name in tried if name in fixed) or "any degrees"
        cause = f"no mesh with {asked} has the {devices} devices of {system.name}"
        raise LayoutError(2, cause, "leave dp_replicate or dp_shard out of --layout, or give another number of boxes")
    held = _with_experts(model, np.array(rows, dtype=np.int64), fixed)
    degrees_of = {name: held[:, place] for place, name in enumerate(MESH)}
    table = columns(degrees_of)
    table = table.changed({"attention": np.full(len(table), "data_parallel", dtype=object)})
    table = replace(table, order=PIPELINE_OUTSIDE)
    if fixed.keys() >= {"tp", "pp"}:
        return table
    kept = keeps_all(model, table.changed({"sp": np.ones(len(table), dtype=np.bool_)}))
    return table.take(np.flatnonzero(kept)) if kept.any() else table


def _products(tried: Mapping[str, Sequence[int]], devices: int) -> list[tuple[int, ...]]:
    """tp, cp, pp, dp_shard, dp_replicate of every mesh of all devices."""
    found: list[tuple[int, ...]] = []
    replicates = set(tried["dp_replicate"])
    for tp, cp, pp in product(tried["tp"], tried["cp"], tried["pp"]):
        if devices % (tp * cp * pp):
            continue
        rest = devices // (tp * cp * pp)
        found += [
            (tp, cp, pp, shard, rest // shard)
            for shard in tried["dp_shard"]
            if rest % shard == 0 and rest // shard in replicates
        ]
    return found


def _with_experts(model: Model, meshes: Ints, fixed: Mapping[str, Any]) -> Ints:
    """Every mesh with every ep and etp that lay the experts over its stage."""
    experts = [block.feed_forward for block in model.kinds if isinstance(block.feed_forward, Experts)]
    if not experts:
        pair = [fixed.get("ep", 1), fixed.get("etp", 1)]
        return np.concatenate([meshes, np.tile(np.array(pair, dtype=np.int64), (len(meshes), 1))], axis=1)
    counts = divisors(experts[0].experts)
    found: list[tuple[int, ...]] = []
    for row in meshes.tolist():
        tp, cp, _, shard, replicate = row
        ranks = tp * cp * shard * replicate
        widths = [fixed["etp"]] if "etp" in fixed else divisors(tp)
        for ep, etp in product([fixed["ep"]] if "ep" in fixed else counts, widths):
            if ranks % (ep * etp) == 0 or "ep" in fixed:
                found.append((*row, ep, etp))
    return np.array(found, dtype=np.int64).reshape(-1, len(MESH))


def _choices(model: Model, job: TrainJob, meshes: Layouts, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """All combinations of the fields beside the mesh."""
    piped = bool((meshes.degree("pp") > 1).any())
    schedules = _schedules(model, meshes, fixed) if piped else [(None, 1)]
    axes: dict[str, Sequence[Any]] = {
        "offload": OFFLOADS,
        "recompute": POLICIES,
        "sp": [False, True],
        "zero": [0, 1, 2, 3],
        "micro_batch": [size for size in divisors(job.global_batch) if size <= _most_micro_batch(job)],
        "line": range(len(schedules)),
    }
    axes = {name: [fixed[name]] if name in fixed else values for name, values in axes.items()}
    grid = np.meshgrid(*(np.arange(len(values)) for values in axes.values()), indexing="ij")
    found: dict[str, Any] = {}
    for (name, values), places in zip(axes.items(), grid, strict=True):
        kind = object if isinstance(values[0], str) else np.bool_ if isinstance(values[0], bool) else np.int64
        found[name] = np.array(list(values), dtype=kind)[places.reshape(-1)]
    line = found.pop("line")
    names = np.empty(len(schedules), dtype=object)
    names[:] = [name for name, _ in schedules]
    found["schedule"] = names[line]
    found["virtual_stages"] = np.array([chunk for _, chunk in schedules], dtype=np.int64)[line]
    return found


def _most_micro_batch(job: TrainJob) -> int:
    return max(1, min(job.global_batch, 64))


def _schedules(model: Model, meshes: Layouts, fixed: Mapping[str, Any]) -> list[tuple[str | None, int]]:
    """Schedules with their virtual stages a rank; those without a formula of their bubble are for `schedule` alone."""
    least = int(meshes.degree("pp").min(initial=model.layers))
    most = max(1, model.layers // max(least, 2))
    names = [fixed["schedule"]] if "schedule" in fixed else [name for name in SCHEDULES.names() if _has_formula(name)]
    found: list[tuple[str | None, int]] = []
    for name in names:
        chunks_of = range(2, min(most, 12) + 1) if name == "interleaved" else (1,)
        found += [(name, count) for count in ([fixed["virtual_stages"]] if "virtual_stages" in fixed else chunks_of)]
    return found if "schedule" in fixed and not (meshes.degree("pp") == 1).any() else [(None, 1), *found]


def _has_formula(name: str) -> bool:
    return read_schedule(name).BUBBLE is not None


def _agree(space: Space, model: Model, job: TrainJob, mesh: _KindOfMesh) -> Bools:
    """Choices that do not contradict the mesh; a field that the user fixed is kept, to be judged."""
    chosen, fixed = space.choices.columns, space.fixed
    kept = np.ones(len(chosen["zero"]), dtype=np.bool_)
    if "zero" not in fixed:
        kept &= (chosen["zero"] > 0) == mesh.sharded
    if "sp" not in fixed:
        kept &= ~chosen["sp"] | mesh.cut
        kept &= chosen["sp"] | mesh.whole
    kept &= _named(space.choices, "schedule") == (mesh.pp > 1)
    if "micro_batch" not in fixed or not {"dp_shard", "dp_replicate"} & fixed.keys():
        kept &= job.global_batch % (mesh.copies * chosen["micro_batch"]) == 0
    if not ("schedule" in fixed and "pp" in fixed):
        rows = np.flatnonzero(kept)
        kept[rows] = _taken(model.layers, job, mesh, space.choices.take(rows))
    return kept


def _named(choices: Layouts, name: str) -> Bools:
    """Where a column holds a name, not None."""
    found = choices.values_of(name)
    return np.array([item is not None for item in found.values], dtype=np.bool_)[found.numbers]


def _taken(layers: int, job: TrainJob, mesh: _KindOfMesh, chosen: Layouts) -> Bools:
    """Choices whose schedule takes the stages and micro-batches, with a layer for every virtual stage."""
    few, place = distinct(chosen, ("schedule", "virtual_stages", "micro_batch"))
    counts: Ints = job.global_batch // (mesh.copies * few.degree("micro_batch"))
    rows = zip(few.columns["schedule"].tolist(), few.degree("virtual_stages").tolist(), counts.tolist(), strict=True)
    return np.array([_takes(layers, name, mesh.pp, pieces, count) for name, pieces, count in rows], np.bool_)[place]


@cache
def _takes(layers: int, name: str | None, stages: int, pieces: int, count: int) -> bool:
    if name is None:
        return True
    program = read_schedule(name)
    shape = Shape(stages=stages, micro_batches=count, virtual_stages=pieces)
    return program.refusal(shape) is None and program.placement(shape).shape[1] <= layers
