"""How long collectives take on systems and topologies: the chapter's numbers, depths that agree, layouts, refusals."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from meshwright.base.errors import CollectiveError
from meshwright.cost.collectives import COLLECTIVES
from meshwright.layout.layout import Layout
from meshwright.scenarios._collective_sizes import crossovers
from meshwright.scenarios.collective_time import Beside, CollectiveOptions, collective_curves, collective_time
from meshwright.system.fabric import read_topology, system_fabric
from meshwright.system.system import read_system
from meshwright.workload.traffic import check_crossed

DEPTHS = ("alpha-beta", "rounds", "flows")
EXPERTS = Layout(tp=2, dp_replicate=4, ep=4, etp=2, attention="replicated")


def asked(operation="all_reduce", on="hgx-h100", size=10240, layout=None, system=None, **more):
    options = CollectiveOptions(operation=operation, on=on, size=size, **more)
    if ":" in on:
        return collective_time(options, read_topology(on), None, layout)
    system = read_system(on) if system is None else system
    return collective_time(options, system_fabric(system), system, layout)


def times(result):
    return {item.id: item.measures["time_s"] for item in result.candidates}


def two_halves():
    """Two hosts of four H100 each."""
    return replace(read_system("hgx-h100 x2"), devices_per_node=4, nics_per_node=4)


@pytest.mark.parametrize("depth", DEPTHS)
def test_ring_and_tree_of_the_chapter_on_eight_h100(depth):
    # Source: chapter "Supernodes", section 6.4.2: 11.55 and 5.07 us at 10 KiB, 0.34 and 1.12 ms at 80 MiB, 680 KiB
    small = asked(algorithm="ring,tree", depth=depth)
    assert times(small) == {"tree": pytest.approx(5.07e-6, rel=1e-3), "ring": pytest.approx(11.55e-6, rel=5e-4)}
    large = asked(algorithm="ring,tree", depth=depth, size=80 * 2**20)
    assert times(large) == {"ring": pytest.approx(0.34e-3, rel=0.015), "tree": pytest.approx(1.12e-3, rel=5e-3)}
    (flip,) = small.flips
    assert (flip["from"], flip["to"], flip["unit"]) == ("tree", "ring", "B")
    assert flip["value"] / 1024 == pytest.approx(680, rel=1e-3)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_flip_is_the_first_byte_at_which_another_algorithm_is_the_fastest(depth):
    flips = asked(depth=depth).flips
    assert flips
    for flip in flips:
        assert asked(depth=depth, size=flip["value"] - 1).best.id == flip["from"]
        assert asked(depth=depth, size=flip["value"]).best.id == flip["to"]


@pytest.mark.parametrize("operation", ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"])
def test_depths_agree_on_one_box_where_ranks_are_alike(operation):
    found = [times(asked(operation, size=2**20, depth=depth)) for depth in DEPTHS]
    for name in found[0]:
        if name not in {"tree", "double_binary_tree", "in_switch", "ring"} or operation != "broadcast":
            assert found[0][name] == pytest.approx(found[1][name])
    assert found[0].keys() == found[1].keys() == found[2].keys()
    alike = {"direct", "ring", "hierarchical", "recursive_doubling", "one_shot", "two_shot"}
    for name in alike & found[0].keys():
        assert found[2][name] == pytest.approx(found[1][name], rel=1e-9)


def test_every_registered_algorithm_runs_or_is_refused_with_its_code_and_reason():
    result = asked(ranks=6)
    names = {name for name in COLLECTIVES.names() if "all_reduce" in COLLECTIVES.module(name).OPERATIONS}
    assert set(times(result)) == names
    for item in result.candidates:
        assert item.fits == (item.excluded is None) == (item.measures["time_s"] is not None)
    assert {item.id: item.excluded.code for item in result.candidates if not item.fits}["swing"] == "COL002"


def test_rates_are_those_of_nccl_tests():
    result = asked(on="hgx-h100 x2", size=2**26, algorithm="hierarchical")
    seconds = times(result)["hierarchical"]
    assert result.best.measures["algbw_bytes_per_s"] == pytest.approx(2**26 / seconds)
    assert result.best.measures["busbw_bytes_per_s"] == pytest.approx(2**26 / seconds * 1.875)


def test_a_second_box_makes_one_ring_wait_for_one_nic_and_channels_use_all_of_them():
    more = {"on": "hgx-h100 x2", "size": 2**26, "algorithm": "ring,hierarchical", "depth": "flows"}
    one = {item.id: item.measures for item in asked(channels=1, **more).candidates}
    all_of_them = {item.id: item.measures for item in asked(**more).candidates}
    assert (one["ring"]["channels"], all_of_them["ring"]["channels"]) == (1, 8)
    assert "NIC" in one["ring"]["busiest_link"]
    assert all_of_them["ring"]["time_s"] < one["ring"]["time_s"] / 4
    assert one["hierarchical"] == all_of_them["hierarchical"]
    # Source: chapter "Supernodes", section 6.4.3: nccl-tests measured 466.1 us; what is not modelled only adds
    for name in ("ring", "hierarchical"):
        assert 0.8 * 466.1e-6 < all_of_them[name]["time_s"] < 466.1e-6


def test_a_flat_ring_over_two_boxes_pays_the_start_up_of_the_chapter():
    # Source: chapter "Supernodes", section 6.5.1: 30 rounds of 3.76 us are 113 us
    (item,) = asked(on="hgx-h100 x2", algorithm="ring").candidates
    assert item.measures["rounds"] == 30
    assert item.measures["start_up_s"] == pytest.approx(113e-6, rel=0.005)


def test_a_layout_of_experts_leaves_the_host_only_between_groups():
    # Source: chapter "Supernodes", section 6.3.1 and task 6-8c: pairs stay in a host, 16 + 16 + 24 KiB a card
    result = asked(on="two hosts", size=16 * 1024, algorithm="ring", layout=EXPERTS, ports=True, system=two_halves())
    merges = {merge["axis"]: merge for merge in result.body["merges"]}
    sent = {item.measures["axis"]: item.measures["bytes_per_rank"] for item in result.candidates}
    assert [sent[axis] / 1024 for axis in ("tp", "etp", "ep")] == [16, 16, 24]
    kinds = {axis: {use.kind for use in merge["ports"]} for axis, merge in merges.items()}
    assert kinds["tp"] == kinds["etp"] == {"NVLink 4"}
    assert kinds["ep"] == {"NVLink 4", "ConnectX-7 400 Gbit/s", "host links (PCIe)"}
    assert merges["tp"]["ranks"] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert merges["ep"]["ranks"] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert merges["tp"]["crossings"] == merges["etp"]["crossings"] == ()
    out, back = merges["ep"]["crossings"]
    assert (out.sender, out.receiver, back.sender, back.receiver) == ("box 0", "box 1", "box 1", "box 0")
    assert out.total_bytes == back.total_bytes == 2 * 24 * 1024  # the rank at an end of each of two rings sends across


def test_copies_of_attention_that_serve_one_request_merge_nothing():
    # Source: chapter "Supernodes", section 6.3.1: merges are those of tp, of the pair of an expert, and of the groups
    result = asked(size=16 * 1024, algorithm="ring", layout=EXPERTS)
    assert {merge["axis"] for merge in result.body["merges"]} == {"tp", "etp", "ep"}
    assert any("attention=replicated" in note for note in result.notes)
    own = asked(size=16 * 1024, algorithm="ring", layout=replace(EXPERTS, attention="data_parallel"))
    assert {merge["axis"] for merge in own.body["merges"]} == {"dp_replicate", "tp", "etp", "ep"}


def test_the_same_layout_on_one_host_uses_no_nic():
    result = asked(size=16 * 1024, algorithm="ring", layout=EXPERTS, ports=True)
    for merge in result.body["merges"]:
        assert {use.kind for use in merge["ports"]} == {"NVLink 4"}
        assert merge["crossings"] == ()


def test_groups_of_one_axis_share_links():
    layout = Layout(tp=8, dp_replicate=2, attention="data_parallel")
    one = asked(on="hgx-h100 x2", size=2**20, algorithm="ring", layout=layout)
    small = replace(layout, tp=4)
    result = asked("send_recv", on="leaf-spine:leaves=2,down=4,up=1,port=25GB/s", size=2**20, layout=small)
    (item,) = [item for item in result.candidates if item.measures["axis"] == "dp_replicate"]
    alone = asked("send_recv", on="switch:8,port=25GB/s", size=2**20, ranks=2)
    assert item.measures["time_s"] > 3.9 * alone.best.measures["time_s"] * (2**20 / 25e9) / (2**20 / 25e9 + 4e-7)
    assert layout.world_size == prod((2, 8)) == len(one.body["merges"][0]["ranks"]) * 8


@pytest.mark.parametrize("depth", DEPTHS)
def test_other_traffic_slows_what_shares_its_links(depth):
    alone = asked(size=2**26, algorithm="ring", depth=depth)
    beside = asked(size=2**26, algorithm="ring", depth=depth, beside=(Beside(sender=0, receiver=4, rate=225e9),))
    assert beside.best.measures["time_s"] > 1.5 * alone.best.measures["time_s"]


def test_paths_that_would_not_fit_into_memory_are_refused_before_they_are_made():
    # 16 steps of 65,536 sends over 16,384 links on average: terabytes
    with pytest.raises(CollectiveError, match="COL050") as caught:
        asked(on="ring:65536", algorithm="recursive_doubling")
    assert "--algorithm ring" in caught.value.fix


def test_a_network_without_switches_is_told_so_before_any_path_is_followed():
    # half of a ring of 131,072 is 65,536 links, for every rank: terabytes
    with pytest.raises(CollectiveError, match="ring of 131072 has no switch") as caught:
        asked(on="ring:131072", algorithm="in_switch")
    assert caught.value.code == "COL034"


def test_ways_to_a_switch_that_would_not_fit_are_refused():
    with pytest.raises(CollectiveError, match="COL050"):
        check_crossed(read_topology("ring:131072"), np.arange(131_072), np.roll(np.arange(131_072), 65_536))


@pytest.mark.parametrize("on", ["hgx-a100", "hgx-h100 x2", "rtx4090-host x2", "cloudmatrix384"])
def test_a_switch_that_nobody_measured_to_add_is_no_choice_unless_it_is_named(on):
    # NVSwitch of A100 has no SHARP, and whether switches between boxes have it is theirs to say
    refused = next(item for item in asked(on=on, size=2**30).candidates if item.id == "in_switch")
    assert refused.excluded.code == "COL037"
    named = asked(on=on, size=2**30, algorithm="in_switch")
    assert named.best.id == "in_switch"
    assert "supposes that the switch adds" in " ".join(named.notes)


@pytest.mark.parametrize("change", [{}, {"bandwidth": 400e9}, {"latency": 1e-6}])
def test_a_switch_that_was_measured_to_add_does_so_at_any_rate(change):
    system = read_system("hgx-h100")
    system = replace(system, scale_up=replace(system.scale_up, **change))
    found = asked(size=2**30, system=system)
    assert found.best.id == "in_switch"
    assert "supposes" not in " ".join(found.notes)


@pytest.mark.parametrize("ranks", [12, 16, 9])
def test_a_switch_between_boxes_adds_for_any_part_of_them_and_says_where_it_stands(ranks):
    found = asked(on="hgx-h100 x2", ranks=ranks, algorithm="in_switch", ports=True)
    assert any("over boxes adds in a switch of the network" in note for note in found.notes)
    (merge,) = found.body["merges"]
    (nics,) = [use for use in merge["ports"] if use.kind == "ConnectX-7 400 Gbit/s"]
    assert nics.ranks == tuple(range(ranks))
    assert "over boxes" not in " ".join(asked(algorithm="in_switch").notes)


def test_in_switch_adds_at_the_switch_that_joins_all_ranks():
    result = asked(size=2**30, algorithm="in_switch", depth="flows")
    assert result.best.measures["bytes_per_rank"] < 1.2 * 2**30
    assert asked(on="leaf-spine:leaves=2,down=4,up=4", algorithm="in_switch").best is not None
    with pytest.raises(CollectiveError, match="COL034"):
        asked(on="torus:4x4", algorithm="in_switch")


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"operation": "all_reduc"}, "COL017"),
        ({"algorithm": "rings"}, "COL001"),
        ({"operation": "all_to_all", "algorithm": "ring"}, "COL010"),
        ({"algorithm": "swing", "ranks": 6}, "COL002"),
        ({"ranks": 9}, "COL035"),
        ({"ranks": 1}, "COL035"),
        ({"size": 0}, "COL035"),
        ({"channels": 0, "algorithm": "ring"}, "COL035"),
        ({"channels": 0}, "COL035"),
        ({"channels": 9}, "COL035"),
        ({"layout": Layout(tp=16)}, "COL035"),
        ({"layout": Layout(tp=4), "ranks": 8}, "COL035"),
        ({"on": "hgx-h100 x2", "ranks": 12, "algorithm": "hierarchical"}, "COL033"),
        ({"operation": "all_to_all", "on": "torus:16x16x16", "algorithm": "direct"}, "COL030"),
        ({"beside": (Beside(sender=0, receiver=8),)}, "COL036"),
        ({"beside": (Beside(sender=1, receiver=1),)}, "COL036"),
    ],
)
def test_what_cannot_be_asked_is_refused(more, code):
    with pytest.raises(CollectiveError, match=code):
        asked(**more)


def test_crossovers_are_found_to_the_byte_and_between_powers_of_two():
    lines = {
        "a": lambda size: 10.0 + size,
        "b": lambda size: 1000.0 + size / 10,
        "c": lambda size: 5000.0 + size / 1000,
    }
    assert [(item.below, item.above) for item in crossovers(lines)] == [("a", "b"), ("b", "c")]
    first, second = crossovers(lines)
    assert lines["b"](first.size_bytes) < lines["a"](first.size_bytes)
    assert lines["b"](first.size_bytes - 1) >= lines["a"](first.size_bytes - 1)
    assert second.size_bytes == pytest.approx(4000 / 0.099, abs=1)


def test_curves_of_flows_pass_through_the_times_that_are_told():
    options = CollectiveOptions(operation="all_reduce", on="hgx-h100", size=2**20, algorithm="ring,tree", depth="flows")
    fabric = system_fabric(read_system("hgx-h100"))
    drawn = collective_curves(options, fabric)
    told = times(collective_time(options, fabric))
    for name, curve in drawn["curves"].items():
        (point,) = [point for point in curve if point.size_bytes == 2**20]
        assert point.time_s == pytest.approx(told[name])
    assert len(drawn["crossovers"]) == 1
