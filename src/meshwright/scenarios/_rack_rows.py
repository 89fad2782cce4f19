"""Counts of boxes, a budget and prices go in, as columns; what an installation of each count takes comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.base.units import Metres, Watts
from meshwright.cost.money import powered_nodes
from meshwright.cost.racks import (
    MOST_TIERS,
    boxes_per_rack,
    in_groups,
    installed_price,
    installed_w,
    switch_count,
    switch_tiers,
)
from meshwright.search.largest import largest
from meshwright.system.levels import reached_count

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.system.system import System

_MOST_DEVICES: Final = 1_000_000
_MOST_WATTS: Final = 1e12
_MOST_PRICE: Final = 1e12
_MOST_GROUP: Final = 2**20
_LEAST_RADIX, _MOST_RADIX = 4, 4096
_MOST_ASKED: Final = 64
NO_WATTS: Final = Watts(0.0)
AIR: Final = "air"


@dataclass(frozen=True, slots=True, kw_only=True)
class RackOptions:
    """What is to be built, and what holds it.

    power: of everything.   fixed: of what is there anyway.   cooling: registry name.   air_limit: watts of a rack that
    air cools, rack_limit: of a rack however it is cooled; None for what its cooling is held to.   grouped: boxes come
    in groups of so many.   devices, boxes: counts to be judged.   radix: ports of a switch between boxes.
    switch_power: of each such switch.   box_price, switch_price: in any one currency; None for no prices.   distance:
    to be spanned between boxes, None where it is not asked about.
    """

    power: Watts
    fixed: Watts = NO_WATTS
    cooling: str = "air"
    air_limit: Watts | None = None
    rack_limit: Watts | None = None
    grouped: int = 1
    devices: tuple[int, ...] = ()
    boxes: tuple[int, ...] = ()
    radix: int = 64
    switch_power: Watts = NO_WATTS
    box_price: float | None = None
    switch_price: float | None = None
    distance: Metres | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What every count is judged by. node_w: of a box.   limit_w: of a rack.   end_points: NICs of a box."""

    options: RackOptions
    node_w: float
    limit_w: float
    devices_per_node: int
    end_points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRow:
    """An installation of so many boxes, or of the boxes that so many devices need.

    end_points: ports that the boxes ask of switches; none for one box alone.   racks: by the cooling of a rack; None
    where one box is too much for it.   price: None where none is stated.
    """

    devices: int
    boxes: int
    power_w: float
    power_share: float
    fits: bool
    end_points: int
    tiers: int
    switches: int
    racks: int | None
    price: float | None


def site_of(system: System, options: RackOptions, limit: Watts) -> Site:
    """The site, checked. Raises SYS011 (no power known), SYS030 (amounts), SYS031 (counts), SYS040 (an air limit)."""
    node_w = system.node_power
    if not node_w:
        cause = f"{system.id} does not say what power a box takes"
        raise SystemSpecError(11, cause, "--set system.node_power=10.2kW, or add node_power to its file")
    limit_w = _limit_of(options, limit)
    _check_amounts(options, limit_w)
    _check_counts(options)
    ports = system.nics_per_node or system.devices_per_node
    found = Site(
        options=options,
        node_w=node_w,
        limit_w=limit_w,
        devices_per_node=system.devices_per_node,
        end_points=ports,
    )
    most = int(powered_nodes(options.power, NO_WATTS, node_w))
    asked = [*options.devices, *(count * system.devices_per_node for count in options.boxes)]
    if max([most * system.devices_per_node, *asked]) > _MOST_DEVICES:
        told = f"{options.power:g} W carry {most} boxes of {system.devices_per_node} devices"
        cause = told if most * system.devices_per_node > _MOST_DEVICES else f"{max(asked)} devices"
        raise SystemSpecError(31, cause, f"give a budget, and counts, of at most {_MOST_DEVICES} devices")
    largest_ports = max([most, *(_boxes_of(found, count) for count in options.devices), *options.boxes]) * ports
    if largest_ports > reached_count(MOST_TIERS, options.radix):
        cause = f"{largest_ports} end points need more than {MOST_TIERS} tiers of switches with {options.radix} ports"
        raise SystemSpecError(31, cause, "give --radix of a larger switch")
    return found


def most_boxes(site: Site) -> int:
    """The most boxes, in whole groups, whose installation stays within the budget; 0 for none.

    Equation 6-11 without switches, and the same with those that the count in question needs.
    """
    options = site.options
    beside = np.array([int(powered_nodes(options.power, options.fixed, site.node_w))], dtype=np.int64)
    groups = beside // options.grouped
    if not groups[0]:
        return 0
    found = largest(lambda counts, _rows: _power_w(site, counts * options.grouped), options.power, groups)
    return int(in_groups(found[0] * options.grouped, options.grouped))


def count_rows(site: Site, boxes: Ints, devices: Ints) -> tuple[CountRow, ...]:
    """Installations of these counts of boxes; devices: those asked for, at most what the boxes hold."""
    options = site.options
    power = _power_w(site, boxes)
    ports = _ports(site, boxes)
    switches = switch_count(ports, options.radix)
    per_rack = rack_boxes(site)
    columns: tuple[Any, ...] = (devices, boxes, power, ports, switch_tiers(ports, options.radix), switches)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(
        CountRow(
            devices=held,
            boxes=count,
            power_w=watts,
            power_share=watts / options.power,
            fits=watts <= options.power and count % options.grouped == 0,
            end_points=points,
            tiers=tiers,
            switches=chips,
            racks=-(-count // per_rack) if per_rack else None,
            price=_price(options, count, chips),
        )
        for held, count, watts, points, tiers, chips in rows
    )


def asked_rows(site: Site) -> tuple[CountRow, ...]:
    """The counts that were asked about: of devices, each in whole boxes and groups, and of boxes."""
    options = site.options
    whole = [_boxes_of(site, count) for count in options.devices]
    devices = [*options.devices, *(count * site.devices_per_node for count in options.boxes)]
    return count_rows(site, np.array([*whole, *options.boxes], dtype=np.int64), np.array(devices, dtype=np.int64))


def rack_boxes(site: Site) -> int:
    """Whole boxes of one rack, by its cooling."""
    return int(boxes_per_rack(site.limit_w, site.node_w))


def limit_name(options: RackOptions) -> str:
    """The option that states what a rack may take."""
    return "air_limit" if options.cooling == AIR and options.rack_limit is None else "rack_limit"


def power_of(site: Site, boxes: int) -> float:
    """Watts of so many boxes and what they need."""
    return float(_power_w(site, np.array([boxes], dtype=np.int64))[0])


def _boxes_of(site: Site, devices: int) -> int:
    boxes = -(-devices // site.devices_per_node)
    return -(-boxes // site.options.grouped) * site.options.grouped


def _ports(site: Site, boxes: Ints) -> Ints:
    """End points; one box alone has its own switch inside."""
    return np.where(boxes > 1, boxes * site.end_points, 0)


def _power_w(site: Site, boxes: Ints) -> Floats:
    options = site.options
    switches = switch_count(_ports(site, boxes), options.radix)
    found: Any = installed_w(options.fixed, boxes, site.node_w, switches, options.switch_power)
    return found


def _price(options: RackOptions, boxes: int, switches: int) -> float | None:
    if options.box_price is None and options.switch_price is None:
        return None
    return float(installed_price(boxes, options.box_price or 0.0, switches, options.switch_price or 0.0))


def _limit_of(options: RackOptions, limit: Watts) -> Watts:
    """What one rack may take. Raises SYS040 for a limit of air where air does not cool, or beside another limit.

    Source: chapter "Supernodes", section 6.5.2: the threshold is that of air.
    """
    if options.air_limit is None:
        return limit if options.rack_limit is None else options.rack_limit
    if options.cooling != AIR:
        cause = f"--air-limit bounds a rack that air cools, and --cooling is {options.cooling}"
        raise SystemSpecError(40, cause, "leave --air-limit out, or give --rack-limit")
    if options.rack_limit is not None:
        raise SystemSpecError(40, "--air-limit and --rack-limit bound the same rack", "give one of them")
    return options.air_limit


def _check_amounts(options: RackOptions, limit_w: float) -> None:
    watts = {"power": options.power, limit_name(options): limit_w}
    prices = {"box_price": options.box_price or 0.0, "switch_price": options.switch_price or 0.0}
    dark = next((name for name, value in watts.items() if not 0 < value <= _MOST_WATTS), None)
    if dark is not None:
        cause = f"--{dark.replace('_', '-')} is {watts[dark]:g} W"
        raise SystemSpecError(30, cause, f"give more than 0 W, {_MOST_WATTS:g} W at most")
    if (options.box_price is None) != (options.switch_price is None):
        raise SystemSpecError(
            30, "--box-price and --switch-price belong together", "give both, 0 for what is not counted"
        )
    wrong = [name for name in ("fixed", "switch_power") if not 0 <= float(getattr(options, name)) <= _MOST_WATTS]
    wrong += [name for name, value in prices.items() if not 0 <= value <= _MOST_PRICE]
    if wrong:
        name = wrong[0].replace("_", "-")
        raise SystemSpecError(30, f"--{name} is no amount of a site", f"give 0 to {_MOST_WATTS:g}")


def _check_counts(options: RackOptions) -> None:
    if not 1 <= options.grouped <= _MOST_GROUP:
        raise SystemSpecError(31, f"--grouped {options.grouped}", f"give groups of 1 to {_MOST_GROUP} boxes")
    if not _LEAST_RADIX <= options.radix <= _MOST_RADIX or options.radix % 2:
        raise SystemSpecError(31, f"--radix {options.radix}", f"give an even count, {_LEAST_RADIX} to {_MOST_RADIX}")
    asked = (*options.devices, *options.boxes)
    if len(asked) > _MOST_ASKED or any(count < 1 for count in asked):
        cause = f"{len(asked)} counts of devices and boxes, the least of them {min(asked)}"
        raise SystemSpecError(31, cause, f"give up to {_MOST_ASKED} counts above zero")
