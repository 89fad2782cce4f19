"""The chapter's small questions: numbers that it prints, what it asks as experiments, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.base.errors import UserError
from meshwright.scenarios.connection_setup import connection_setup
from meshwright.scenarios.initiators import initiators
from meshwright.scenarios.interconnect_state import interconnect_state
from meshwright.scenarios.latent_cache import latent_cache
from meshwright.scenarios.launch_budget import norm_orders
from meshwright.scenarios.mesh_product import mesh_product
from meshwright.scenarios.remote_read import remote_read
from meshwright.scenarios.slices import rewiring, slices
from meshwright.sweep.study import run_study
from meshwright.system.initiator import INITIATORS, read_initiator
from meshwright.system.read_path import READ_PATHS, read_path

KIB = 2**10
SIZES = {
    "cache_bytes": 256 * KIB,
    "context_bytes": 512,
    "endpoint_bytes": 20,
    "segment_bytes": 32,
    "channel_bytes": 56,
    "lines": 2**20,
    "line_bytes": 64,
    "line_entry_bytes": 8,
    "spilled_reads": 2,
    "spilled_read_s": 5e-7,
}
TIMES = {"calls": 4, "call_s": 5e-6, "round_trip_s": 5e-4, "cores": 32}


def state(hosts, endpoints=8, **change):
    return interconnect_state(hosts=hosts, endpoints=endpoints, **(SIZES | change))


def test_eight_hosts_fit_in_pairs_and_thousands_by_channels():
    """Chapter "Supernodes", section 6.5.5, figure 6-40."""
    assert state(8).pair.fits
    assert not state(9).pair.fits
    assert state(2).channel.most_hosts == 4674
    assert state(4674).channel.fits
    assert not state(4675).channel.fits


def test_one_host_alone_keeps_its_segments_only():
    alone = state(1)
    assert (alone.pair.state_bytes, alone.channel.state_bytes) == (32 * 8, 52 * 8)
    assert alone.directory.state_bytes == 8 * 2**20


def test_more_endpoints_and_a_larger_cache_are_experiment_6_8_d():
    """64 endpoints a host and 1 MiB: no pair of hosts fits, and thousands of channels do."""
    many = state(2, 64, cache_bytes=2**20)
    assert many.pair.most_hosts == 1
    assert many.channel.most_hosts == 1 + (2**20 - 52 * 64) // 56
    assert state(2, 8, cache_bytes=2**20).pair.most_hosts == 32


@given(endpoints=st.integers(1, 200), cache=st.integers(1, 2**22))
def test_the_largest_count_fits_and_one_more_does_not(endpoints, cache):
    for name in ("pair", "channel", "directory"):
        most = getattr(state(1, endpoints, cache_bytes=cache), name).most_hosts
        if most:
            assert getattr(state(most, endpoints, cache_bytes=cache), name).fits
        assert not getattr(state(most + 1, endpoints, cache_bytes=cache), name).fits


def test_no_scheme_but_a_directory_is_coherent_and_none_gives_order_or_rights():
    """Rejected answer 21: a channel is transport; what shares it keeps its own order, rights and caches."""
    found = state(192)
    assert [found.pair.coherent, found.channel.coherent, found.directory.coherent] == [False, False, True]
    assert not any(item.orders or item.grants for item in (found.pair, found.channel, found.directory))


def test_a_channel_follows_hosts_and_not_a_split_of_a_model():
    """Rejected answer 21: TP of a TP Channel is transport protocol. No degree of a layout is an input of its state."""
    inputs = run_study("interconnect-state", {}).inputs["options"]
    assert not {"tp", "layout", "ranks"} & set(inputs)
    assert state(10).channel.state_bytes - state(9).channel.state_bytes == 56
    assert state(9, 16).channel.state_bytes - state(9, 8).channel.state_bytes == 8 * 52


def test_connections_take_minutes_in_pairs_and_milliseconds_by_channels():
    """Chapter "Supernodes", section 6.5.5, figure 6-41."""
    found = connection_setup(endpoints=1024, peers=1024, **TIMES)
    assert found.pair.serial_s == pytest.approx(545.26, rel=1e-4)
    assert found.pair.spread_s == pytest.approx(17.04, rel=1e-3)
    assert found.channel.spread_s == pytest.approx(16.32e-3, rel=1e-3)
    assert found.saved_s == found.pair.spread_s - found.channel.spread_s


def test_a_shorter_round_trip_is_experiment_6_8_e():
    """50 us instead of 500: a pair takes 70 us, and the product still loses."""
    found = connection_setup(endpoints=1024, peers=1024, **(TIMES | {"round_trip_s": 5e-5}))
    assert found.pair.each_s == 70e-6
    assert found.pair.serial_s == pytest.approx(73.4, rel=1e-3)
    assert found.ratio > 1000


@given(endpoints=st.integers(1, 500), peers=st.integers(1, 500))
def test_objects_are_a_product_and_a_sum(endpoints, peers):
    found = connection_setup(endpoints=endpoints, peers=peers, **TIMES)
    assert (found.pair.objects, found.channel.objects) == (endpoints * peers, endpoints + peers)


@pytest.mark.parametrize("name", INITIATORS.names())
def test_crossings_of_an_initiator_are_counted_from_its_steps(name):
    (row,) = initiators((name,), 3e-7, 2e-7, 1)
    steps = read_initiator(name).steps
    assert row.crossings == sum(step.start != step.end for step in steps)
    assert (row.payload_crossings, row.completion_crossings, row.remote_crossings) == (1, 1, 1)
    assert row.requests_per_s == pytest.approx(1 / (2e-7 + row.control_crossings * 3e-7))


def test_the_control_path_crosses_three_two_and_no_times():
    """Chapter "Supernodes", section 6.4.4, figure 6-29."""
    rows = initiators(("cpu-proxy", "gpu-sm", "nic-processor"), 3e-7, 2e-7, 1)
    assert [row.control_crossings for row in rows] == [3, 2, 0]
    assert len({row.cores for row in rows}) == 3


@pytest.mark.parametrize("name", READ_PATHS.names())
def test_a_read_is_the_sum_of_its_stages(name):
    answer = run_study("remote-read", {"path": name}).body["answer"]
    assert sum(answer["spent_s"].values()) == pytest.approx(answer["total_s"])
    assert sum(answer["times"].values()) == len(read_path(name).stages)
    assert answer["crossings"] == sum(stage.crosses for stage in read_path(name).stages)


def test_most_of_a_read_behind_pcie_is_crossings():
    """Chapter "Supernodes", section 6.5.5: 1.65 of 2.22 us; 0.42 us by a controller on the bus."""
    behind = run_study("remote-read", {}).body["answer"]
    beside = run_study("remote-load", {}).body["answer"]
    assert (behind["total_s"], behind["crossing_s"]) == (pytest.approx(2222e-9, rel=1e-3), pytest.approx(1650e-9))
    assert (beside["total_s"], beside["crossings"]) == (pytest.approx(419e-9, rel=1e-3), 0)


def test_a_grid_is_chosen_by_its_longer_direction():
    """Chapter "Supernodes", section 6.2.2 and note 4."""
    found = mesh_product((8192, 4096), (4096, 12288), 2, 16, 50e9, "independent")
    assert [row.grid for row in found.grids][:3] == ["4x4", "2x8", "8x2"]
    assert {row.grid for row in found.grids} == {"1x16", "2x8", "4x4", "8x2", "16x1"}


@settings(max_examples=25)
@given(high=st.integers(1, 3), wide=st.integers(1, 3), seed=st.integers(0, 100))
def test_gathered_lines_are_all_that_a_device_needs(high, wide, seed):
    """Executed on numbers: each device keeps its part, takes those of its row and column, and multiplies."""
    dice = np.random.default_rng(seed)
    left, right = dice.normal(size=(2 * high, 6 * wide * high)), dice.normal(size=(6 * wide * high, 2 * wide))
    sent = np.zeros(2)
    blocks = []
    for row in range(high):
        lefts = np.split(np.split(left, high, axis=0)[row], wide, axis=1)  # one a device of the row
        for column in range(wide):
            rights = np.split(np.split(right, wide, axis=1)[column], high, axis=0)
            sent += (lefts[column].nbytes * (wide - 1), rights[row].nbytes * (high - 1))
            blocks.append(np.concatenate(lefts, axis=1) @ np.concatenate(rights, axis=0))
    product = np.block([blocks[row * wide : (row + 1) * wide] for row in range(high)])
    np.testing.assert_allclose(product, left @ right)
    found = mesh_product(left.shape, right.shape, 8, high * wide, 1e9, "shared")
    own = next(item for item in found.grids if item.grid == f"{high}x{wide}")
    assert [own.row_bytes, own.column_bytes] == (sent / (high * wide)).tolist()


@given(
    left=st.lists(st.floats(-9, 9), min_size=4, max_size=4), right=st.lists(st.floats(-9, 9), min_size=4, max_size=4)
)
def test_a_norm_after_the_sum_is_the_norm_of_the_whole(left, right):
    found = norm_orders(left, right, 1e-6, 2.0)
    whole = np.array(left) + np.array(right)
    np.testing.assert_allclose(found.norm_of_sum, 2.0 * whole / np.sqrt((whole**2).mean() + 1e-6), rtol=1e-9)


def test_a_norm_before_the_sum_is_another_number():
    """Rejected answer 13, on numbers; equal parts of one sign alone would hide it."""
    found = norm_orders((1.0, 0.0), (0.0, 1.0), 0.0, 1.0)
    assert found.norm_of_sum == (1.0, 1.0)
    assert found.sum_of_norms == (pytest.approx(2**0.5), pytest.approx(2**0.5))
    assert not found.equal


def test_two_rows_take_two_jobs_and_a_checkerboard_none():
    """Chapter "Supernodes", section 6.5.4: eight free devices both times."""
    rows = slices((4, 4), (2, 2), tuple(range(8)), "open")
    board = slices((4, 4), (2, 2), (0, 2, 5, 7, 8, 10, 13, 15), "open")
    assert (rows.jobs, board.jobs) == (2, 0)
    assert rows.jobs_by_switches == board.jobs_by_switches == 2


def test_wrapped_edges_and_turned_jobs_count():
    assert slices((4, 4), (2, 2), (0, 3, 12, 15), "wrapped").jobs == 1
    assert slices((4, 4), (2, 2), (0, 3, 12, 15), "open").jobs == 0
    assert slices((2, 4), (4, 1), tuple(range(8)), "open").jobs == 2
    assert slices((4, 4, 4), (2, 2, 2), tuple(range(32)), "open").jobs == 4


@settings(max_examples=40)
@given(free=st.sets(st.integers(0, 15), max_size=12), job=st.sampled_from([(2, 2), (1, 2), (1, 3)]))
def test_no_set_of_placements_holds_more_jobs(free, job):
    """Against every set of boxes of three neighbours or fewer that share nothing."""
    found = slices((4, 4), job, tuple(sorted(free)), "open")
    taken = [device for box in found.chosen for device in box]
    assert len(taken) == len(set(taken)) <= len(free)
    boxes = every_box(free, job)
    assert found.placements == len(boxes)
    more = found.jobs + 1
    assert not any(len(set().union(*chosen)) == sum(map(len, chosen)) for chosen in combinations(boxes, more))


def every_box(free, job):
    shapes = {job, job[::-1]}
    boxes = {
        frozenset(4 * (y + dy) + x + dx for dy in range(high) for dx in range(wide))
        for high, wide in shapes
        for y in range(5 - high)
        for x in range(5 - wide)
    }
    return [box for box in boxes if box <= free]


@pytest.mark.parametrize(("rewiring_s", "repetitions"), [(1e-3, 6), (100e-3, 511)])
def test_rewiring_is_repaid_by_so_many_repetitions(rewiring_s, repetitions):
    """Chapter "Supernodes", section 6.5.4: 293.6 and 97.9 us."""
    found = rewiring(8, 8 * 2**20, 1, 3, 50e9, rewiring_s)
    assert found.sent_bytes == 14 * 2**20
    assert (found.before_s, found.after_s) == (pytest.approx(293.6e-6, rel=1e-4), pytest.approx(97.87e-6, rel=1e-4))
    assert found.repetitions == repetitions
    assert (found.repetitions - 1) * found.saving_s < rewiring_s <= found.repetitions * found.saving_s


def test_latent_vectors_keep_about_half():
    """Chapter "Supernodes", section 6.6.3."""
    found = latent_cache(8192, 61, 576, 36, 8, 128, 2)
    assert found.share == pytest.approx(0.477, rel=2e-3)
    assert found.grouped_bytes == 2 * 8192 * 36 * 8 * 128 * 2


def test_a_launch_budget_is_start_up_and_launches():
    """Chapter "Supernodes", section 6.4.4: 1.47 ms of start-up; 10, 40 and 160 KiB."""
    answer = run_study("launch-budget", {}).body["answer"]
    assert answer["start_up_s"] == pytest.approx(1.473e-3, rel=1e-3)
    assert [item["message_bytes"] for item in answer["messages"]] == [10 * KIB, 40 * KIB, 160 * KIB]
    assert answer["fused_saving_s"] == pytest.approx(answer["launch_s"] * 2 / 3)


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda: state(0), "JOB001"),
        (lambda: state(8, 0), "JOB001"),
        (lambda: connection_setup(endpoints=1, peers=1, **(TIMES | {"call_s": 0.0})), "JOB115"),
        (lambda: run_study("launch-budget", {"launch_s": "9 s"}), "JOB116"),
        (lambda: norm_orders((1.0,), (), 0.0, 1.0), "JOB117"),
        (lambda: mesh_product((2, 3), (4, 5), 2, 4, 1e9, "shared"), "JOB118"),
        (lambda: mesh_product((2, 3), (3, 5), 2, 0, 1e9, "shared"), "JOB118"),
        (lambda: remote_read("on-chip", {"link": 1e-7}, 322.0), "SYS032"),
        (lambda: remote_read("on-chip", {}, 0.0), "SYS032"),
        (lambda: remote_read("by-mail", {}, 322.0), "SYS002"),
        (lambda: initiators(("cpu-proxy",), -1.0, 1e-7, 1), "SYS033"),
        (lambda: initiators(("nobody",), 0.0, 1e-7, 1), "SYS002"),
        (lambda: slices((4,), (2, 2), (), "open"), "SYS034"),
        (lambda: slices((4, 4), (2, 2), (16,), "open"), "SYS034"),
        (lambda: slices((8, 8), (2, 2), tuple(range(37)), "open"), "SYS034"),
        (lambda: rewiring(8, 1, 3, 3, 1e9, 1.0), "SYS035"),
        (lambda: rewiring(1, 1, 1, 3, 1e9, 1.0), "SYS035"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_code(ask, code):
    with pytest.raises(UserError) as caught:
        ask()
    assert caught.value.code == code
    assert caught.value.fix


def test_a_step_that_goes_nowhere_does_not_cross():
    step = read_initiator("nic-processor").steps[0]
    assert not step.crosses
    assert replace(step, end="gpu").crosses
