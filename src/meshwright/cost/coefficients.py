"""A program and the shape of a group go in; what its rounds ask of two classes of links comes out, as coefficients.

A group of n ranks in b boxes has its ranks in order, as equally in the boxes as whole numbers allow. Of a round count
the bytes of the busiest port of a rank, in or out, whatever their way; and the bytes that leave or enter the busiest
box, shared by the members there, over whose NICs libraries spread their channels. What takes longer limits the round.
Leaves out where in a box the bytes cross, that links inside a box may be shared, and start skew.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from meshwright.base.traced import is_traced, stated, values

if TYPE_CHECKING:
    from types import ModuleType

    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.cost.groups import Group
    from meshwright.workload.programs import Program


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounds:
    """Columns, one row a kind of rounds. port, box: pieces of the busiest port, and of a member of the busiest box.

    leaves: whether some send leaves its box.
    """

    times: Ints
    port: Ints
    box: Floats
    leaves: Bools
    message_pieces: int
    launches: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coefficients:
    """Columns, one row a group, zero where the algorithm does not permit it.

    near_rounds, far_rounds: those inside boxes, and those with a send that leaves one.   near_pieces, far_pieces: of
    rounds that the near links limit the pieces of the busiest port, of those that the far ones do those of the busiest
    NIC; all of `message_pieces` parts of the message.   port_pieces: of all rounds those of the busiest port.
    """

    near_rounds: Ints
    far_rounds: Ints
    near_pieces: Ints
    far_pieces: Floats
    port_pieces: Ints
    message_pieces: Ints
    launches: Ints
    permitted: Bools

    @property
    def rounds(self) -> Ints:
        """All of them."""
        return self.near_rounds + self.far_rounds


def coefficients(module: ModuleType, operation: str, group: Group) -> Coefficients:
    """Those of each group's shape, looked up in a table of the shapes that occur. Raises COL010 (operation)."""
    ratio = np.asarray(values(group.near.bandwidth_bytes_per_s) / values(group.far.bandwidth_bytes_per_s))
    kind = np.searchsorted(_turns(module, operation, group.shapes), ratio)
    tables = {each: _table(module, operation, group.shapes, each) for each in np.unique(kind).tolist()}
    name = module.__name__.rpartition(".")[2]

    def looked_up(label: str) -> Any:
        """By one ratio of the bandwidths, or by a column of them."""
        found = [getattr(table, label)[group.shape] for table in tables.values()]
        return found[0] if len(found) == 1 else np.select([kind == each for each in tables], found)

    def column(label: str) -> Any:
        found = looked_up(label)
        if not is_traced(group.ranks) or label == "permitted":
            return found
        source = f"rounds of the program {name} of {operation} on these ranks in these boxes"
        told: Any = stated(found, group.ranks, f"{label}_of_{name}", basis="formula", source=source)
        return np.where(found == (label == "message_pieces"), found.astype(object), told)

    return Coefficients(**{label: column(label) for label in Coefficients.__slots__})


@lru_cache(maxsize=4096)
def _turns(module: ModuleType, operation: str, shapes: tuple[tuple[int, int], ...]) -> Floats:
    """Ratios of near over far bandwidth, ascending, beyond each of which the far links limit another kind of rounds."""
    found = [rounds_of(module, operation, *shape) for shape in shapes]
    leaving = [(item.port[item.box > 0], item.box[item.box > 0]) for item in found if item is not None]
    return cast("Floats", np.unique(np.concatenate([np.zeros(0), *(port / box for port, box in leaving)])))


@lru_cache(maxsize=4096)
def _table(module: ModuleType, operation: str, shapes: tuple[tuple[int, int], ...], kind: int) -> Coefficients:
    """One row a shape. kind: how many of the ratios at which a limit turns lie below that of the bandwidths."""
    found = [rounds_of(module, operation, *shape) for shape in shapes]
    turns = [0.0, *_turns(module, operation, shapes).tolist()]
    turns.append(2 * turns[-1] + 1)
    ratio = (turns[kind] + turns[kind + 1]) / 2

    def column(name: str) -> Any:
        return np.array([0 if item is None else _total(item, name, ratio) for item in found])

    return Coefficients(
        near_rounds=column("near_rounds").astype(np.int64),
        far_rounds=column("far_rounds").astype(np.int64),
        near_pieces=column("near_pieces").astype(np.int64),
        far_pieces=column("far_pieces").astype(np.float64),
        port_pieces=column("port_pieces").astype(np.int64),
        message_pieces=np.array([1 if item is None else item.message_pieces for item in found], dtype=np.int64),
        launches=np.array([0 if item is None else item.launches for item in found], dtype=np.int64),
        permitted=np.array([item is not None for item in found]),
    )


def _total(found: Rounds, name: str, ratio: float) -> Any:
    far = found.box * ratio > found.port
    counted = {
        "near_rounds": ~found.leaves,
        "far_rounds": found.leaves,
        "near_pieces": found.port * ~far,
        "far_pieces": found.box * far,
        "port_pieces": found.port,
    }
    return (counted[name] * found.times).sum()


@lru_cache(maxsize=65_536)
def rounds_of(module: ModuleType, operation: str, ranks: int, boxes: int) -> Rounds | None:
    """The kinds of rounds of a registered program over `ranks` in `boxes`; None where it does not permit them.

    Nodes of an algorithm that has them are the boxes. A switch that adds stands in one box. Raises COL010 (operation).
    """
    if operation in module.OPERATIONS and not module.permits(operation, ranks):
        return None
    nodes = boxes > 1 and ranks % boxes == 0 and "node_size" in signature(module.program).parameters
    program = module.program(operation, ranks, **({"node_size": ranks // boxes} if nodes else {}))
    if program.switches and boxes > 1:
        return None
    return counted(program, np.arange(ranks) * boxes // ranks)


def counted(program: Program, box: Ints) -> Rounds:
    """The kinds of rounds of a program whose ranks stand in these boxes: equal ones once, with how often they occur."""
    steps = program.steps
    if not steps:
        none = np.zeros(0, dtype=np.int64)
        return Rounds(
            times=none,
            port=none,
            box=np.zeros(0),
            leaves=none > 0,
            message_pieces=program.message_pieces,
            launches=program.launches,
        )
    sender, receiver, pieces = (
        np.concatenate([np.asarray(getattr(step, name)) for step in steps]) for name in ("sender", "receiver", "pieces")
    )
    of_step = np.repeat(np.arange(len(steps)), [len(step.sender) for step in steps])
    ranks, members = program.ranks, np.bincount(box)
    where = np.concatenate([box, np.full(program.switches, box[0])])
    crossing = np.where(where[sender] != where[receiver], pieces, 0)
    port = np.maximum(*(_by_step(of_step, side, pieces, ranks + program.switches) for side in (sender, receiver)))
    shared = np.maximum(*(_by_step(of_step, where[side], crossing, len(members)) for side in (sender, receiver)))
    leaves = np.bincount(of_step, weights=crossing) > 0
    rows = np.stack([port[:, :ranks].max(axis=1), (shared / members).max(axis=1), leaves], axis=1)
    kinds, place = np.unique(rows, axis=0, return_inverse=True)
    times = np.bincount(place.reshape(-1), weights=[step.times for step in steps])
    return Rounds(
        times=times.astype(np.int64),
        port=kinds[:, 0].astype(np.int64),
        box=cast("Floats", kinds[:, 1]),
        leaves=kinds[:, 2] > 0,
        message_pieces=program.message_pieces,
        launches=program.launches,
    )


def _by_step(of_step: Ints, who: Ints, weights: Ints, count: int) -> Floats:
    """[steps, count] of weights added up."""
    steps = int(of_step[-1]) + 1
    found = np.bincount(of_step * count + who, weights=weights, minlength=steps * count)
    return cast("Floats", found.reshape(steps, count))
