"""Topologies by their specs: what they are made of, what they refuse, and the paths that they route."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from itertools import combinations

import numpy as np
import pytest

from meshwright.base import registry
from meshwright.base.errors import MeshwrightError
from meshwright.cost.link_loads import bisection
from meshwright.system.fabric import TOPOLOGIES, is_topology, read_topology
from meshwright.system.routing import hashed
from tests.unit.system.networks import SMALL


def chips(spec: str) -> int:
    return int(read_topology(spec).chips.sum())


def cables(spec: str) -> int:
    return int(read_topology(spec).cables.sum()) // 2


@pytest.mark.parametrize("name", TOPOLOGIES.names())
def test_a_registered_topology_builds_its_own_example(name):
    module = TOPOLOGIES.module(name)
    built = read_topology(module.EXAMPLE)
    assert is_topology(module.EXAMPLE)
    assert module.TITLE
    assert len(built.devices) > 1
    assert len(built.halves) == len(built.kind) == len(built.box) == len(built.chips)
    assert len(built.cables) == len(built.sender) == len(built.latency_s)


@pytest.mark.parametrize("spec", SMALL)
def test_both_ways_of_a_cable_stand_side_by_side(spec):
    built = read_topology(spec)
    assert np.array_equal(built.sender[0::2], built.receiver[1::2])
    assert np.array_equal(built.sender[1::2], built.receiver[0::2])
    assert np.array_equal(built.bandwidth_bytes_per_s[0::2], built.bandwidth_bytes_per_s[1::2])


@pytest.mark.parametrize("spec", SMALL)
def test_a_path_leads_from_its_sender_to_its_receiver_without_a_gap(spec):
    built = read_topology(spec)
    count = len(built.devices)
    sender, receiver = np.divmod(np.arange(count * count), count)
    routes = built.route(sender, receiver)
    for flow, (one, other) in enumerate(zip(sender.tolist(), receiver.tolist(), strict=True)):
        links = routes.links[routes.first[flow] : routes.first[flow + 1]]
        visited = [one, *built.receiver[links].tolist()]
        assert visited[:-1] == built.sender[links].tolist()
        assert visited[-1] == other
        assert len(set(visited)) == len(visited)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("full-mesh:384", (0, 73_536)),  # chapter "Supernodes", section 6.5.5
        ("switch:64,ports=6", (6, 384)),  # section 6.5.1: six chips of 64 ports, 384 cables
        ("torus:4x4x4", (0, 192)),
        ("leaf-spine:4,down=32,up=32", (36, 256)),
        ("fat-tree:512,ports=6,radix=64", (6 * (16 + 8), 6 * 1024)),
        ("fat-tree:radix=4", (20, 48)),  # k = 4 of Al-Fares et al.: 20 switches, 16 devices
        ("cloudmatrix:48", (448, 48 * (8 * 14 + 4 * 7 + 7 * 16))),
        ("nvlink-switch-system:32", (32 * 4 + 36, 256 * 18 + 32 * 72)),
        ("nvl72:72", (18, 72 * 18)),
        ("hybrid-cube-mesh", (0, 24)),
        ("nvswitch:16,boards=2,chips=12,ports=6,radix=18", (12, 16 * 6 + 48)),
    ],
)
def test_chips_and_cables_are_counted(spec, expected):
    assert (chips(spec), cables(spec)) == expected


def test_a_device_of_a_hybrid_cube_mesh_has_six_ports():
    built = read_topology("hybrid-cube-mesh")
    assert np.bincount(built.sender, weights=built.cables).tolist() == [6.0] * 8


def test_pairs_without_a_cable_relay_over_a_neighbour():
    built = read_topology("hybrid-cube-mesh")
    assert np.diff(built.route(np.array([0, 0, 0]), np.array([4, 5, 7])).first).tolist() == [1, 2, 2]


def test_a_path_of_three_levels_pays_five_chips():
    built = read_topology("fat-tree:16,radix=4")
    routes = built.route(np.array([0, 0, 0]), np.array([1, 2, 15]))
    assert np.diff(routes.first).tolist() == [2, 4, 6]


def test_a_rail_stays_on_its_leaf_and_another_rail_crosses_spines():
    built = read_topology("rail-optimised:32,rails=8")
    routes = built.route(np.array([0, 0]), np.array([8 * 7, 8 * 7 + 1]))
    assert np.diff(routes.first).tolist() == [2, 4]


def test_ecmp_takes_one_spine_a_flow_by_its_seed():
    one, other = (read_topology(f"leaf-spine:4,down=8,up=8,routing=ecmp,seed={seed}") for seed in (0, 1))
    sender, receiver = np.arange(8), np.arange(8) + 8
    first, second, again = (item.route(sender, receiver).links for item in (one, other, one))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, second)


def test_the_hash_of_flows_spreads_them():
    sender, receiver = np.divmod(np.arange(256 * 256), 256)
    counts = np.bincount(hashed(0, sender, receiver, 32))
    assert counts.min() > 0.9 * counts.mean()
    assert counts.max() < 1.1 * counts.mean()


def test_half_of_the_ties_of_an_even_ring_go_each_way():
    built = read_topology("ring:16")
    links = built.route(np.arange(16), (np.arange(16) + 8) % 16).links
    assert np.bincount(links, minlength=32).tolist() == [4] * 32


def test_slices_of_a_pod_have_wraparound_and_parts_of_a_block_have_none():
    assert cables("tpu-slice:4x4x8") == cables("torus:4x4x8")
    assert cables("tpu-slice:2x2x4") == cables("torus:2x2x4,open=xyz")


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("hypercube:8", "SYS020"),
        ("torus:4xfour", "SYS021"),
        ("torus:2x2x2x2x2", "SYS021"),
        ("torus:4x4,open=z", "SYS021"),
        ("switch:8,ports", "SYS021"),
        ("switch:8,devices=9", "SYS021"),
        ("switch:65", "SYS022"),
        ("switch:64,ports=6,chips=5", "SYS022"),
        ("leaf-spine:4,down=48,up=32", "SYS022"),
        ("leaf-spine:65,down=32,up=32", "SYS022"),
        ("leaf-spine:2,down=4,up=4,devices=9", "SYS022"),
        ("fat-tree:17,radix=4", "SYS022"),
        ("fat-tree:512,routing=ecmp,seed=-1", "SYS023"),
        ("rail-optimised:4,routing=ecmp,seed=9223372036854775808", "SYS023"),
        ("rail-optimized:4", "SYS020"),
        ("nvswitch:13", "SYS022"),
        ("nvlink-switch-system:33,chips=2", "SYS022"),
        ("rail-optimised:64,rails=40,radix=64", "SYS022"),
        ("cloudmatrix:49", "SYS022"),
        ("dragonfly:10", "SYS022"),
        ("switch:1", "SYS023"),
        ("full-mesh:9000", "SYS023"),
        ("torus:0x4", "SYS023"),
        ("torus:4x4,port=0GB/s", "SYS009"),
        ("leaf-spine:2,down=4,up=4,lines=3", "SYS025"),
        ("fat-tree:8,radix=5", "SYS025"),
        ("fat-tree:16,radix=4,routing=ecmp", "SYS025"),
        ("nvswitch:8,boards=3", "SYS025"),
        ("hybrid-cube-mesh:16", "SYS025"),
        ("tpu-slice:4x4x6", "SYS026"),
        ("tpu-slice:16x16x20", "SYS026"),
        ("torus:4x4,colour=red", "IO015"),
        ("torus:4x4,port=50", "IO002"),
        ("leaf-spine:4,routing=valiant", "IO013"),
    ],
)
def test_a_spec_that_cannot_be_built_is_refused_by_code(spec, code):
    with pytest.raises(MeshwrightError) as caught:
        read_topology(spec)
    assert caught.value.code == code
    assert caught.value.fix


def test_an_outsider_adds_a_topology_with_one_file(tmp_path, monkeypatch):
    (tmp_path / "outside_star.py").write_text(
        "from meshwright.system.topologies import switch\n"
        'TITLE, EXAMPLE, HEAD = "a star", "my-star:5", "devices"\n'
        "Spec, build = switch.Spec, switch.build\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint(name="topologies.my_star", value="outside_star", group="meshwright")
    monkeypatch.setattr(registry, "_installed", lambda: (entry,))
    assert "my_star" in TOPOLOGIES.names()
    assert len(read_topology("my-star:5").devices) == 5


@pytest.mark.parametrize(
    "spec",
    [
        "dragonfly:4,routers=3,per_router=2,across=1",
        "dragonfly:3,routers=4,per_router=1,across=1",
        "dragonfly:5,routers=2,per_router=2,across=2",
    ],
)
def test_no_cut_between_routers_of_a_dragonfly_is_less_than_the_one_named(spec):
    fabric = read_topology(spec)
    count = len(fabric.devices)
    routers = len(fabric.kind) - count
    between = (fabric.sender >= count) & (fabric.receiver >= count)
    one, other = fabric.sender[between] - count, fabric.receiver[between] - count
    least = len(one)
    for chosen in combinations(range(routers), routers // 2):
        far = np.isin(np.arange(routers), chosen)
        least = min(least, int(np.count_nonzero(far[one] & ~far[other])))
    found = bisection(fabric)
    assert (found.near, found.far, found.cables) == (count - count // 2, count // 2, least)
