"""How long does a collective take here, and by which algorithm? An operation, ranks, bytes and a fabric go in.

Every registered algorithm at one of three depths: alpha-beta of the ports, the busiest link of each round, or max-min
fair flows; where another one becomes the fastest as the message grows, and for a layout which links each of its groups
uses, come out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import CollectiveError
from meshwright.base.result import Candidate, Excluded, Result, Source, Verdict
from meshwright.base.units import Bytes, BytesPerSecond, show_bytes, show_rate, show_short
from meshwright.cost.collectives import COLLECTIVES, algbw_bytes_per_s, algorithms, busbw_bytes_per_s, busbw_factor
from meshwright.layout.axes import EXPERT_AXES, MESH_AXES
from meshwright.layout.mesh import groups as mesh_groups
from meshwright.scenarios._collective_depths import BASIS, DEPTHS, DepthName, Timed
from meshwright.scenarios._collective_expected import IN_SWITCH, reduces_in_switch
from meshwright.scenarios._collective_ports import busiest_link, crossings, ports
from meshwright.scenarios._collective_programs import Placed, placed
from meshwright.scenarios._collective_sizes import Crossover, Times, crossovers, curves
from meshwright.scenarios._shared import stated_system
from meshwright.scenarios._topology_links import link_name
from meshwright.workload.programs import sent_pieces
from meshwright.workload.traffic import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meshwright.base.numbers import Ints
    from meshwright.layout.layout import Layout
    from meshwright.system.graph import Fabric
    from meshwright.system.system import System

ALL: Final = "all"
_WHOLE: Final = "ranks"
_MOST_MERGES_SHOWN: Final = 64
_LEAST: Final = 2
_COPIES: Final = ("dp_replicate", "dp_shard")
"""Where attention is replicated all its copies serve the same requests, and have nothing to merge (section 6.3.1)."""
_MOST_BYTES: Final = 1 << 50
_NOT_MODELLED: Final = (
    "what processors do: launches of kernels, reductions, and the copy of a rank's own block",
    "protocols of a library, and queues, packets and congestion control of a network",
    "start skew: all ranks start at once",
)
_CHAPTER: Final = Source(
    key="collectives", title='Chapter "Supernodes"', place="sections 6.4, 6.5.1", read="2026-11-30"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Other traffic: from one device to another, for as long as it takes. rate: at most; None for its fair share."""

    sender: int
    receiver: int
    rate: BytesPerSecond | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveOptions:
    """What is asked. on: the system or topology, as typed.   ranks: the first devices of it; None for all.

    size: bytes of the message as nccl-tests counts them: all_gather and reduce_scatter the whole buffer, all_to_all
    what a rank sends in all, its own block included.   algorithm: names by comma, or all.   ports: whether links are
    listed.   channels: in which rings and trees over several boxes are laid; None for one a rank of a box.   seed: of
    flows that take paths by their hash, where the spec does not say.
    """

    operation: str
    on: str
    size: Bytes
    ranks: int | None = None
    algorithm: str = ALL
    depth: DepthName = "rounds"
    ports: bool = False
    channels: int | None = None
    beside: tuple[Beside, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Merge:
    """One axis whose groups run the operation at once. algorithms: what ran, by name; refused: what did not."""

    axis: str
    groups: tuple[Ints, ...]
    ran: Mapping[str, tuple[Placed, Timed]]
    refused: Mapping[str, Excluded]


def collective_time(
    options: CollectiveOptions, fabric: Fabric, system: System | None = None, layout: Layout | None = None
) -> Result:
    """Every algorithm asked for, those that run first, the fastest first; with a layout, of every axis.

    yes: at least one algorithm runs. Raises COL001 (algorithm), COL017 (operation), COL035 (ranks, bytes, channels, or
    a layout of a single rank), COL036 (other traffic), and for one algorithm alone what refuses it. Among `all`, a
    reduction in the switches of a system runs where it was measured; by name, anywhere, and said. Source: chapter
    "Supernodes", sections 6.4 and 6.5.1.
    """
    names = _names(options)
    axes = _axes(options, fabric, layout)
    merges = [_merge(axis, members, names, options, fabric, system) for axis, members in axes.items()]
    candidates = [item for merge in merges for item in _candidates(merge, options, alone=layout is None)]
    best = next((item for item in candidates if item.fits), None) if layout is None else None
    changes = crossovers(_times(merges[0], options)) if layout is None else ()
    return Result(
        command="collective time",
        verdict=_verdict(options, merges, candidates, changes),
        inputs={
            "model": None,
            "system": None if system is None else stated_system(system),
            "job": None,
            "layout": layout,
            "options": options,
        },
        best=best,
        candidates=tuple(candidates),
        flips=_flips(changes),
        notes=(*_supposed(merges, fabric, system), *_notes(options, merges, layout)),
        not_modelled=_NOT_MODELLED,
        sources=(*(() if system is None else system.facts.sources), _CHAPTER),
        basis={"candidates[]": BASIS[options.depth], "merges[]": BASIS[options.depth], "flips[]": BASIS[options.depth]},
        body={"fabric": fabric.title, "merges": [_told(merge, options, system) for merge in merges]},
    )


def collective_curves(options: CollectiveOptions, fabric: Fabric, system: System | None = None) -> dict[str, Any]:
    """Seconds against bytes of every algorithm that runs, and where the fastest changes. Raises as the other."""
    ((axis, members),) = _axes(options, fabric, None).items()
    merge = _merge(axis, members, _names(options), options, fabric, system)
    times = _times(merge, options)
    return {"curves": curves(times), "crossovers": crossovers(times)}


# ------------------------------------------------------------------------------------------------------- what is asked


def _names(options: CollectiveOptions) -> tuple[str, ...]:
    """The algorithms asked for. Raises COL017, COL001."""
    busbw_factor(options.operation, _LEAST)
    if not 1 <= options.size <= _MOST_BYTES:
        raise CollectiveError(35, f"a message of {options.size} B", "give --bytes from 1B to 1PiB")
    if options.algorithm == ALL:
        return algorithms(options.operation)
    asked = tuple(dict.fromkeys(name.strip().replace("-", "_") for name in options.algorithm.split(",")))
    for name in asked:
        COLLECTIVES.module(name)
    return asked


def _axes(options: CollectiveOptions, fabric: Fabric, layout: Layout | None) -> dict[str, tuple[Ints, ...]]:
    """Groups by axis: all ranks where there is no layout, else those of every axis above 1. Raises COL035."""
    devices = len(fabric.devices)
    if layout is None:
        ranks = devices if options.ranks is None else options.ranks
        if not _LEAST <= ranks <= devices:
            raise CollectiveError(35, f"{ranks} ranks on {devices} devices", f"give --ranks from 2 to {devices}")
        return _checked_channels(options, {_WHOLE: (np.arange(ranks),)})
    if options.ranks not in {None, layout.world_size} or not _LEAST <= layout.world_size <= devices:
        cause = f"--layout {layout.id} has {layout.world_size} ranks, on {devices} devices"
        raise CollectiveError(35, cause, f"give degrees whose product is from 2 to {devices}, and no other --ranks")
    apart = ("replicas", *(_COPIES if layout.attention == "replicated" else ()))
    axes = [axis for axis in (*reversed(MESH_AXES), *EXPERT_AXES) if axis not in apart and getattr(layout, axis) > 1]
    if not axes:
        raise CollectiveError(35, f"--layout {layout.id} has no axis that merges anything", "give tp, ep or another")
    found = {axis: tuple(np.array(group) for group in mesh_groups(layout, axis)) for axis in axes}
    return _checked_channels(options, found)


def _checked_channels(options: CollectiveOptions, axes: dict[str, tuple[Ints, ...]]) -> dict[str, tuple[Ints, ...]]:
    """The same, where every axis has ranks for the channels: else all algorithms would be refused. Raises COL035."""
    least = min(len(groups[0]) for groups in axes.values())
    if options.channels is not None and not 1 <= options.channels <= least:
        fix = f"give --channels from 1 to {least}, the ranks of a box at most"
        raise CollectiveError(35, f"{options.channels} channels", fix)
    return axes


def _background(options: CollectiveOptions, fabric: Fabric) -> Background:
    """Other traffic, between vertices. Raises COL036."""
    for item in options.beside:
        if not (0 <= item.sender < len(fabric.devices) and 0 <= item.receiver < len(fabric.devices)):
            cause = f"--beside {item.sender}>{item.receiver}: there are {len(fabric.devices)} devices"
            raise CollectiveError(36, cause, f"number devices from 0 to {len(fabric.devices) - 1}")
        if item.sender == item.receiver or item.rate == 0:
            raise CollectiveError(
                36, f"--beside {item.sender}>{item.receiver}: nothing moves", "as in --beside 0>8@20GB/s"
            )
    count = len(options.beside)
    return Background(
        sender=fabric.devices[np.array([item.sender for item in options.beside], np.int64)],
        receiver=fabric.devices[np.array([item.receiver for item in options.beside], np.int64)],
        size_bytes=np.full(count, np.inf),
        start_s=np.zeros(count),
        limit_bytes_per_s=np.array([np.inf if item.rate is None else item.rate for item in options.beside], np.float64),
    )


# ------------------------------------------------------------------------------------------------------------ what runs


def _merge(  # noqa: PLR0917 - one axis of what is asked
    axis: str,
    members: tuple[Ints, ...],
    names: tuple[str, ...],
    options: CollectiveOptions,
    fabric: Fabric,
    system: System | None,
) -> _Merge:
    ran: dict[str, tuple[Placed, Timed]] = {}
    refused: dict[str, Excluded] = {}
    beside = _background(options, fabric)
    for name in names:
        try:
            if name == IN_SWITCH and options.algorithm == ALL:
                _check_adds(members, fabric, system)
            item = placed(name, options.operation, members, fabric, float(options.size), options.channels)
            ran[name] = item, DEPTHS[options.depth](item, beside)
        except CollectiveError as problem:
            if len(names) == 1:
                raise
            reason = problem.cause.removeprefix(f"{name}: ")
            refused[name] = Excluded(code=problem.code, reason=reason, nearest=problem.fix, limit="rule")
    order = sorted(ran, key=lambda name: ran[name][1].time_s)
    return _Merge(axis=axis, groups=members, ran={name: ran[name] for name in order}, refused=refused)


def _check_adds(members: tuple[Ints, ...], fabric: Fabric, system: System | None) -> None:
    """Nothing, where switches can add as far as anybody knows; a topology's may be any. Raises COL037."""
    if system is None or _known_to_add(members, fabric, system):
        return
    link = system.scale_up if _in_one_box(members, fabric) else system.scale_out
    told = "the switch" if link is None else f"a switch of {link.name}"
    cause = f"{IN_SWITCH}: nobody measured here that {told} adds"
    raise CollectiveError(37, cause, f"name it where it does: --algorithm {IN_SWITCH}")


def _known_to_add(members: tuple[Ints, ...], fabric: Fabric, system: System) -> bool:
    return _in_one_box(members, fabric) and reduces_in_switch(system.scale_up)


def _in_one_box(members: tuple[Ints, ...], fabric: Fabric) -> bool:
    return all(len(np.unique(fabric.box[fabric.devices[group]])) == 1 for group in members)


def _supposed(merges: list[_Merge], fabric: Fabric, system: System | None) -> tuple[str, ...]:
    """That a switch adds in the answer which nobody measured to add, and where it stands."""
    adding = [merge.groups for merge in merges if IN_SWITCH in merge.ran]
    told: list[str] = []
    if any(system is None or not _known_to_add(groups, fabric, system) for groups in adding):
        told.append(f"{IN_SWITCH} supposes that the switch adds: nobody measured here that it does")
    if any(not _in_one_box(groups, fabric) for groups in adding):
        told.append(
            f"{IN_SWITCH} over boxes adds in a switch of the network between them, as SHARP does: every rank sends its "
            "whole message there by its own NIC, and what a box could add before is not"
        )
    return tuple(told)


def _times(merge: _Merge, options: CollectiveOptions) -> Times:
    """Of algorithms whose time at other sizes is quick to ask; by name, so that ties go as in the registry."""
    return {name: _at(merge.ran[name][1], int(options.size)) for name in sorted(merge.ran) if merge.ran[name][1].again}


def _at(timed: Timed, size: int) -> Callable[[int], float]:
    def at(other: int) -> float:
        return timed.at(other / size)

    return at


# -------------------------------------------------------------------------------------------------------- what is told


def _candidates(merge: _Merge, options: CollectiveOptions, *, alone: bool) -> list[Candidate]:
    found = [
        _candidate(merge, name, alone=alone, measures=_measures(item, timed, options))
        for name, (item, timed) in merge.ran.items()
    ]
    nothing: dict[str, Any] = dict.fromkeys(_MEASURES)
    return found + [_candidate(merge, name, alone=alone, measures=nothing) for name in merge.refused]


_MEASURES: Final = (
    "time_s",
    "start_up_s",
    "rounds",
    "launches",
    "channels",
    "bytes_per_rank",
    "busiest_link",
    "busiest_link_bytes",
    "busiest_link_busy",
    "algbw_bytes_per_s",
    "busbw_bytes_per_s",
)


def _candidate(merge: _Merge, name: str, *, alone: bool, measures: Mapping[str, Any]) -> Candidate:
    return Candidate(
        id=name if alone else f"{merge.axis}:{name}",
        layout={},
        fits=name in merge.ran,
        excluded=merge.refused.get(name),
        memory={},
        measures={"axis": merge.axis, "algorithm": name, **measures},
    )


def _measures(item: Placed, timed: Timed, options: CollectiveOptions) -> dict[str, Any]:
    program, ranks = item.program, item.program.ranks
    link = busiest_link(item.fabric, timed.link_bytes)
    carried = 0.0 if link is None else float(timed.link_bytes[link])
    busy = 0.0 if link is None else carried / float(item.fabric.bandwidth_bytes_per_s[link]) / timed.time_s
    algbw = algbw_bytes_per_s(float(options.size), timed.time_s)
    values = (
        timed.time_s,
        timed.start_up_s,
        sum(step.times for step in program.steps),
        program.launches,
        item.channels,
        _sent_bytes(item),
        None if link is None else link_name(item.fabric, link),
        carried,
        busy,
        algbw,
        busbw_bytes_per_s(algbw, busbw_factor(options.operation, ranks)),
    )
    return dict(zip(_MEASURES, values, strict=True))


def _sent_bytes(item: Placed) -> float:
    """What the rank that sends most sends in all."""
    program, size = item.program, item.traffic[0].message_bytes
    return float(sent_pieces(program)[: program.ranks].max(initial=0)) * size / program.message_pieces


def _told(merge: _Merge, options: CollectiveOptions, system: System | None) -> dict[str, Any]:
    """One axis: its groups, its fastest algorithm, and where asked its links."""
    name = next(iter(merge.ran), None)
    told: dict[str, Any] = {
        "axis": merge.axis,
        "group_size": len(merge.groups[0]),
        "groups": len(merge.groups),
        "ranks": [group.tolist() for group in merge.groups[:_MOST_MERGES_SHOWN]],
        "algorithm": name,
        "time_s": None if name is None else merge.ran[name][1].time_s,
        "ports": None,
        "crossings": None,
    }
    if name is None or not options.ports:
        return told
    item, timed = merge.ran[name]
    return told | {"ports": ports(item, timed.link_bytes, system), "crossings": crossings(item)}


def _flips(changes: tuple[Crossover, ...]) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {"parameter": "bytes", "value": item.size_bytes, "unit": "B", "from": item.below, "to": item.above}
        for item in changes
    )


def _verdict(
    options: CollectiveOptions, merges: list[_Merge], candidates: list[Candidate], changes: tuple[Crossover, ...]
) -> Verdict:
    ran = [merge for merge in merges if merge.ran]
    told = [_sentence(merge, options, alone=len(merges) == 1 and merge.axis == _WHOLE) for merge in ran]
    told += [f"{item.size_bytes:,} B: {item.below} to {item.above}" for item in changes[:4]]
    refused = [item for item in candidates if not item.fits]
    if refused:
        told.append(f"refused: {', '.join(item.id for item in refused)}")
    return Verdict(answer="yes" if len(ran) == len(merges) else "no", text="; ".join(told))


def _sentence(merge: _Merge, options: CollectiveOptions, *, alone: bool) -> str:
    name, (_, timed) = next(iter(merge.ran.items()))
    size, seconds = show_bytes(options.size), show_short(timed.time_s)
    if not alone:
        return f"{merge.axis} ({len(merge.groups)} groups of {len(merge.groups[0])}): {name}, {seconds}"
    ranks = len(merge.groups[0])
    algbw = algbw_bytes_per_s(float(options.size), timed.time_s)
    rate = busbw_bytes_per_s(algbw, busbw_factor(options.operation, ranks))
    told = f"{options.operation} of {size} over {ranks} ranks: {seconds}, busbw {show_rate(rate)}"
    return f"{name} is the fastest {told}" if len(merge.ran) > 1 else f"{name}, {told}"


def _notes(options: CollectiveOptions, merges: list[_Merge], layout: Layout | None) -> tuple[str, ...]:
    found: list[str] = []
    slow = [name for name, (_, timed) in merges[0].ran.items() if not timed.again]
    if slow and layout is None:
        found.append(f"not asked at other sizes, because a run is long: {', '.join(slow)}")
    if layout is not None:
        found.append("groups of one axis run at once, axes one after the other; flips are told without a layout")
        if layout.attention == "replicated" and any(getattr(layout, axis) > 1 for axis in _COPIES):
            found.append("attention=replicated: its copies serve the same requests, and merge nothing among them")
    if options.depth == "alpha-beta":
        found.append("links between ports are never full at this depth: --depth rounds or flows knows what shares them")
    return tuple(found)


def at_size(options: CollectiveOptions, size: int) -> CollectiveOptions:
    """The same question about a message of another size."""
    return replace(options, size=Bytes(size))
