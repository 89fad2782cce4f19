"""Measured tables: the next archived size up answers, and nothing is interpolated."""

from __future__ import annotations

import pytest

from meshwright.base.errors import SystemSpecError
from meshwright.system import calibrations
from meshwright.system.calibrations import measured_time


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
    found = measured_time("all_reduce", "h100-sxm", 2, 16, message)
    assert (found.size, found.time) == (size, time)
    assert found.platform == "2x HGX H100, ConnectX-7"
    assert found.source.key == "book-7-3"


@pytest.mark.parametrize(
    ("op", "accelerator", "nodes", "ranks", "message"),
    [
        ("all_reduce", "h100-sxm", 2, 16, 67108865),
        ("all_reduce", "h100-sxm", 1, 16, 1024),
        ("all_reduce", "h100-sxm", 2, 8, 1024),
        ("all_reduce", "h200-sxm", 2, 16, 1024),
        ("all_gather", "h100-sxm", 2, 16, 1024),
    ],
)
def test_another_platform_or_a_larger_message_has_no_answer(op, accelerator, nodes, ranks, message):
    assert measured_time(op, accelerator, nodes, ranks, message) is None


FILE = """\
name = "x"
op = "all_reduce"
[[table]]
accelerator = "h100-sxm"
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
