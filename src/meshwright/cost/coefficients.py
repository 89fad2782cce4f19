"""A program and the shape of a group go in; what its rounds ask of two classes of links comes out, as coefficients.

A group of n ranks in b boxes has its ranks in order, as equally in the boxes as whole numbers allow. Of a round count
the bytes of the busiest port of a rank, in or out, whatever their way (in a box without links of its own all share the
host's); and those of a port that leave or enter the box, by the rank's own share of the NICs. What libraries lay in
channels, each with an order of its own of a box's ranks, loads all ports of a box alike. What takes longer limits the
round: on a system's network the second depth of `collective time` says the same, and at most as much less as the bytes
of NICs take on the links inside. Leaves out that links inside a box may be shared, and start skew.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from meshwright.base.traced import is_traced, stated, values
from meshwright.workload.channels import in_channels_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.cost.groups import Group
    from meshwright.workload.programs import Program


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounds:
    """Columns, one row a kind of rounds. port, far: pieces of the busiest port, of all and of those beyond its box.

    leaves: whether some send leaves its box.
    """

    times: Ints
    port: Floats
    far: Floats
    leaves: Bools
    message_pieces: int
    launches: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Columns, one row a shape; see `Coefficients`."""

    near_rounds: Ints
    far_rounds: Ints
    near_pieces: Floats
    far_pieces: Floats
    port_pieces: Floats
    message_pieces: Ints
    launches: Ints
    permitted: Bools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coefficients:
    """Of every group of a column, looked up as they are asked for; zero where the algorithm does not permit it.

    tables: one for each side of the ratios at which the limit of some rounds turns.   kind: of the groups, or of each,
    which of these sides the ratio of its bandwidths is on.
    """

    group: Group
    tables: Mapping[int, Table]
    kind: Ints
    label: str
    source: str

    @property
    def near_rounds(self) -> Ints:
        """Rounds that stay in a box."""
        return self._column("near_rounds")

    @property
    def far_rounds(self) -> Ints:
        """Rounds of which a send leaves its box."""
        return self._column("far_rounds")

    @property
    def rounds(self) -> Ints:
        """All of them."""
        return self.near_rounds + self.far_rounds

    @property
    def near_pieces(self) -> Floats:
        """Of rounds that the near links limit the pieces of the busiest port."""
        return self._column("near_pieces")

    @property
    def far_pieces(self) -> Floats:
        """Of rounds that the far links limit the pieces that leave or enter a box by the busiest port."""
        return self._column("far_pieces")

    @property
    def port_pieces(self) -> Floats:
        """Of all rounds the pieces of the busiest port."""
        return self._column("port_pieces")

    @property
    def message_pieces(self) -> Ints:
        """How many pieces a message has."""
        return self._column("message_pieces")

    @property
    def launches(self) -> Ints:
        """How often a rank starts work."""
        return self._column("launches")

    @property
    def permitted(self) -> Bools:
        """Whether the algorithm takes the group."""
        return self._looked_up("permitted")

    @property
    def leaves(self) -> bool:
        """Whether some group has rounds that leave a box."""
        return any(bool(table.far_rounds.any()) for table in self.tables.values())

    @property
    def all_permitted(self) -> bool:
        """Whether the algorithm takes every group."""
        return all(bool(table.permitted.all()) for table in self.tables.values())

    def _looked_up(self, name: str) -> Any:
        found = [getattr(table, name)[self.group.shape] for table in self.tables.values()]
        return found[0] if len(found) == 1 else np.select([self.kind == each for each in self.tables], found)

    def _column(self, name: str) -> Any:
        """Traced as a fact of the program, where the groups are; what changes nothing stays a plain number."""
        found = self._looked_up(name)
        if not is_traced(self.group.ranks):
            return found
        told: Any = stated(found, self.group.ranks, f"{name}_of_{self.label}", basis="formula", source=self.source)
        return cast("Any", np.where(found == (name == "message_pieces"), found.astype(object), told))


def coefficients(module: ModuleType, operation: str, group: Group) -> Coefficients:
    """Those of each group's shape, looked up in a table of the shapes that occur. Raises COL010 (operation)."""
    ratio = np.asarray(values(group.near.bandwidth_bytes_per_s) / values(group.far.bandwidth_bytes_per_s))
    kind = np.searchsorted(_turns(module, operation, group.shapes), ratio)
    kinds = [int(kind)] if kind.ndim == 0 else np.unique(kind).tolist()
    name = module.__name__.rpartition(".")[2]
    return Coefficients(
        group=group,
        tables={each: _table(module, operation, group.shapes, each) for each in kinds},
        kind=kind,
        label=name,
        source=f"rounds of the program {name} of {operation} on these ranks in these boxes",
    )


@lru_cache(maxsize=4096)
def _turns(module: ModuleType, operation: str, shapes: tuple[tuple[int, int], ...]) -> Floats:
    """Ratios of near over far bandwidth, ascending, beyond each of which the far links limit another kind of rounds."""
    found = [rounds_of(module, operation, *shape) for shape in shapes]
    leaving = [(item.port[item.far > 0], item.far[item.far > 0]) for item in found if item is not None]
    return np.unique(np.concatenate([np.zeros(0), *(port / far for port, far in leaving)]))


@lru_cache(maxsize=4096)
def _table(module: ModuleType, operation: str, shapes: tuple[tuple[int, int], ...], kind: int) -> Table:
    """One row a shape. kind: how many of the ratios at which a limit turns lie below that of the bandwidths."""
    found = [rounds_of(module, operation, *shape) for shape in shapes]
    turns = [0.0, *_turns(module, operation, shapes).tolist()]
    turns.append(2 * turns[-1] + 1)
    ratio = (turns[kind] + turns[kind + 1]) / 2

    def column(name: str) -> Any:
        return np.array([0 if item is None else _total(item, name, ratio) for item in found])

    return Table(
        near_rounds=column("near_rounds").astype(np.int64),
        far_rounds=column("far_rounds").astype(np.int64),
        near_pieces=column("near_pieces").astype(np.float64),
        far_pieces=column("far_pieces").astype(np.float64),
        port_pieces=column("port_pieces").astype(np.float64),
        message_pieces=np.array([1 if item is None else item.message_pieces for item in found], dtype=np.int64),
        launches=np.array([0 if item is None else item.launches for item in found], dtype=np.int64),
        permitted=np.array([item is not None for item in found]),
    )


def _total(found: Rounds, name: str, ratio: float) -> Any:
    far = found.far * ratio > found.port
    counted = {
        "near_rounds": ~found.leaves,
        "far_rounds": found.leaves,
        "near_pieces": found.port * ~far,
        "far_pieces": found.far * far,
        "port_pieces": found.port,
    }
    return (counted[name] * found.times).sum()


@lru_cache(maxsize=65_536)
def rounds_of(module: ModuleType, operation: str, ranks: int, boxes: int) -> Rounds | None:
    """The kinds of rounds of a registered program over `ranks` in `boxes`; None where it does not permit them.

    A switch that adds stands in one box. Raises COL010 (operation).
    """
    if operation in module.OPERATIONS and not module.permits(operation, ranks):
        return None
    program, box = program_in_boxes(module, operation, ranks, boxes)
    if program.switches and boxes > 1:
        return None
    alike = box if in_channels_of(module, operation, box) else np.arange(ranks)
    return counted(program, box, alike)


def program_in_boxes(module: ModuleType, operation: str, ranks: int, boxes: int) -> tuple[Program, Ints]:
    """The program, and the box of each rank: in order, as equally as whole numbers allow.

    Boxes are the nodes of an algorithm that has them, where they are equal. Raises COL002, COL010.
    """
    asked = {"node_size", "box_size"} & set(signature(module.program).parameters)
    equal = boxes > 1 and ranks % boxes == 0
    program: Program = module.program(operation, ranks, **(dict.fromkeys(asked, ranks // boxes) if equal else {}))
    return program, np.arange(ranks) * boxes // ranks


def counted(program: Program, box: Ints, alike: Ints) -> Rounds:
    """The kinds of rounds of a program whose ranks stand in these boxes: equal ones once, with how often they occur.

    alike: of each rank a number that ranks share whose ports carry the same, the mean of what they send and receive.
    """
    steps = program.steps
    if not steps:
        none = np.zeros(0, dtype=np.int64)
        return Rounds(
            times=none,
            port=np.zeros(0),
            far=np.zeros(0),
            leaves=none > 0,
            message_pieces=program.message_pieces,
            launches=program.launches,
        )
    sender, receiver, pieces = (
        np.concatenate([np.asarray(getattr(step, name)) for step in steps]) for name in ("sender", "receiver", "pieces")
    )
    of_step = np.repeat(np.arange(len(steps)), [len(step.sender) for step in steps])
    where = np.concatenate([box, np.full(program.switches, box[0])])
    crossing = np.where(where[sender] != where[receiver], pieces, 0)
    ports = np.bincount(alike)
    port = np.concatenate([alike, len(ports) + np.arange(program.switches)])

    def busiest(moved: Ints) -> Floats:
        both = (_by_step(of_step, port[side], moved, len(ports) + program.switches) for side in (sender, receiver))
        found: Floats = (np.maximum(*both)[:, : len(ports)] / ports).max(axis=1)
        return found

    leaves = np.bincount(of_step, weights=crossing) > 0
    rows = np.stack([busiest(pieces), busiest(crossing), leaves], axis=1)
    kinds, place = np.unique(rows, axis=0, return_inverse=True)
    times = np.bincount(place.reshape(-1), weights=[step.times for step in steps])
    return Rounds(
        times=times.astype(np.int64),
        port=cast("Floats", kinds[:, 0]),
        far=cast("Floats", kinds[:, 1]),
        leaves=kinds[:, 2] > 0,
        message_pieces=program.message_pieces,
        launches=program.launches,
    )


def _by_step(of_step: Ints, who: Ints, weights: Ints, count: int) -> Floats:
    """[steps, count] of weights added up."""
    steps = int(of_step[-1]) + 1
    found = np.bincount(of_step * count + who, weights=weights, minlength=steps * count)
    return cast("Floats", found.reshape(steps, count))
