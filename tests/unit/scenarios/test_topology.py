"""Networks and loads on them, as `topology` and the studies of networks tell them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.base.result import as_json
from meshwright.output.network_svg import as_svg
from meshwright.scenarios.collective_time import CollectiveOptions, collective_time
from meshwright.scenarios.networks import cut_bound, lane_rates, torus_or_switch
from meshwright.scenarios.numa_staging import numa_staging, numa_stagings
from meshwright.scenarios.topology import TopologyOptions, busy_of, network_of, topology
from meshwright.system.system import read_system
from tests.unit.system.networks import SMALL


def answer(network, system=None, **options):
    given = TopologyOptions(network=network, **options)
    return as_json(topology(given, None if system is None else read_system(system)))


def test_counts_of_a_torus_are_those_of_the_chapter():
    found = answer("torus:4x4x4")["network"]
    assert (found["devices"], found["cables"], found["ports"], found["diameter_links"]) == (64, 192, 384, 6)
    assert found["bisection"]["cables"] == 32
    assert found["mean_links_with_self"] == pytest.approx(3.0)
    assert found["oversubscription"] is None


def test_long_paths_are_walked_a_part_at_a_time(monkeypatch):
    # a ring of 131,072 would need terabytes for the links of its paths, all at once
    whole = answer("ring:64", load="all_reduce", algorithm="recursive_doubling")
    monkeypatch.setattr("meshwright.cost.link_loads._LINKS_AT_ONCE", 40)
    most = []
    build = network_of(TopologyOptions(network="ring:64"), None)
    counted = replace(build, route=lambda one, other: most.append(len(one)) or build.route(one, other))
    monkeypatch.setattr("meshwright.scenarios.topology.network_of", lambda *_: counted)
    assert answer("ring:64", load="all_reduce", algorithm="recursive_doubling")["rounds"] == whole["rounds"]
    assert max(most) == 64


def test_options_stand_where_a_spec_says_nothing():
    plain = answer("torus:4x4,port=10GB/s", port=25e9, latency=1e-6)
    assert plain["links"][0]["bandwidth_bytes_per_s"] == 10e9
    assert plain["links"][0]["latency_s"] == 1e-6


def test_a_uniform_load_takes_the_longest_of_its_bounds():
    load = answer("torus:4x4x4", load="all_to_all", bytes=2**25)["load"]
    assert load["least_s"] == max(load["busiest_s"], load["injection_s"], load["cut_s"])
    assert load["busiest_s"] == pytest.approx(335.5e-6, rel=2e-4)  # chapter "Supernodes", section 6.5.1
    assert load["injection_s"] == pytest.approx(111.8e-6, rel=1e-3)


def test_rounds_of_a_program_add_up():
    found = answer("ring:16", load="all_reduce", algorithm="swing", bytes=2**23)
    rounds, load = found["rounds"], found["load"]
    assert sum(row["times"] * row["transfer_s"] for row in rounds) == pytest.approx(load["busiest_s"])
    assert sum(row["times"] * row["link_total_bytes"] for row in rounds) == pytest.approx(load["link_total_bytes"])
    assert rounds[-1]["until_s"] == load["time_s"]
    assert load["sent_bytes"] == pytest.approx(2 * 15 / 16 * 2**23)


def test_a_ring_over_two_boxes_pays_its_slowest_link_in_every_round():
    load = answer("hgx-h100 x2", "hgx-h100 x2", load="all_reduce", algorithm="ring", bytes=10240)["load"]
    assert load["latency_s"] == pytest.approx(30 * 3.76e-6)
    # a channel for each of eight NICs of a box, with an eighth of the message
    assert load["busiest_s"] == pytest.approx(30 * 10240 / 16 / 8 / 50e9)


@pytest.mark.parametrize(
    ("network", "algorithm"),
    [
        ("torus:5x4x3", "torus_rings"),
        ("torus:5x4x3", "ring"),
        ("leaf-spine:leaves=3,down=4,up=2", "in_switch"),
        ("nvlink-switch-system:3", "hierarchical"),
        ("nvlink-switch-system:3", "double_binary_tree"),
        ("cloudmatrix:3", "two-dimensional"),
    ],
)
def test_a_load_takes_as_long_as_the_same_collective(network, algorithm):
    load = answer(network, load="all_reduce", algorithm=algorithm, bytes=10**7)["load"]
    fabric = network_of(TopologyOptions(network=network), None)
    asked = CollectiveOptions(operation="all_reduce", on=network, size=10**7, algorithm=algorithm)
    assert load["time_s"] == pytest.approx(collective_time(asked, fabric).best.measures["time_s"])


def test_rings_of_a_torus_go_along_its_own_extents():
    # by hand: 60 MB over 5 x 4 x 3, six parts of 10 MB; rounds of 2 x 3.33, 2 x 2.67, 2 x 0.83, 0.67, 2 x 0.17 MB
    found = answer("torus:5x4x3,port=50GB/s", load="reduce_scatter", algorithm="torus_rings", bytes=60 * 10**6)
    carried = 20 / 3 + 16 / 3 + 5 / 3 + 2 / 3 + 1 / 3
    assert found["load"]["busiest_s"] == pytest.approx(carried * 1e6 / 50e9)
    assert max(row["most_links"] for row in found["rounds"]) == 1


def test_a_program_over_boxes_says_that_it_does_not_use_all_their_nics():
    told = answer("hgx-h100 x2", "hgx-h100 x2", load="all_reduce", algorithm="ring", bytes=10240)["notes"]
    assert any("in one order of ranks" in note for note in told)


def test_links_are_told_by_sort_and_carry_all_bytes():
    found = answer("rail-optimised:4,rails=2,group=2,radix=4", load="all_to_all", bytes=10**6)
    names = [row["id"] for row in found["links"]]
    assert names == ["device > leaf", "leaf > device", "leaf > spines", "spines > leaf"]
    total = sum(row["links"] * row["mean_bytes"] for row in found["links"])
    assert total == pytest.approx(found["load"]["link_total_bytes"])


def test_a_switch_of_unknown_build_has_no_chips_to_count():
    assert answer("l40s-host x2", "l40s-host x2")["network"]["switch_chips"] is None
    assert answer("hgx-h100", "hgx-h100")["network"]["switch_chips"] == 4


@pytest.mark.parametrize(
    ("network", "options", "code"),
    [
        ("torus:4x4", {"load": "all_reduce"}, "SYS029"),
        ("torus:4x4", {"load": "broadcast", "algorithm": "swing"}, "SYS029"),
        ("torus:4x4", {"load": "all_reduce", "algorithm": "in_switch"}, "COL034"),
        ("torus:64x64", {"load": "all_to_all"}, "SYS029"),
        ("ring:2048", {"load": "all_to_all"}, "SYS029"),
        ("ring:131072", {}, "SYS036"),
        ("torus:4x4", {"load": "all_reduce", "algorithm": "swung"}, "COL001"),
        ("torus:3x3", {"load": "all_reduce", "algorithm": "swing"}, "COL002"),
        ("torus", {"port": 0.0}, "SYS009"),
    ],
)
def test_a_load_that_cannot_be_is_refused(network, options, code):
    with pytest.raises(MeshwrightError) as caught:
        answer(network, **options)
    assert caught.value.code == code


@pytest.mark.parametrize("network", [*SMALL, "cloudmatrix:48", "torus:8x8x8"])
def test_a_network_is_drawn_with_every_cable_between_what_is_shown(network):
    options = TopologyOptions(network=network)
    fabric = network_of(options, None)
    picture = as_svg(fabric, "a network", busy_of(fabric, options))
    assert picture.startswith("<svg ")
    drawn = picture.count("<rect") - 1 - len(np.unique(fabric.kind))
    assert drawn == len(fabric.kind) or "are not drawn" in picture
    if drawn == len(fabric.kind) and not fabric.extents:
        assert picture.count("<line") == len(fabric.sender) // 2


def test_the_busiest_link_is_the_reddest():
    options = TopologyOptions(network="leaf-spine:2,down=4,up=1", load="all_to_all")
    fabric = network_of(options, None)
    busy = busy_of(fabric, options)
    assert busy.argmax() in np.flatnonzero(fabric.kind[fabric.sender] == fabric.kind[fabric.receiver])
    assert 'stroke="rgb(214,39,40)"' in as_svg(fabric, "a network", busy)


def test_a_system_is_drawn_whole():
    options = TopologyOptions(network="hgx-h100 x2")
    fabric = network_of(options, read_system("hgx-h100 x2"))
    picture = as_svg(fabric, "two boxes", busy_of(fabric, options))
    assert picture.count("<rect") - 1 - 5 == len(fabric.kind)
    assert "NVSwitch" in picture


def test_buffers_beside_senders_halve_what_crosses_between_cpus():
    found = numa_stagings(read_system("hgx-h100"), 4, "ring", "all_reduce", 2**23)
    assert found.ratio == (2.0, 1.0, 2.0)  # chapter "Supernodes", section 6.5.1
    assert {item.pcie_bytes for item in (found.first_cpu, found.beside_sender, found.alternating)} == {12 * 2**20}
    assert found.beside_sender.to_buffer_crossings == 0
    assert found.alternating.from_buffer_crossings == 4


def test_cards_that_a_box_does_not_have_are_refused():
    for order in ((0, 1, 1, 3), (0, 1, 2, 8)):
        with pytest.raises(MeshwrightError, match="SYS028"):
            numa_staging(
                system=read_system("hgx-h100"),
                cards=4,
                order=order,
                buffers="beside_sender",
                algorithm="ring",
                operation="all_reduce",
                message_bytes=2**23,
            )


def test_each_way_over_a_cut_is_bound_alone():
    found = cut_bound("leaf_spine", {"leaves": "4", "down": "48", "up": "16", "port": "25GB/s"}, 10**9, 10**8)
    assert found.out_s == pytest.approx(10**9 / (2 * 16 * 25e9))
    assert found.back_s == pytest.approx(found.out_s / 10)
    assert found.least_s == found.out_s


def test_two_protocols_share_the_lanes_of_one_port():
    found = lane_rates(72, 14e9, 18)
    assert found.first_bytes_per_s + found.second_bytes_per_s == found.one_way_bytes_per_s == 1008e9
    assert found.second_bytes_per_s == 18 * 14e9


def test_a_switch_beats_a_torus_by_more_the_larger_the_cube():
    given = {"ports": 6, "port_bytes_per_s": 50e9, "forward_s": 200e-9, "radix": 64, "message_bytes": 2**25}
    given |= {"destinations": "all", "reductions": 128, "reductions_s": 1.478e-3}
    small, large = (torus_or_switch(k=k, **given) for k in (2, 4))
    assert small.least_ratio < large.least_ratio == pytest.approx(3.0)


def test_a_box_of_one_device_has_no_path_and_says_so():
    with pytest.raises(MeshwrightError) as problem:
        topology(TopologyOptions(network="rtx4080-host"), read_system("rtx4080-host"))
    assert problem.value.code == "SYS041"
