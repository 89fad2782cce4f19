"""How many accelerators does this power carry, in which steps? A system and a site go in; boxes, racks, tiers come out.

Power comes in whole boxes, cooling in whole racks, switches in whole tiers, growth in whole groups: all staircases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.base.result import Basis, Result, Verdict
from meshwright.base.units import Watts, show_watts
from meshwright.scenarios._rack_rows import (
    AIR,
    CountRow,
    RackOptions,
    Site,
    asked_rows,
    count_rows,
    limit_name,
    most_boxes,
    power_of,
    rack_boxes,
    site_of,
)
from meshwright.scenarios._shared import stated_system
from meshwright.system.cooling import Cooling, read_cooling
from meshwright.system.medium import Medium, media
from meshwright.system.system import System

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Ints
    from meshwright.base.result import Source

_STEPS: Final = 48
"""Counts of the staircase that are told apart; of more, evenly spread ones and the last."""
_BEYOND: Final = 2
"""Groups beyond the budget that the staircase shows."""
_HEADS: Final = 64
"""Of the model that the next command names."""
_EACH_SIDE: Final = 1e-3
_LEFT_OUT: Final = (
    "load below its maximum, and what power supplies and batteries lose or hold back",
    "pumps, chillers and fans of the hall: count them in --fixed",
    "storage, and whole kits that a maker sells: tiers here are without taper, every port in use",
    "height, weight and length of cables within a rack: cooling alone limits its boxes",
)
_BASIS: Final = {
    "boxes": f"{Basis.FORMULA.value}: whole groups of boxes within the budget, equation 6-11",
    "steps[]": Basis.FORMULA.value,
    "asked[]": Basis.FORMULA.value,
    "rack": f"{Basis.FORMULA.value}: whole boxes within the limit of a rack",
    "device_power_w": Basis.DATASHEET.value,
    "node_power_w": f"{Basis.DATASHEET.value}: the box's maximum",
    "media[].reach_m": Basis.ASSUMED.value,
    "inputs.options": f"{Basis.ASSUMED.value}: as asked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """One rack, as its cooling allows. next_power_w: of one box more, which is beyond the limit."""

    cooling: str
    limit_w: float
    boxes: int
    devices: int
    power_w: float
    next_power_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooled:
    """What the source of a way of cooling says; None where it says nothing. Airflow in cubic feet a minute."""

    id: str
    name: str
    limit_w: float
    rack_from_w: float | None
    rack_to_w: float | None
    airflow_cfm: float | None
    tile_cfm: float | None
    fan_power_w: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What can carry a link. reaches: the distance that was asked about; None where none was."""

    id: str
    name: str
    reach_m: float
    reaches: bool | None
    note: str


def rack(system: System, options: RackOptions) -> Result:
    """The most boxes that a power budget carries, in whole groups; their racks, switches and price; and each step.

    yes: at least one box, and every count of devices that was asked about. Raises SYS002 (cooling), SYS011 (a box whose
    power is not known), SYS030 (amounts), SYS031 (counts), SYS040 (an air limit of racks that air does not cool).
    Source: chapter "Supernodes", section 6.5.2.
    """
    cooling = read_cooling(options.cooling)
    site = site_of(system, options, cooling.limit)
    boxes = most_boxes(site)
    found = _rows_of(site, np.array([boxes], dtype=np.int64))[0]
    asked = asked_rows(site)
    reached = media()
    one = _rack(site, cooling)
    return Result(
        command="rack",
        verdict=_verdict(site, found, asked, one),
        inputs={"model": None, "system": stated_system(system), "job": None, "layout": None, "options": options},
        flips=_flips(system, options, site, boxes),
        warnings=_warnings(system, site, found, one),
        not_modelled=_LEFT_OUT,
        sources=_sources(system, cooling, reached),
        basis=_BASIS,
        body={
            "boxes": found.boxes,
            "devices": found.devices,
            "power_w": found.power_w,
            "spare_w": options.power - found.power_w,
            "node_power_w": site.node_w,
            "node_power_per_device_w": site.node_w / site.devices_per_node,
            "device_power_w": system.accelerator.power,
            "racks": found.racks,
            "tiers": found.tiers,
            "switches": found.switches,
            "price": found.price,
            "rack": one,
            "cooling": _stated(cooling),
            "asked": asked,
            "steps": _staircase(site, boxes),
            "media": [_reach(item, options) for item in reached],
        },
        next_commands=_next(system, found),
    )


def _rows_of(site: Site, boxes: Ints) -> tuple[CountRow, ...]:
    return count_rows(site, boxes, boxes * site.devices_per_node)


def _rack(site: Site, cooling: Cooling) -> Rack:
    boxes = rack_boxes(site)
    return Rack(
        cooling=cooling.name,
        limit_w=site.limit_w,
        boxes=boxes,
        devices=boxes * site.devices_per_node,
        power_w=boxes * site.node_w,
        next_power_w=(boxes + 1) * site.node_w,
    )


def _stated(cooling: Cooling) -> Cooled:
    return Cooled(
        id=cooling.id,
        name=cooling.name,
        limit_w=cooling.limit,
        rack_from_w=cooling.rack_from,
        rack_to_w=cooling.rack_to,
        airflow_cfm=cooling.airflow_cfm,
        tile_cfm=cooling.tile_cfm,
        fan_power_w=cooling.fan_power,
    )


def _staircase(site: Site, boxes: int) -> tuple[CountRow, ...]:
    """Every group from the first to two beyond the budget; of very many an even choice that keeps both ends."""
    step = site.options.grouped
    groups = boxes // step + _BEYOND
    chosen: Any = np.unique(np.linspace(1, groups, min(groups, _STEPS)).round().astype(np.int64))
    kept: Ints = np.union1d(chosen, np.array([max(boxes // step, 1), boxes // step + 1]))
    return _rows_of(site, kept * step)


def _reach(medium: Medium, options: RackOptions) -> Reach:
    return Reach(
        id=medium.id,
        name=medium.name,
        reach_m=medium.reach,
        reaches=None if options.distance is None else options.distance <= medium.reach,
        note=medium.note,
    )


def _verdict(site: Site, found: CountRow, asked: tuple[CountRow, ...], one: Rack) -> Verdict:
    budget = show_watts(site.options.power)
    if not found.boxes:
        least = show_watts(power_of(site, site.options.grouped))
        first = "one box takes" if site.options.grouped == 1 else f"the first {site.options.grouped} boxes take"
        return Verdict(answer="no", text=f"{budget} carry no box: {first} {least}")
    if not one.boxes:
        held, box = f"a rack by {one.cooling} holds {show_watts(one.limit_w)}", show_watts(power_of(site, 1))
        return Verdict(answer="no", text=f"{held}, and one box takes {box}: {_instead(site)}")
    told = [f"{found.boxes} boxes, {found.devices} devices: {show_watts(found.power_w)} of {budget}"]
    each = "1 box" if one.boxes == 1 else f"{one.boxes} boxes"
    told.append(f"{each} a rack, {found.racks} racks by {one.cooling} up to {show_watts(one.limit_w)}")
    told.append(_switches(found))
    told += [f"{row.devices} devices in {row.boxes} boxes {'fit' if row.fits else 'do not fit'}" for row in asked]
    return Verdict(answer="yes" if all(row.fits for row in asked) else "no", text="; ".join(told))


def _instead(site: Site) -> str:
    """What helps where one box is too much for a rack."""
    other = "--cooling liquid" if site.options.cooling == AIR else "a box of less power"
    return f"{other}, or a measured limit (--{limit_name(site.options).replace('_', '-')})"


def _switches(found: CountRow) -> str:
    if not found.tiers:
        return "no switch between boxes"
    chips = "1 switch" if found.switches == 1 else f"{found.switches} switches"
    return f"{chips} in {'1 tier' if found.tiers == 1 else f'{found.tiers} tiers'}"


def _warnings(system: System, site: Site, found: CountRow, one: Rack) -> tuple[str, ...]:
    told: list[str] = []
    if not one.boxes:
        told.append(
            f"one box takes {show_watts(site.node_w)}, and {one.cooling} is held to {show_watts(one.limit_w)} a rack: "
            f"{_instead(site)}"
        )
    if system.nodes > 1:
        told.append(f"the {system.nodes} boxes of --on are one kind of box: the budget says how many")
    if found.boxes and site.options.fixed == 0:
        told.append("nothing is set aside for storage, switches and the hall: --fixed, --switch-power")
    return tuple(told)


def _flips(system: System, options: RackOptions, site: Site, boxes: int) -> tuple[dict[str, Any], ...]:
    """Where the next value of one parameter changes boxes or racks, each asked again on both of its sides."""
    group = options.grouped
    spare = options.power - power_of(site, 0)
    beyond = options.power - power_of(site, boxes)
    per_rack = rack_boxes(site)
    nodes = [beyond / boxes + site.node_w] if boxes else []
    nodes.append((options.power - power_of(site, boxes + group)) / (boxes + group) + site.node_w)
    nodes += [site.limit_w / count for count in (per_rack, per_rack + 1) if count]
    places: dict[str, list[float]] = {
        "power": [power_of(site, boxes), power_of(site, boxes + group)],
        "fixed": [options.fixed + beyond, options.fixed + options.power - power_of(site, boxes + group)],
        limit_name(options).replace("_", "-"): [count * site.node_w for count in (per_rack, per_rack + 1)],
        "system.node_power": [value for value in nodes if 0 < value <= max(spare, site.limit_w)],
    }
    found = [
        _flip(parameter, value, ask)
        for parameter, ask in _askers(system, options).items()
        for value in dict.fromkeys(places[parameter])
        if value > 0
    ]
    return tuple(flip for flip in found if flip is not None and flip["from"] != flip["to"])


def _askers(system: System, options: RackOptions) -> dict[str, Callable[[float], str | None]]:
    """By parameter, the answer's name at a value of it."""
    limit = limit_name(options)
    return {
        "power": lambda value: _name(system, replace(options, power=Watts(value))),
        "fixed": lambda value: _name(system, replace(options, fixed=Watts(value))),
        limit.replace("_", "-"): lambda value: _name(system, replace(options, **{limit: Watts(value)})),
        "system.node_power": lambda value: _name(replace(system, node_power=Watts(value)), options),
    }


def _flip(parameter: str, value: float, ask: Callable[[float], str | None]) -> dict[str, Any] | None:
    """None where a side is beyond what can be asked."""
    try:
        sides = (ask(value * (1 - _EACH_SIDE)), ask(value * (1 + _EACH_SIDE)))
    except SystemSpecError:
        return None
    return {"parameter": parameter, "value": value, "unit": "W", "from": sides[0], "to": sides[1]}


def _name(system: System, options: RackOptions) -> str | None:
    """What is built: boxes and racks; None for nothing."""
    site = site_of(system, options, read_cooling(options.cooling).limit)
    boxes = most_boxes(site)
    if not boxes:
        return None
    racks = _rows_of(site, np.array([boxes], dtype=np.int64))[0].racks
    return f"boxes={boxes}" if racks is None else f"boxes={boxes},racks={racks}"


def _sources(system: System, cooling: Cooling, reached: tuple[Medium, ...]) -> tuple[Source, ...]:
    return tuple(
        dict.fromkeys(
            (
                *system.facts.sources,
                *cooling.facts.sources,
                *(source for item in reached for source in item.facts.sources),
            )
        )
    )


def _next(system: System, found: CountRow) -> tuple[str, ...]:
    """What the boxes would do: a plan on them."""
    if not found.boxes or " " in system.id or system.nodes > 1 or _HEADS % system.devices_per_node:
        return ()
    return (f"meshwright fit Qwen/Qwen3-32B --on '{system.id} x{found.boxes}' --tp {system.devices_per_node}",)
