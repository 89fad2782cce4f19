"""Text of nccl-tests: every program and version is read, and what is none of it is refused with its line."""

from __future__ import annotations

import pytest

from meshwright.base.errors import CollectiveError
from meshwright.cost.collectives import busbw_factor
from meshwright.scenarios._collective_operation import operations_of
from meshwright.system.nccl_tests import PROGRAMS, read_measurement
from tests.measured.nccl_text import row, text

_RATES = [(1 << power, 100.0) for power in (20, 24, 28)]
_MACHINE = {"hosts": 2, "ranks_per_host": 8, "device": "NVIDIA H100 80GB HBM3"}
_OLD = """# nThread 1 nGpus 4 minBytes 8388608 maxBytes 16777216 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
#   Rank  0 Pid   9043 on   dgx device  0 [0x07] A100-SXM4-40GB
#   Rank  1 Pid   9043 on   dgx device  1 [0x0f] A100-SXM4-40GB
#
#                                             out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     8388608       2097152   float     sum    110.0   76.26   76.26  2e-07    109.0   76.96   76.96  2e-07
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 76.61
"""


def code_and_cause(told):
    with pytest.raises(CollectiveError) as problem:
        read_measurement(told, "run.txt")
    return problem.value.code, problem.value.cause


@pytest.mark.parametrize("operation", PROGRAMS.values())
def test_every_program_is_read_by_its_name_and_its_columns_agree(operation):
    found = read_measurement(text(_RATES, operation=operation, **_MACHINE), "run.txt")
    assert found.operation == operation
    assert operation in operations_of(found, 16)
    assert [line.size for line in found.lines] == [size for size, _ in _RATES]
    timed = found.lines[-1].out_of_place
    assert timed.busbw == pytest.approx(100e9)
    assert timed.algbw * busbw_factor(operation, 16) == pytest.approx(timed.busbw, rel=1e-3)


def test_hosts_ranks_and_devices_are_told():
    found = read_measurement(text(_RATES, operation="all_reduce", **_MACHINE), "run.txt")
    assert (len(found.hosts), set(found.hosts)) == (16, {"node0", "node1"})
    assert found.devices == ("NVIDIA H100 80GB HBM3",)
    assert found.complete


def test_a_file_without_its_first_line_is_told_by_its_columns():
    sums = read_measurement(text(_RATES, operation="all_reduce", named=False, **_MACHINE), "run.txt")
    assert sums.operation is None
    assert operations_of(sums, 16) == ("all_reduce",)
    blocks = read_measurement(text(_RATES, operation="all_gather", named=False, **_MACHINE), "run.txt")
    assert operations_of(blocks, 16) == ("all_gather", "all_to_all")


def test_an_old_version_has_no_root_and_an_error_in_place_of_wrong_elements():
    found = read_measurement(_OLD, "run.txt")
    assert found.lines[0].root is None
    assert found.lines[0].in_place.time == pytest.approx(109e-6)
    assert operations_of(found, 2) == ("all_reduce", "reduce")  # two ranks, and no root: only a name tells them apart
    assert len(found.hosts) == 2


@pytest.mark.parametrize("tag", ["[1,0]<stdout>:", "0: ", " 3: "])
def test_tags_of_launchers_are_taken_off(tag):
    told = "".join(f"{tag}{line}\n" for line in text(_RATES, operation="all_reduce", **_MACHINE).splitlines())
    plain = read_measurement(text(_RATES, operation="all_reduce", **_MACHINE), "run.txt")
    assert read_measurement(told, "run.txt") == plain


def test_the_version_of_nccl_is_read_where_it_stands():
    told = "# nccl-tests version 2.13.10 nccl-headers=22304 nccl-library=22304\n"
    assert read_measurement(told + text(_RATES, operation="all_reduce", **_MACHINE), "run.txt").version == "2.23.4"
    debug = "node0:4000:4000 [0] NCCL INFO NCCL version 2.19.3+cuda12.2\n"
    assert read_measurement(debug + text(_RATES, operation="all_reduce", **_MACHINE), "run.txt").version == "2.19.3"


def test_lines_of_the_library_between_rows_are_no_rows():
    lines = text(_RATES, operation="all_reduce", **_MACHINE).splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("16777216"))
    lines.insert(at, "node0:4000:4200 [0] NCCL INFO comm 0x55 rank 0 nranks 16 - Abort COMPLETE")
    assert len(read_measurement("\n".join(lines), "run.txt").lines) == 3


def test_a_row_that_is_cut_is_refused_with_its_line():
    lines = text(_RATES, operation="all_reduce", **_MACHINE).splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("16777216"))
    cut = [*lines[:at], lines[at][:60]]
    code, cause = code_and_cause("\n".join(cut))
    assert code == "COL021"
    assert f"line {at + 1}: " in cause


def test_a_table_without_rows_is_refused():
    lines = text(_RATES, operation="all_reduce", **_MACHINE).splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("1048576"))
    assert code_and_cause("\n".join(lines[:at]))[0] == "COL021"


@pytest.mark.parametrize("bad", ["nan", "-1.00", "word", "1e-300", "1e300"])
def test_a_time_that_is_no_time_is_refused(bad):
    broken = row(1 << 20, 100.0, "all_reduce", 16).split()
    broken[5] = bad
    told = text(_RATES, operation="all_reduce", **_MACHINE)
    lines = told.splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("1048576"))
    lines[at] = " ".join(broken)
    code, cause = code_and_cause("\n".join(lines))
    assert (code, f"line {at + 1}: " in cause) == ("COL021", True)


def test_another_file_is_refused():
    assert code_and_cause("size,count,time\n1,2,3\n") == (
        "COL020",
        "run.txt: line 1: this is no output of nccl-tests: no header with size, time and busbw",
    )
    assert code_and_cause("")[0] == "COL020"


def test_two_tables_are_refused_with_the_line_of_the_second():
    told = text(_RATES, operation="all_reduce", **_MACHINE)
    code, cause = code_and_cause(told + told)
    assert code == "COL020"
    assert "a second table begins" in cause


def test_a_program_without_an_operation_here_is_refused():
    told = text(_RATES, operation="all_reduce", **_MACHINE).replace("all_reduce_perf", "hypercube_perf")
    assert code_and_cause(told)[0] == "COL022"
