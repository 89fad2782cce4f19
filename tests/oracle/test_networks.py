"""networkx and brute force as judges: paths are shortest, and the halves that a structure names are cut least."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from meshwright.cost.link_loads import bisection
from meshwright.system.fabric import read_topology, system_fabric
from meshwright.system.graph import CPU
from meshwright.system.routing import shortest
from meshwright.system.system import read_system
from tests.unit.system.networks import SMALL

_MOST = 9
"""Devices of a network whose every half is tried."""


def graph(fabric) -> nx.DiGraph:
    found = nx.DiGraph()
    ends = zip(fabric.sender.tolist(), fabric.receiver.tolist(), fabric.bandwidth_bytes_per_s.tolist(), strict=True)
    for one, other, width in ends:
        already = found.edges[one, other]["capacity"] if found.has_edge(one, other) else 0.0
        found.add_edge(one, other, capacity=already + width)
    return found


def least_between(fabric, far: set[int]) -> float:
    found = graph(fabric)
    for device in fabric.devices.tolist():
        found.add_edge(*((device, "far") if device in far else ("near", device)))
    return nx.maximum_flow_value(found, "near", "far")


@pytest.mark.parametrize("spec", SMALL)
def test_paths_are_as_short_as_any(spec):
    fabric = read_topology(spec)
    lengths = dict(nx.all_pairs_shortest_path_length(graph(fabric)))
    count = len(fabric.devices)
    sender, receiver = np.divmod(np.arange(count * count), count)
    found = np.diff(fabric.route(sender, receiver).first)
    assert found.tolist() == [lengths[one][other] for one, other in zip(sender, receiver, strict=True)]


@pytest.mark.parametrize("spec", SMALL)
def test_searched_paths_are_as_short_as_those_by_arithmetic(spec):
    fabric = read_topology(spec)
    count = len(fabric.devices)
    search = shortest(len(fabric.kind), fabric.sender, fabric.receiver, fabric.bandwidth_bytes_per_s)
    sender, receiver = np.divmod(np.arange(count * count), count)
    assert np.array_equal(np.diff(search(sender, receiver).first), np.diff(fabric.route(sender, receiver).first))


@pytest.mark.parametrize("spec", SMALL)
def test_the_cut_between_the_halves_is_the_most_that_flows_between_them(spec):
    fabric = read_topology(spec)
    found = bisection(fabric)
    assert found is not None
    far = set(np.flatnonzero(fabric.halves[fabric.devices]).tolist())
    assert len(far) == len(fabric.devices) // 2
    assert found.out_bytes_per_s == pytest.approx(least_between(fabric, far))
    assert found.back_bytes_per_s == pytest.approx(found.out_bytes_per_s)


@pytest.mark.parametrize("spec", [spec for spec in SMALL if len(read_topology(spec).devices) <= _MOST])
def test_no_other_halves_are_cut_by_less(spec):
    fabric = read_topology(spec)
    count = len(fabric.devices)
    found = bisection(fabric)
    assert found is not None
    least = min(least_between(fabric, set(far)) for far in combinations(range(count), count // 2))
    assert found.out_bytes_per_s == pytest.approx(least)


@pytest.mark.parametrize(
    "name", ["hgx-h100", "hgx-h100 x2", "hgx-h100 x3", "dgx-1 x3", "dgx-2", "mi300x-8", "dgx-a100 x2"]
)
def test_the_cut_of_a_system_is_the_most_that_flows_between_its_halves_without_its_hosts(name):
    fabric = system_fabric(read_system(name))
    found = bisection(fabric)
    assert found is not None
    flows = graph(fabric)
    flows.remove_nodes_from(np.flatnonzero(fabric.kind == CPU).tolist())
    for device in fabric.devices.tolist():
        flows.add_edge(*((device, "far") if fabric.halves[device] else ("near", device)))
    assert found.out_bytes_per_s == pytest.approx(nx.maximum_flow_value(flows, "near", "far"))


@pytest.mark.parametrize("name", ["hgx-h100 x2", "rtx4090-host x2", "dgx-1 x2"])
def test_no_path_of_a_system_beats_the_shortest(name):
    fabric = system_fabric(read_system(name))
    lengths = dict(nx.all_pairs_shortest_path_length(graph(fabric)))
    count = len(fabric.devices)
    sender, receiver = np.divmod(np.arange(count * count), count)
    found = np.diff(fabric.route(sender, receiver).first)
    assert all(links >= lengths[one][other] for links, one, other in zip(found, sender, receiver, strict=True))
