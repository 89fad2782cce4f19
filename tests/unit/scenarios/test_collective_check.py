"""A measured run beside what is expected: which sizes are judged by what, what is low, and the causes that are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.base.errors import CollectiveError, SystemSpecError
from meshwright.base.parse import build
from meshwright.scenarios.collective_check import CheckOptions, collective_check
from meshwright.system.nccl_tests import read_measurement
from meshwright.system.system import read_system
from tests.measured.nccl_text import text

_H100 = "NVIDIA H100 80GB HBM3"
_GIB8 = 8 << 30


def checked(rates, system, *, operation="all_reduce", hosts=1, ranks_per_host=8, device=_H100, **options):
    told = text(rates, operation=operation, hosts=hosts, ranks_per_host=ranks_per_host, device=device)
    on = read_system(system) if isinstance(system, str) else system
    return collective_check(read_measurement(told, "run.txt"), on, build(CheckOptions, options, "check"))


def curve(peak, start_us, sizes=range(13, 34), factor=1.75):
    """busbw in GB/s of a start and a bandwidth."""
    return [(1 << k, factor * (1 << k) / (start_us * 1e3 + factor * (1 << k) / peak)) for k in sizes]


def code_of(*arguments, **options):
    with pytest.raises(CollectiveError) as problem:
        checked(*arguments, **options)
    return problem.value.code


def test_an_archived_size_is_held_against_its_archived_time():
    found = checked([(_GIB8, 480.16)], "hgx-h100")
    row = found.body["rows"][0]
    assert (row.basis, found.verdict.answer) == ("measured", "yes")
    assert row.expected_bytes_per_s == pytest.approx(480.16e9, rel=1e-3)


def test_sizes_without_an_archived_time_are_held_against_a_fit():
    found = checked([(3 << 20, 100.0)], "hgx-h100")
    row = found.body["rows"][0]
    assert (row.basis, row.by) == ("calibrated", "h100-sxm-nvlink4-all_reduce-in_switch")
    assert row.low_bytes_per_s < row.expected_bytes_per_s < row.high_bytes_per_s


def test_a_box_that_nobody_measured_is_held_against_the_wire():
    found = checked([(_GIB8, 26.0)], "rtx4090-host", device="NVIDIA GeForce RTX 4090")
    row = found.body["rows"][0]
    assert (row.basis, row.by) == ("datasheet", "the wire")
    assert row.bound_bytes_per_s == 32e9


def test_small_sizes_on_the_wire_alone_are_not_judged():
    found = checked([(1 << 16, 0.1)], "rtx4090-host", device="NVIDIA GeForce RTX 4090")
    assert found.body["rows"][0].state == "not_judged"
    assert (found.verdict.answer, found.verdict.exit_code) == ("unknown", 1)


def test_a_ring_where_the_switch_could_add_is_told():
    found = checked([(_GIB8, 366.0)], "hgx-h100")
    assert (found.verdict.answer, found.verdict.exit_code) == ("no", 1)
    assert found.body["causes"][0].id == "no_in_switch"


def test_the_same_rate_is_normal_of_a_ring():
    assert checked([(_GIB8, 366.0)], "hgx-h100", algorithm="ring").verdict.answer == "yes"


def test_a_rate_that_pcie_could_carry_is_told():
    found = checked([(_GIB8, 40.0)], "hgx-h100")
    assert found.body["causes"][0].id == "pcie_path"


@pytest.mark.parametrize(("count", "rate"), [(1, 46.5), (2, 93.5), (4, 187.0)])
def test_fewer_nics_than_the_box_has_are_counted(count, rate):
    found = checked([(_GIB8, rate)], "hgx-h100 x2", hosts=2)
    assert found.body["causes"][0].id == "few_nics"
    assert f"what {count} of 8 NICs" in found.body["causes"][0].evidence


def test_fewer_nics_that_are_named_are_normal():
    assert checked([(_GIB8, 46.5)], "hgx-h100 x2", hosts=2, nics=1).verdict.answer == "yes"


def test_half_of_the_wire_is_traffic_through_the_root():
    found = checked([(_GIB8, 225.0)], "hgx-h100 x2", hosts=2)
    assert "acs" in {cause.id for cause in found.body["causes"][:2]}


def test_a_step_of_known_time_is_matched_or_only_told():
    options = {"hosts": 2, "nics": 1, "chunk": "128 KiB", "step_latency": "11us"}
    assert checked([(_GIB8, 13.1)], "hgx-h100 x2", **options).body["causes"][0].id == "step_latency"
    other = checked([(_GIB8, 30.0)], "hgx-h100 x2", **options).body["causes"]
    assert other[0].id != "step_latency"
    assert next(cause for cause in other if cause.id == "step_latency").share is None


def test_late_starts_are_told_where_large_sizes_are_normal():
    found = checked(curve(480, 45), "hgx-h100")
    assert [part.name for part in found.body["ranges"] if part.is_low][:1] == ["start-up"]
    slow = checked([(1 << 13, 0.2), (1 << 16, 1.5), (_GIB8, 480.0)], "hgx-h100")
    assert [cause.id for cause in slow.body["causes"]] == ["slow_start"]
    assert slow.verdict.answer == "no"


def test_wrong_elements_outweigh_every_rate():
    told = text([(_GIB8, 480.0)], operation="all_reduce", hosts=1, ranks_per_host=8, device=_H100)
    lines = told.splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip().startswith(str(_GIB8)))
    words = lines[at].split()
    words[8] = "17"
    lines[at] = " ".join(words)
    found = collective_check(read_measurement("\n".join(lines), "run.txt"), read_system("hgx-h100"), CheckOptions())
    assert (found.verdict.answer, "17 elements" in found.verdict.text) == ("no", True)


def test_another_accelerator_in_the_file_is_warned_of():
    found = checked([(_GIB8, 230.0)], "hgx-h100", device="NVIDIA A100-SXM4-80GB")
    assert "A100" in found.warnings[0]


@pytest.mark.parametrize(
    "operation", ["all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_recv"]
)
@pytest.mark.parametrize("hosts", [1, 2])
def test_every_operation_has_a_bound_that_its_wire_gives(operation, hosts):
    found = checked([(_GIB8, 200.0)], f"hgx-h100 x{hosts}", operation=operation, hosts=hosts)
    wire = {1: 450e9, 2: 400e9}[hosts]
    bound = found.body["bounds"][0]["busbw_bytes_per_s"]
    if operation == "all_to_all" and hosts == 2:
        assert bound == pytest.approx(15 / 16 * 50e9 / 0.5)
    elif operation == "send_recv" and hosts == 2:
        assert bound == pytest.approx(400e9)
    else:
        assert bound == pytest.approx(wire)


def test_more_nics_never_lower_what_is_expected():
    rates = [
        checked([(_GIB8, 100.0)], "hgx-a100 x2", hosts=2, nics=nics, device="any").body["rows"][0].expected_bytes_per_s
        for nics in range(1, 9)
    ]
    assert rates == sorted(rates)


def test_what_the_file_does_not_tell_is_asked():
    told = text([(_GIB8, 100.0)], operation="all_gather", hosts=1, ranks_per_host=8, device=_H100, named=False)
    bare = "\n".join(line for line in told.splitlines() if "Rank" not in line)
    system = read_system("hgx-h100")

    def code(options, told=told):
        with pytest.raises(CollectiveError) as problem:
            collective_check(read_measurement(told, "run.txt"), system, options)
        return problem.value.code

    assert code(CheckOptions()) == "COL024"
    assert code(CheckOptions(operation="all_gather"), bare) == "COL023"
    whole = CheckOptions(operation="all_gather", ranks=8, boxes=1)
    assert collective_check(read_measurement(bare, "run.txt"), system, whole).body["operation"] == "all_gather"
    assert code(replace(whole, operation="all_reduce")) == "COL024"


def test_a_table_without_its_end_is_refused_unless_taken_as_it_is():
    told = text([(_GIB8, 480.0)], operation="all_reduce", hosts=1, ranks_per_host=8, device=_H100)
    cut = told[: told.index("# Out of bounds")]
    system, found = read_system("hgx-h100"), read_measurement(cut, "run.txt")
    with pytest.raises(CollectiveError) as problem:
        collective_check(found, system, CheckOptions())
    assert problem.value.code == "COL027"
    assert collective_check(found, system, CheckOptions(partial=True)).warnings


def test_ranks_that_the_system_does_not_have_are_refused():
    assert code_of([(_GIB8, 376.0)], "hgx-h100", hosts=2) == "COL025"


@pytest.mark.parametrize(
    "options",
    [
        {"wire": "80%", "least": "90%"},
        {"least": "0%"},
        {"within": "100%"},
        {"nics": -1},
        {"nics": 0},
        {"nics": 9},
        {"ranks": 0},
        {"boxes": 0},
        {"chunk": "128KiB"},
        {"chunk": "128KiB", "step_latency": "0s"},
        {"stated": "0B/s"},
    ],
)
def test_options_out_of_range_are_refused(options):
    assert code_of([(_GIB8, 376.0)], "hgx-h100 x2", hosts=2, **options) == "COL026"


def test_an_unknown_algorithm_and_one_without_the_operation_are_refused():
    assert code_of([(_GIB8, 376.0)], "hgx-h100", algorithm="rings") == "COL001"
    assert code_of([(_GIB8, 376.0)], "hgx-h100", algorithm="bruck") == "COL010"


# ---------------------------------------------------------- rejected answers of chapter "Supernodes", numbers 9, 11, 23


def test_a_figure_of_both_directions_is_no_rate_to_expect():
    found = checked([(_GIB8, 366.0)], "hgx-h100", algorithm="ring", stated="900 GB/s")
    assert found.verdict.answer == "yes"
    assert [cause.id for cause in found.body["causes"]] == ["both_directions"]
    with pytest.raises(SystemSpecError) as problem:
        read_both_ways()
    assert problem.value.code == "SYS004"


def read_both_ways():
    from meshwright.system.facts import split

    split({"bandwidth": {"value": "900 GB/s", "direction": "both"}}, "link")


def test_busbw_is_not_the_rate_of_a_nic():
    narrow = replace(read_system("hgx-h100 x2"), nics_per_node=1)
    found = checked([(_GIB8, 93.0)], narrow, hosts=2, device="any")
    nic = narrow.scale_out.bandwidth
    assert found.body["rows"][0].busbw_bytes_per_s > nic
    assert found.body["above"].id == "crosses_once"
    assert "not the rate of a link" in found.notes[0]


def test_blocks_of_one_size_are_no_measurement_of_experts():
    found = checked([(_GIB8, 300.0)], "hgx-h100", operation="all_to_all")
    assert any("experts" in note for note in found.notes)
    with pytest.raises(CollectiveError) as problem:
        checked([(_GIB8, 300.0)], "hgx-h100", operation="all_to_all", family="moe")
    assert problem.value.code == "COL024"
    assert "experts" in problem.value.cause


def test_a_rate_that_no_program_reaches_is_another_wire():
    found = checked([(_GIB8, 900.0)], "hgx-h100")
    assert found.body["above"].id == "other_wire"
    assert found.verdict.answer == "no"
