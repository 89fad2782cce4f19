"""Measured tables: the next archived size up answers, and nothing is interpolated."""

from __future__ import annotations

import pytest

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import set_path
from meshwright.system import calibrations
from meshwright.system.calibrations import measured_time
from meshwright.system.system import read_system


@pytest.mark.parametrize(
    ("message", "size", "time"),
    [
        (1, 16384, 32.74e-6),
        (10240, 16384, 32.74e-6),
        (16384, 16384, 32.74e-6),
        (16385, 67108864, 466.1e-6),
        (67108864, 67108864, 466.1e-6),
    ],
)
def test_the_smallest_archived_size_that_holds_the_message_answers(message, size, time):
    found = measured_time("all_reduce", read_system("hgx-h100 x2"), 2, 16, message)
    assert (found.size, found.time) == (size, time)
    assert found.platform == "2x HGX H100, ConnectX-7"
    assert found.source.key == "book-7-3"


@pytest.mark.parametrize(
    ("op", "system", "nodes", "ranks", "message"),
    [
        ("all_reduce", "hgx-h100 x2", 2, 16, 67108865),
        ("all_reduce", "hgx-h100 x2", 1, 16, 1024),
        ("all_reduce", "hgx-h100 x2", 2, 8, 1024),
        ("all_reduce", "hgx-h200 x2", 2, 16, 1024),
        ("all_gather", "hgx-h100 x2", 2, 16, 1024),
    ],
)
def test_another_platform_or_a_larger_message_has_no_answer(op, system, nodes, ranks, message):
    assert measured_time(op, read_system(system), nodes, ranks, message) is None


@pytest.mark.parametrize(
    "change",
    [("scale_out.latency", "5us"), ("scale_out.bandwidth", "25GB/s"), ("nics_per_node", "1")],
)
def test_a_system_with_another_link_or_fewer_nics_is_another_platform(change):
    system = set_path(read_system("hgx-h100 x2"), *change)
    assert measured_time("all_reduce", system, 2, 16, 10240) is None
    assert measured_time("all_reduce", system, 1, 8, 10240).time == 17.93e-6


FILE = """\
name = "x"
op = "all_reduce"
[[table]]
accelerator = "h100-sxm"
link = "nvlink4"
nodes = 1
ranks = 2
platform = "p"
source = "there"
rows = [{ size = "1 KiB", time = "1 us" }]
"""


def test_a_table_without_its_source_is_refused(monkeypatch):
    monkeypatch.setattr(type(calibrations.CALIBRATIONS), "text", lambda _self, _name: FILE)
    with pytest.raises(SystemSpecError, match="SYS003"):
        calibrations._read("x")
