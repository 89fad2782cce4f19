"""The network of a catalog system: boxes, NICs, CPUs, and paths that pay what the link facts say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.base.errors import SystemSpecError
from meshwright.system.fabric import system_fabric
from meshwright.system.graph import CPU, KINDS, NIC
from meshwright.system.system import SYSTEMS, Topology, read_system


def paths(fabric, sender, receiver):
    """Links, latency and least bandwidth of each path."""
    routes = fabric.route(np.array(sender), np.array(receiver))
    for start, end in zip(routes.first[:-1], routes.first[1:], strict=True):
        links = routes.links[start:end]
        yield len(links), fabric.latency_s[links].sum(), fabric.bandwidth_bytes_per_s[links].min()


@pytest.mark.parametrize("name", SYSTEMS.names())
def test_a_message_pays_the_latency_of_the_link_that_it_takes(name):
    system = read_system(name)
    many = read_system(f"{name} x3") if system.scale_out is not None else system
    fabric = system_fabric(many)
    assert len(fabric.devices) == many.devices
    meshed = system.topology.scale_up.partition(":")[0] in {"switch", "nvswitch", "nvl72", "full-mesh"}
    if meshed and name != "dgx-2" and many.devices > 1:
        ((_, near_s, _),) = paths(fabric, [0], [1])
        assert near_s == pytest.approx(system.scale_up.latency, rel=1e-12)
    if many.nodes > 1 and system.topology.scale_out == "switch":
        ((_, far_s, _),) = paths(fabric, [0], [2 * system.devices_per_node + 1])
        assert far_s == pytest.approx(many.nic_latency, rel=1e-12)


def test_an_h100_box_pays_nvlink_within_and_connectx_between():
    fabric = system_fabric(read_system("hgx-h100 x2"))
    near, far = paths(fabric, [0, 0], [7, 8])
    assert near == (2, pytest.approx(0.822e-6, rel=1e-12), 450e9)
    assert far == (6, pytest.approx(3.76e-6, rel=1e-12), 50e9)


def test_a_system_holds_what_its_host_has():
    fabric = system_fabric(read_system("hgx-h100 x2"))
    found = dict(zip(*np.unique(fabric.kind, return_counts=True), strict=True))
    assert {KINDS[kind]: count for kind, count in found.items()} == {
        "device": 16,
        "switch": 3,
        "nic": 16,
        "pcie_switch": 16,
        "cpu": 4,
    }
    assert fabric.name(0) == "box 0, device 0"
    assert fabric.name(15) == "box 1, device 7"


def test_devices_of_a_box_share_its_nics():
    system = replace(read_system("hgx-h100 x2"), nics_per_node=2)
    fabric = system_fabric(system)
    routes = fabric.route(np.arange(8), np.arange(8) + 8)
    loads = np.bincount(routes.links, minlength=len(fabric.sender))
    nics = fabric.kind[fabric.sender] == NIC
    assert loads[nics].max() == 4


def test_a_box_without_peer_to_peer_exchanges_through_its_cpu():
    fabric = system_fabric(read_system("rtx4090-host"))
    routes = fabric.route(np.array([0]), np.array([7]))
    visited = fabric.kind[fabric.receiver[routes.links]]
    assert CPU in visited
    assert fabric.latency_s[routes.links].sum() == pytest.approx(read_system("rtx4090-host").scale_up.latency)


def test_a_relay_keeps_a_message_on_its_rail():
    system = read_system("hgx-h100 x40")
    rails = replace(system, topology=Topology(scale_out="rail-optimised:radix=64"))
    own, relay = (
        next(paths(system_fabric(replace(rails, topology=replace(rails.topology, rails=way))), [0], [9]))
        for way in ("own", "relay")
    )
    assert own[:2] == (8, pytest.approx(3.76e-6 + 2 * 200e-9))
    assert relay[:2] == (8, pytest.approx(3.76e-6 + 0.822e-6))


def test_a_buffer_at_a_cpu_is_reached_over_the_link_between_cpus():
    fabric = system_fabric(read_system("hgx-h100"))
    cpus = np.flatnonzero(fabric.kind == CPU)
    own, other = paths(fabric, [0, 0], [cpus[0], cpus[1]])
    assert (own[0], other[0]) == (2, 3)
    assert own[2] == 64e9


def test_a_topology_of_another_size_than_its_box_is_refused():
    system = replace(read_system("hgx-h100"), topology=Topology(scale_up="torus:4x4"))
    with pytest.raises(SystemSpecError, match="SYS027"):
        system_fabric(system)


def test_a_route_through_host_memory_of_another_box_is_refused():
    fabric = system_fabric(read_system("hgx-h100 x2"))
    cpus = np.flatnonzero(fabric.kind == CPU)
    with pytest.raises(SystemSpecError, match="SYS028"):
        fabric.route(np.array([0]), cpus[-1:])


@pytest.mark.parametrize("name", ["hgx-h100 x2", "rtx4090-host x2"])
def test_a_path_of_a_system_leads_from_end_to_end(name):
    fabric = system_fabric(read_system(name))
    count = len(fabric.devices)
    switch = len(fabric.kind) - 1  # the network between boxes
    sender, receiver = (
        np.append(column, (3, switch)[place]) for place, column in enumerate(np.divmod(np.arange(count**2), count))
    )
    sender, receiver = np.append(sender, switch), np.append(receiver, 12)
    routes = fabric.route(sender, receiver)
    for flow, (one, other) in enumerate(zip(sender.tolist(), receiver.tolist(), strict=True)):
        links = routes.links[routes.first[flow] : routes.first[flow + 1]]
        visited = [one, *fabric.receiver[links].tolist()]
        assert visited[:-1] == fabric.sender[links].tolist()
        assert visited[-1] == other


def test_a_switch_of_a_box_is_an_end_too():
    fabric = system_fabric(read_system("hgx-h100 x2"))
    switch = int(np.flatnonzero(fabric.kind == 1)[1])
    up, down = fabric.route(np.array([9, switch]), np.array([switch, 9])).links
    assert (fabric.sender[up], fabric.receiver[up]) == (9, switch)
    assert (fabric.sender[down], fabric.receiver[down]) == (switch, 9)


def test_a_users_file_names_its_topologies(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'accelerator = "h100-sxm"\nnodes = 2\ndevices_per_node = 4\nscale_up = "nvlink4"\nscale_out = "connectx-7"\n'
        'nics_per_node = 4\n[topology]\nscale_up = "ring"\nscale_out = "leaf-spine:2,down=4,up=2"\n[host]\n'
        "numa_nodes = 2\npcie_switches = 2\n",
        encoding="utf-8",
    )
    fabric = system_fabric(read_system(str(path)))
    assert [len(fabric.devices), int(fabric.chips.sum())] == [8, 4]
    near, far = paths(fabric, [0, 0], [2, 4])
    assert near == (2, pytest.approx(2 * 0.822e-6), 9 * 25e9)
    assert far[0] == 8
