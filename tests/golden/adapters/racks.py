"""What a power budget and the cooling of a rack carry, and what the parts themselves take."""

from __future__ import annotations

from meshwright.scenarios.catalog import catalog
from meshwright.scenarios.rack import RackOptions, rack
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "rack",
    {
        "node_power_per_device_w": "G6-328",
        "boxes": "G6-330",
        "devices": "G6-331",
        "asked[0].power_w": "G6-332 G6-333 G6-334 G6-341 G6-342",
        "cooling.airflow_cfm": "G6-335",
        "cooling.tile_cfm": "G6-336",
        "cooling.fan_power_w": "G6-337",
        "cooling.limit_w": "G6-338",
        "rack.boxes": "G6-339",
        "rack.devices": "G6-340",
    },
)
def carried(row: Row) -> object:
    return row.select(rack(row.system(), row.record(RackOptions)))


@answers("list accelerators", {"items[id={accelerator}].power_w": "G6-329"})
def listed(row: Row) -> object:
    return row.select(catalog(row.subject))
