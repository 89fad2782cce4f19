"""Every registered file loads, every fact has its source, and every link's bandwidth is one way."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from meshwright.base.result import Basis
from meshwright.model.model import parameter_bytes
from meshwright.model.reader import CATALOG
from meshwright.system.accelerator import ACCELERATORS, read_accelerator
from meshwright.system.calibrations import CALIBRATIONS, calibrations
from meshwright.system.facts import Fact
from meshwright.system.link import LINKS, ports_bytes_per_s, read_link
from meshwright.system.system import SYSTEMS, read_system
from tests.unit.model.configs import read_entry

QUANTITY = re.compile(r"^[\d.]+ ?[A-Za-z]+(/s)?$")


def bare_quantities(value: Any, path: str = "") -> Iterator[str]:
    """Paths of numbers with a unit that are not facts: such a number has no source."""
    if isinstance(value, dict) and "value" not in value:
        for key, item in value.items():
            yield from bare_quantities(item, f"{path}.{key}")
    elif isinstance(value, str) and QUANTITY.match(value):
        yield path


def check_facts(facts: tuple[Fact, ...], known: set[str]) -> None:
    for fact in facts:
        assert fact.source in known, fact.path
        if fact.basis in {Basis.MEASURED, Basis.CALIBRATED}:
            assert fact.platform, f"{fact.path} is measured, and its platform is not named"


@pytest.mark.parametrize("name", ACCELERATORS.names())
def test_an_accelerator_loads_with_a_source_for_every_fact(name):
    found = read_accelerator(name)
    assert not list(bare_quantities(tomllib.loads(ACCELERATORS.text(name))))
    paths = {fact.path for fact in found.facts.facts}
    assert {"memory", "memory_bandwidth", *(f"peak.{key}" for key in found.peak)} <= paths
    check_facts(found.facts.facts, {source.key for source in found.facts.sources})
    assert all(fact.density == "dense" for fact in found.facts.facts if fact.path.startswith("peak."))
    assert 1e9 < found.memory < 1e12
    assert 1e11 < found.memory_bandwidth < 1e14
    assert found.peak_for(("bf16", "fp16"))[1] > 1e13  # older ones have no bf16


@pytest.mark.parametrize("name", LINKS.names())
def test_a_link_loads_with_sources_and_states_its_bandwidth_one_way(name):
    found = read_link(name)
    assert not list(bare_quantities(tomllib.loads(LINKS.text(name))))
    by_path = {fact.path: fact for fact in found.facts.facts}
    assert by_path["bandwidth"].direction == "one way"
    assert "latency" in by_path
    check_facts(found.facts.facts, {source.key for source in found.facts.sources})
    if found.ports is not None and found.port_bandwidth is not None:
        assert ports_bytes_per_s(found.ports, found.port_bandwidth) == found.bandwidth
    if found.measured_bandwidth is not None:
        assert found.measured_bandwidth <= found.bandwidth


@pytest.mark.parametrize("name", SYSTEMS.names())
def test_a_system_loads_and_doubles(name):
    found = read_system(name)
    assert found.id == name
    assert not list(bare_quantities(tomllib.loads(SYSTEMS.text(name))))
    check_facts(found.facts.facts, {source.key for source in found.facts.sources})
    if found.scale_out is not None:
        assert read_system(f"{name} x2").devices == 2 * found.devices


@pytest.mark.parametrize("name", CATALOG.names())
def test_a_model_loads_with_its_source(name):
    found = read_entry(name)
    assert found.source is not None
    assert found.source.read
    assert parameter_bytes(found)["total"] > 0


def test_calibrations_load_rise_in_size_and_name_a_known_accelerator():
    assert {item.op for item in calibrations()} == {"all_reduce"}
    assert len(calibrations()) == len(CALIBRATIONS.names())
    for calibration in calibrations():
        for table in calibration.table:
            assert table.accelerator in ACCELERATORS.names()
            assert table.source in {source.key for source in calibration.sources}
            sizes = [row.size for row in table.rows]
            assert sizes == sorted(set(sizes))
            assert all(row.time > 0 for row in table.rows)
