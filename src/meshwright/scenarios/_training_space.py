"""A model, a system and a job go in; every layout that could be launched comes out, as tables of bounded length.

The mesh is the outer loop: layouts of one mesh follow each other, so that what depends on few fields is evaluated once
for many of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import LayoutError
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import Layouts, columns
from meshwright.layout.rules import RULES, head_counts, keeps, keeps_all
from meshwright.model.feed_forwards import Experts
from meshwright.scenarios._training_choices import CHOICES, Agreed, KindOfMesh, Scope, agreed, choices, lines
from meshwright.scenarios._training_context import takes_cp
from meshwright.scenarios._training_host import check_offload
from meshwright.search.candidates import divisors

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.cost.pipelines import Line
    from meshwright.job.train import TrainJob
    from meshwright.layout.rules import Rule
    from meshwright.model.model import Model
    from meshwright.system.system import System
    from meshwright.workload.context_split import ContextPlan

MESH: Final = ("tp", "cp", "pp", "dp_shard", "dp_replicate", "ep", "etp")
ROWS: Final = 65_536
_OF_ROWS: Final = frozenset({"schedule", "virtual_stages", "offload"})
"""Fields in which the layouts of one group differ, or the spaces of a search."""
_NO_FIELD: Final = frozenset({"attention", "replicas"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Space:
    """Meshes with the choices that each takes.

    meshes: a table, with the number of each one's kind in `kind`.   choices: a table of the other fields, of which
    `agreed` says what each kind takes.   lines: schedules with virtual stages that occur.   scope: which layouts.
    engine: rules of one.   kept: of these, what every layout of the space keeps: all, or where layouts are asked about,
    those that look at no fixed field.
    """

    meshes: Layouts
    kind: Ints
    choices: Layouts
    agreed: Agreed
    lines: tuple[Line, ...]
    scope: Scope
    engine: tuple[Rule, ...] = ()
    kept: tuple[Rule, ...] = ()

    @property
    def size(self) -> int:
        """Layouts, before those that break a rule are left out."""
        bounds = self.agreed.groups[self.agreed.kinds]
        return int(np.diff(bounds)[self.kind].sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """Layouts that differ in nothing but their line, group by group. mesh: its number.   group: in `Agreed.groups`."""

    mesh: Ints
    group: Ints

    def __len__(self) -> int:
        """Number of groups."""
        return len(self.mesh)

    def take(self, rows: Any) -> Groups:
        """The chosen groups."""
        return Groups(mesh=self.mesh[rows], group=self.group[rows])


def training_space(  # noqa: PLR0917 - the nouns, what is fixed and what is asked of the layouts
    model: Model,
    system: System,
    job: TrainJob,
    fixed: Mapping[str, Any],
    context: ContextPlan,
    scope: Scope = "launchable",
    engine: tuple[Rule, ...] = (),
) -> Space:
    """The space under the fixed fields, without offload where none is fixed: see `offloading`.

    Raises LAY012 (a field no training layout has), LAY002 (devices), LAY035 and JOB024 (offload).
    """
    foreign = [name for name in fixed if name in _NO_FIELD and fixed[name] != _default(name)]
    if foreign:
        cause = f"--layout {foreign[0]}={fixed[foreign[0]]}: plan train has one replica, with data-parallel attention"
        raise LayoutError(12, cause, f"leave {foreign[0]} out")
    check_offload(system, fixed)
    meshes = _meshes(model, system, job, fixed, context, scope)
    line = lines(model.layers, meshes.degree("pp"), fixed, scope)
    table = _numbered(choices(job, line, fixed), CHOICES)
    kinds = _kinds_of_mesh(meshes)
    known = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    return Space(
        meshes=_numbered(meshes, MESH),
        kind=np.array([known[kind] for kind in kinds], dtype=np.int64),
        choices=table,
        agreed=agreed(table, [KindOfMesh(*kind) for kind in known], model.layers, job, fixed, scope),
        lines=line,
        scope=scope,
        engine=engine,
        kept=tuple(rule for rule in engine if scope == "launchable" or not fixed.keys() & {*rule.reads}),
    )


def offloading(space: Space, offload: str) -> Space:
    """The space with another offload throughout."""
    held = space.choices.changed({"offload": np.full(len(space.choices), offload, dtype=object)})
    return replace(space, choices=_numbered(held, CHOICES))


def takes_offload(space: Space, model: Model, offload: str) -> bool:
    """Whether the space's engine has an offload at all."""
    own = [rule for rule in space.engine if set(rule.reads) == {"offload"}]
    one = columns({"tp": np.ones(1, dtype=np.int64)}).changed({"offload": np.array([offload], dtype=object)})
    return bool(keeps(model, one, own).all())


def _numbered(table: Layouts, names: Sequence[str]) -> Layouts:
    """The table with some columns numbered once, for all the tables that are taken from it."""
    return replace(table, numbered={name: table.values_of(name) for name in names})


def group_tables(space: Space, model: Model, most: int = ROWS) -> Iterator[Groups]:
    """Tables of at most `most` groups, in a fixed order, that keep every rule where the space is of such."""
    first = space.agreed.kinds[space.kind]
    counts = space.agreed.kinds[space.kind + 1] - first
    for mesh, place in _dealt(counts, most):
        groups = Groups(mesh=mesh, group=first[mesh] + place)
        asked = [rule for rule in space.kept if not _OF_ROWS & set(rule.reads)]
        asked += [] if space.scope == "asked" else RULES
        yield groups.take(keeps(model, firsts(space, groups), asked)) if asked else groups


def firsts(space: Space, groups: Groups) -> Layouts:
    """The first layout of each group."""
    return _joined(space, groups.mesh, space.agreed.choices[space.agreed.groups[groups.group]])


def sizes(space: Space, groups: Groups) -> Ints:
    """How many layouts each group has."""
    bounds = space.agreed.groups
    return bounds[groups.group + 1] - bounds[groups.group]


def layouts_of(space: Space, model: Model, groups: Groups, most: int = ROWS) -> Iterator[Layouts]:
    """All layouts of the groups that an engine takes, in tables of at most `most` rows."""
    first = space.agreed.groups[groups.group]
    asked = [rule for rule in space.kept if _OF_ROWS & set(rule.reads)]
    for owner, place in _dealt(sizes(space, groups), most):
        found = _joined(space, groups.mesh[owner], space.agreed.choices[first[owner] + place])
        kept = found.take(np.flatnonzero(keeps(model, found, asked))) if asked else found
        if len(kept):
            yield kept


def chunks(space: Space, model: Model, most: int = ROWS) -> Iterator[Layouts]:
    """The whole space in tables of at most `most` rows, in a fixed order."""
    for groups in group_tables(space, model, most):
        yield from layouts_of(space, model, groups, most)


def _dealt(counts: Ints, most: int) -> Iterator[tuple[Ints, Ints]]:
    """For things of which owner i has `counts[i]`: owner and place at the owner, at most so many at once."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, most):
        number = np.arange(start, min(start + most, total))
        owner = np.searchsorted(ends, number, side="right")
        yield owner, number - (ends - counts)[owner]


def _joined(space: Space, mesh: Ints, choice: Ints) -> Layouts:
    """Meshes with their choices beside them."""
    outer, inner = space.meshes.take(mesh), space.choices.take(choice)
    both = {**outer.columns, **inner.columns}, {**outer.numbered, **inner.numbered}
    return replace(outer, columns=both[0], numbered=both[1])


def _kinds_of_mesh(meshes: Layouts) -> list[tuple[Any, ...]]:
    """What of every mesh decides which choices it takes; see `KindOfMesh`."""
    held = {name: meshes.degree(name) for name in MESH}
    copies = held["dp_shard"] * held["dp_replicate"]
    sharded = held["dp_shard"] * held["cp"] > 1
    columns_of = (held["tp"] > 1, held["pp"], copies, sharded, held["dp_shard"] > 1)
    return list(zip(*(column.tolist() for column in columns_of), strict=True))


def micro_batches(job: TrainJob, layouts: Layouts) -> Ints:
    """Micro-batches that a rank accumulates in a step; 0 where the copies and micro-batches do not divide it."""
    each = layouts.degree("dp_shard") * layouts.degree("dp_replicate") * layouts.degree("micro_batch")
    plain: Any = job.global_batch
    return np.where(plain % each == 0, plain // each, 0)


def _default(name: str) -> Any:
    return "data_parallel" if name == "attention" else getattr(Layout(), name)


def _meshes(  # noqa: PLR0917 - the nouns, what is fixed and how far to look
    model: Model, system: System, job: TrainJob, fixed: Mapping[str, Any], context: ContextPlan, scope: Scope
) -> Layouts:
    """Degrees whose product is the number of devices; the copies of attention see different samples."""
    devices = system.devices
    degrees = divisors(devices)
    heads = max(head_counts(model), default=1)
    tried = {
        "tp": [degree for degree in degrees if heads % degree == 0],
        "cp": [degree for degree in degrees if takes_cp(model, job, context, 1, degree)],
        "pp": [degree for degree in degrees if degree <= model.layers],
        "dp_shard": list(degrees),
        "dp_replicate": list(degrees),
    }
    tried = {name: [fixed[name]] if name in fixed else values for name, values in tried.items()}
    rows = _products(tried, devices)
    if not rows:
        raise _no_mesh(system, tried, {name: fixed[name] for name in tried if name in fixed})
    held = _with_experts(model, np.array(rows, dtype=np.int64), fixed, scope)
    degrees_of = {name: held[:, place] for place, name in enumerate(MESH)}
    table = columns(degrees_of)
    table = table.changed({"attention": np.full(len(table), "data_parallel", dtype=object)})
    table = replace(table, order=PIPELINE_OUTSIDE)
    if scope == "asked":
        return table
    kept = keeps_all(model, table.changed({"sp": np.ones(len(table), dtype=np.bool_)}))
    return table.take(np.flatnonzero(kept & takes_cp(model, job, context, table.degree("tp"), table.degree("cp"))))


def _no_mesh(system: System, tried: Mapping[str, Sequence[int]], fixed: Mapping[str, int]) -> LayoutError:
    """Why no mesh is left, with the nearest degree of one of the fixed axes that leaves one."""
    asked = ", ".join(f"{name}={degree}" for name, degree in fixed.items()) or "any degrees"
    cause = f"no mesh with {asked} has the {system.devices} devices of {system.name}"
    for name in ("dp_shard", "dp_replicate", "cp", "pp", "tp"):
        near = sorted(divisors(system.devices), key=lambda degree: (abs(degree - fixed.get(name, 1)), degree))
        for degree in near if name in fixed else ():
            if _products({**tried, name: [degree]}, system.devices):
                return LayoutError(2, cause, f"--layout {name}={degree}, the other fields as they are")
    return LayoutError(2, cause, "leave degrees out of --layout, or give another number of boxes")


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


def _with_experts(model: Model, meshes: Ints, fixed: Mapping[str, Any], scope: Scope) -> Ints:
    """Every mesh with every ep and etp that lay the experts over its stage."""
    experts = [block.feed_forward for block in model.kinds if isinstance(block.feed_forward, Experts)]
    if not experts:
        pair = [fixed.get("ep", 1), fixed.get("etp", 1)]
        return np.concatenate([meshes, np.tile(np.array(pair, dtype=np.int64), (len(meshes), 1))], axis=1)
    counts = divisors(experts[0].experts)
    judged = scope == "asked" and bool({"ep", "etp"} & fixed.keys())
    found: list[tuple[int, ...]] = []
    for row in meshes.tolist():
        tp, cp, _, shard, replicate = row
        ranks = tp * cp * shard * replicate
        widths = [fixed["etp"]] if "etp" in fixed else divisors(tp)
        for ep, etp in product([fixed["ep"]] if "ep" in fixed else counts, widths):
            if ranks % (ep * etp) == 0 or judged:
                found.append((*row, ep, etp))
    return np.array(found, dtype=np.int64).reshape(-1, len(MESH))
