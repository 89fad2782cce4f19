"""Loads on links: conserved, the same under other names of devices, even under even traffic; cuts grow with cables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.link_loads import (
    all_to_all_loads,
    bisection,
    busiest_s,
    cut,
    cut_s,
    flow_loads,
    injection_bytes_per_s,
    oversubscription,
    round_s,
)
from meshwright.system.fabric import read_topology, system_fabric
from meshwright.system.graph import SWITCH
from meshwright.system.system import read_system
from tests.unit.system.networks import SMALL

EVEN = (
    "torus:4x4x4",
    "torus:8x4",
    "torus:6x6",
    "torus:5x3",
    "torus:2x2",
    "ring:8",
    "ring:9",
    "full-mesh:6",
    "switch:8",
)


@pytest.mark.parametrize("spec", SMALL)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_bytes_on_links_are_those_of_flows_times_their_links(spec, data):
    fabric = read_topology(spec)
    ranks = st.integers(0, len(fabric.devices) - 1)
    flows = data.draw(st.lists(st.tuples(ranks, ranks, st.integers(0, 10**9)), min_size=1, max_size=20))
    sender, receiver, sent = (np.array(column) for column in zip(*flows, strict=True))
    loads = flow_loads(fabric, sender, receiver, sent.astype(np.float64))
    links = np.diff(fabric.route(sender, receiver).first)
    assert loads.link_bytes.sum() == pytest.approx(float((sent * links).sum()))
    assert loads.byte_links == pytest.approx(loads.link_bytes.sum())


@pytest.mark.parametrize("spec", [spec for spec in SMALL if "ecmp" not in spec])
@given(seed=st.integers(0, 2**16))
@settings(max_examples=5, deadline=None)
def test_the_order_of_flows_changes_no_load(spec, seed):
    fabric = read_topology(spec)
    count = len(fabric.devices)
    sender, receiver = np.divmod(np.arange(count * count), count)
    order = np.random.default_rng(seed).permutation(len(sender))
    sent = np.ones(len(sender))
    straight, shuffled = (flow_loads(fabric, sender[o], receiver[o], sent) for o in (np.arange(len(sender)), order))
    assert np.allclose(straight.link_bytes, shuffled.link_bytes)


@pytest.mark.parametrize("spec", ["torus:4x4", "ring:8", "switch:8", "full-mesh:5", "fat-tree:8,radix=4"])
@given(shift=st.integers(1, 7))
@settings(max_examples=8, deadline=None)
def test_devices_by_other_names_have_the_same_sorted_loads(spec, shift):
    """Every device moved along by a symmetry of the network: loads move along too."""
    fabric = read_topology(spec)
    count = len(fabric.devices)
    moved = _symmetry(spec, count, shift)
    sender, receiver = np.array([0, 0, 1, 2]), np.array([1, 3, 2, 0])
    sent = np.array([1.0, 2.0, 4.0, 8.0])
    one = flow_loads(fabric, sender, receiver, sent)
    other = flow_loads(fabric, moved[sender], moved[receiver], sent)
    assert np.sort(one.link_bytes).tolist() == np.sort(other.link_bytes).tolist()


def _symmetry(spec: str, count: int, shift: int) -> np.ndarray:
    device = np.arange(count)
    if spec.startswith("torus"):  # by an even step, so that ties fall alike
        return (device // 4 + 2 * shift) % 4 * 4 + device % 4
    if spec.startswith("ring"):
        return (device + 2 * shift) % count
    if spec.startswith("fat-tree"):  # whole leaves of two change places
        return (device // 2 + shift) % 4 * 2 + device % 2
    return (device + shift) % count


@pytest.mark.parametrize("spec", EVEN)
@pytest.mark.parametrize("destinations", ["all", "others"])
def test_uniform_traffic_loads_every_link_of_a_regular_network_alike(spec, destinations):
    fabric = read_topology(spec)
    loads = all_to_all_loads(fabric, 1e6, destinations).link_bytes
    by_kind = [loads[fabric.bandwidth_bytes_per_s == width] for width in np.unique(fabric.bandwidth_bytes_per_s)]
    extents = np.unique(fabric.extents)
    if len(extents) < 2:
        assert all(part.min() == pytest.approx(part.max()) for part in by_kind)
    else:  # along each dimension its own
        assert len(np.unique(np.round(loads, 3))) <= len(fabric.extents)


def test_a_uniform_all_to_all_of_512_devices_is_that_of_the_chapter():
    fabric = read_topology("torus:8x8x8,port=50GB/s")
    loads = all_to_all_loads(fabric, 32 * 2**20, "all")
    assert loads.flows == 261_632
    assert loads.most_links == 12
    assert loads.link_bytes.max() == pytest.approx(32 * 2**20)  # M a link: chapter "Supernodes", section 6.5.1


@pytest.mark.parametrize("spec", SMALL)
def test_no_round_beats_its_lower_bounds(spec):
    fabric = read_topology(spec)
    count, sent = len(fabric.devices), 1e6
    loads = all_to_all_loads(fabric, sent, "others")
    seconds = round_s(fabric, loads)
    least = bisection(fabric)
    assert least is not None
    across = sent * least.near * least.far / (count - 1)
    assert seconds >= cut_s(across, least.out_bytes_per_s) * (1 - 1e-9)
    assert seconds >= sent / injection_bytes_per_s(fabric) * (1 - 1e-9)
    assert seconds >= busiest_s(fabric, loads)


@given(wide=st.integers(1, 4), extra=st.integers(0, 3))
@settings(max_examples=12, deadline=None)
def test_cuts_grow_with_cables(wide, extra):
    for spec in ("torus:4x4,lines={}", "full-mesh:6,lines={}", "leaf-spine:2,down=4,up={}"):
        less, more = (bisection(read_topology(spec.format(count))) for count in (wide, wide + extra))
        assert less is not None
        assert more is not None
        assert less.out_bytes_per_s <= more.out_bytes_per_s
        assert less.cables <= more.cables


@pytest.mark.parametrize(
    ("spec", "cables"),
    [("torus:4x4", 8), ("torus:4x4,open=x", 4), ("torus:4x4,open=y", 4), ("torus:2x4", 4), ("torus:8x4", 8)],
)
def test_a_grid_is_cut_across_the_dimension_with_the_fewest_cables(spec, cables):
    # by hand: an open dimension is severed once, a wrapped one twice
    assert bisection(read_topology(spec)).cables == cables


def test_a_cut_counts_each_way_alone():
    fabric = read_topology("leaf-spine:2,down=4,up=2")
    far = np.zeros(len(fabric.kind), dtype=np.bool_)
    far[:4] = True
    found = cut(fabric, far)
    assert (found.near, found.far, found.links) == (4, 4, 4)
    assert found.out_bytes_per_s == found.back_bytes_per_s == 4 * 50e9


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("leaf-spine:4,down=48,up=16", 3.0),
        ("leaf-spine:4,down=32,up=32", 1.0),
        ("nvlink-switch-system:32", 2.0),
        ("fat-tree:512,radix=32", 1.0),
        ("cloudmatrix:48", 1.0),  # a node: eight NPUs of 392 GB/s, 7 x 16 ports of 28 GB/s up
        ("torus:4x4", None),
        ("switch:8", None),
    ],
)
def test_the_taper_of_a_network_is_read_from_its_links(spec, expected):
    assert oversubscription(read_topology(spec)) == expected


def test_planes_folded_into_one_vertex_load_each_chip_alike():
    """One plane of two carries half of each flow: the folded pair has the time of either."""
    one, two = (read_topology(f"leaf-spine:3,down=3,up=2,ports={ports}") for ports in (1, 2))
    sender, receiver = np.divmod(np.arange(81), 9)
    half, whole = (flow_loads(item, sender, receiver, np.full(81, sent)) for item, sent in ((one, 0.5), (two, 1.0)))
    assert busiest_s(one, half) == pytest.approx(busiest_s(two, whole))


def test_sprayed_spines_carry_what_separate_ones_would_of_an_even_split():
    fabric = read_topology("leaf-spine:4,down=8,up=8")
    separate = read_topology("leaf-spine:4,down=8,up=8,routing=ecmp")
    up = (fabric.kind[fabric.sender] == SWITCH) & (fabric.kind[fabric.receiver] == SWITCH)
    ups = (separate.kind[separate.sender] == SWITCH) & (separate.kind[separate.receiver] == SWITCH)
    assert fabric.bandwidth_bytes_per_s[up].sum() == separate.bandwidth_bytes_per_s[ups].sum()


@pytest.mark.parametrize("boxes", [1, 2, 3])
def test_a_round_of_sends_between_neighbours_pays_alpha_and_its_link(boxes):
    """The bottleneck depth is the alpha-beta form where one link of each kind is all that a round shares."""
    system = read_system(f"hgx-h100 x{boxes}")
    fabric = system_fabric(system)
    ranks = np.arange(system.devices)
    loads = flow_loads(fabric, ranks, np.roll(ranks, -1), np.full(len(ranks), 1e6))
    link = system.scale_up if boxes == 1 else system.scale_out
    assert link is not None
    assert round_s(fabric, loads) == pytest.approx(link.latency + 1e6 / link.bandwidth, rel=1e-9)
