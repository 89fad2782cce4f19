"""`meshwright collective check` as a user meets it: a healthy run, a slow one, and files that are none."""

from __future__ import annotations

import csv
import io

import pytest

from tests.ui.lines import LINES
from tests.ui.program import CODED, answer_of, meshwright

_GOOD, _SLOW = LINES["collective check"], LINES["collective check, no"]


def test_a_healthy_run_is_a_yes_and_its_rate_above_the_wire_is_explained():
    found = meshwright(*_GOOD)
    assert found.code == 0
    assert found.out.startswith("yes: normal for this box: busbw 479.90 GB/s at 17.18 GB")
    assert "above the wire: the reduction is in the switch" in found.out
    assert "it is not the rate of a link or NIC" in found.out


def test_a_slow_run_is_a_no_and_names_the_nic_first():
    found = meshwright(*_SLOW)
    assert found.code == 1
    assert "likely: one NIC is in use of 8" in found.out.splitlines()[0]
    assert answer_of(*_SLOW, code=1)["causes"][0]["id"] == "few_nics"


def test_a_named_number_of_nics_makes_it_normal():
    assert meshwright(*_SLOW, "--nics", "1").code == 0


def test_csv_has_a_row_a_size():
    found = list(csv.DictReader(io.StringIO(meshwright(*_SLOW, "--format", "csv").out)))
    assert len(found) == 14
    assert found[-1]["state"] == "low"
    assert float(found[-1]["busbw_bytes_per_s"]) == pytest.approx(46.5e9, rel=0.01)


def test_markdown_has_the_sizes_and_the_causes():
    text = meshwright(*_SLOW, "--format", "md").out
    assert "## Sizes" in text
    assert "few_nics" in text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "COL020"),
        ("a,b\n1,2\n", "COL020"),
        ("#       size         count      type   redop    root     time   algbw   busbw #wrong\n", "COL021"),
        ("# size count type redop root time algbw busbw #wrong\n 8 2 float sum -1 13.6 0.0\n", "COL021"),
    ],
)
def test_another_file_is_refused_with_its_code_and_line(tmp_path, text, code):
    file = tmp_path / "run.txt"
    file.write_text(text, encoding="utf-8")
    found = meshwright("collective", "check", str(file), "--on", "hgx-h100")
    assert found.code == 2
    assert CODED.search(found.err)
    assert f"error[{code}]" in found.err
    assert "line " in found.err


def test_a_file_that_is_not_there_is_refused(tmp_path):
    found = meshwright("collective", "check", str(tmp_path / "gone.txt"), "--on", "hgx-h100")
    assert (found.code, "error[IO010]" in found.err) == (2, True)


def test_a_run_on_two_boxes_asks_for_two(tmp_path):
    found = meshwright(*_SLOW[:3], "--on", "hgx-h100")
    assert found.code == 2
    assert "fix: --on 'hgx-h100 x2'" in found.err
