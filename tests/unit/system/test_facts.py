"""Facts: values and their provenance apart."""

from __future__ import annotations

import pytest

from meshwright.base.errors import SystemSpecError
from meshwright.base.result import Basis
from meshwright.system.facts import Facts, split

SOURCES = {"a": {"title": "t", "place": "p", "read": "2026-11-29"}}


def test_a_fact_becomes_its_value_and_its_provenance():
    fact = {
        "value": "80 GB",
        "source": "a",
        "scope": "chip",
        "basis": "measured",
        "platform": "8x H100",
        "date": "2026",
    }
    values, facts = split({"memory": fact, "plain": 3, "inner": {"deep": {"value": 4}}, "sources": SOURCES}, "x")
    assert values == {"memory": "80 GB", "plain": 3, "inner": {"deep": 4}}
    memory, deep = facts.facts
    assert (memory.path, memory.scope, memory.platform, memory.date) == ("memory", "chip", "8x H100", "2026")
    assert memory.basis == Basis.MEASURED
    assert (deep.path, deep.basis, deep.source) == ("inner.deep", Basis.DATASHEET, None)


def test_facts_move_under_a_part_and_join_with_equal_sources_once():
    facts = split({"memory": {"value": "1 B", "source": "a"}, "sources": SOURCES}, "x")[1]
    joined = Facts().joined(facts.under("accelerator"), facts.under("host"))
    assert [fact.path for fact in joined.facts] == ["accelerator.memory", "host.memory"]
    assert len(joined.sources) == 1
    assert joined.basis_of("host.memory", Basis.ASSUMED) == Basis.DATASHEET
    assert joined.basis_of("elsewhere", Basis.ASSUMED) == Basis.ASSUMED


@pytest.mark.parametrize("name", ["bandwidth", "measured_bandwidth", "port_bandwidth"])
def test_every_bandwidth_of_a_link_states_one_way(name):
    with pytest.raises(SystemSpecError, match="SYS004"):
        split({"link": {name: {"value": "900 GB/s", "direction": "both"}}}, "x")
    assert split({"link": {name: {"value": "450 GB/s", "direction": "one way"}}}, "x")[0]


def test_memory_bandwidth_has_no_direction_at_any_depth():
    assert split({"memory_bandwidth": {"value": "1 TB/s"}, "part": {"memory_bandwidth": {"value": "1 TB/s"}}}, "x")[0]
