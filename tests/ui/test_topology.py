"""The command `topology`: what cannot act is refused, and a spec that is misspelled is told as a spec."""

from __future__ import annotations

import pytest

from tests.ui.program import meshwright


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (("torus:4x4", "--algorithm", "ring"), "IO036"),
        (("torus:4x4", "--bytes", "1MB"), "IO036"),
        (("torus:4x4", "--destinations", "others"), "IO036"),
        (("torus:4x4", "--load", "all_to_all", "--algorithm", "direct", "--destinations", "all"), "IO036"),
        (("hgx-h100", "--port", "5GB/s"), "IO036"),
        (("torus:4x4", "--load", "everything"), "COL017"),
        (("toruss:4x4",), "SYS020"),
        (("torus:4x4,port=400Gb/s",), "IO002"),
    ],
)
def test_what_cannot_act_is_refused(line, code):
    found = meshwright("topology", *line)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"error[{code}]: ")
    assert "\nfix: " in found.err


def test_an_operation_may_be_written_with_a_dash():
    assert "all_to_all of 1.00 MB" in meshwright("topology", "torus:4x4", "--load", "all-to-all").out
