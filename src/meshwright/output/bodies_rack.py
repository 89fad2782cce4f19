"""What the JSON document of `rack` holds: names and types, for the published schema."""

from __future__ import annotations

from typing import TypedDict

from meshwright.output.bodies import Amount, Count, Name


class CountItem(TypedDict):
    """An installation. racks: null where one box is too much for a rack.   price: null where none is stated."""

    devices: Count
    boxes: Count
    power_w: Amount
    power_share: Amount
    fits: bool
    end_points: Count
    tiers: Count
    switches: Count
    racks: Count | None
    price: Amount | None


class RackItem(TypedDict):
    """One rack, as its cooling allows; next_power_w is of one box more."""

    cooling: Name
    limit_w: Amount
    boxes: Count
    devices: Count
    power_w: Amount
    next_power_w: Amount


class CoolingItem(TypedDict):
    """What the source of a way of cooling says; null where it says nothing."""

    id: Name
    name: Name
    limit_w: Amount
    rack_from_w: Amount | None
    rack_to_w: Amount | None
    airflow_cfm: Amount | None
    tile_cfm: Amount | None
    fan_power_w: Amount | None


class MediumItem(TypedDict):
    """What can carry a link; reaches is null where no distance was asked about."""

    id: Name
    name: Name
    reach_m: Amount
    reaches: bool | None
    note: str


class RackBody(TypedDict):
    """The most boxes within the budget, and the steps that lead there; spare_w is what the budget leaves."""

    boxes: Count
    devices: Count
    power_w: Amount
    spare_w: float
    node_power_w: Amount
    node_power_per_device_w: Amount
    device_power_w: Amount | None
    racks: Count | None
    tiers: Count
    switches: Count
    price: Amount | None
    rack: RackItem
    cooling: CoolingItem
    asked: list[CountItem]
    steps: list[CountItem]
    media: list[MediumItem]
