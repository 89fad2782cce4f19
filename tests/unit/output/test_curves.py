"""Curves on logarithmic axes: XML with what was given, in its place."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from meshwright.output.curves_svg import Mark, as_curves

SPACE = "{http://www.w3.org/2000/svg}"
CURVES = {"ring": [(256, 1e-5), (2**16, 2e-5), (2**24, 1e-3)], "a < b": [(256, 1e-6), (2**16, 5e-5), (2**24, 1e-2)]}
MARKS = [Mark(at=2**16, told="asked"), Mark(at=2**12, told="here", curve="ring"), Mark(at=2**40, told="far")]


def drawn(across="bytes"):
    return ET.fromstring(as_curves("x & y", across, CURVES, MARKS))  # noqa: S314 - our own text


def points(root, name):
    (curve,) = [item for item in root.iter(f"{SPACE}g") if item.get("class") == name]
    return [tuple(map(float, pair.split(","))) for pair in curve.find(f"{SPACE}polyline").get("points").split()]


def test_every_curve_has_its_points_and_its_name():
    root = drawn()
    for name, curve in CURVES.items():
        assert len(points(root, name)) == len(curve)
    assert root.find(f"{SPACE}title").text == "x & y"


def test_equal_factors_are_equal_lengths_and_longer_times_stand_higher():
    ring, other = points(drawn(), "ring"), points(drawn(), "a < b")
    assert ring[1][0] - ring[0][0] == pytest.approx(ring[2][0] - ring[1][0], abs=0.02)
    assert other[0][1] > ring[0][1] > ring[1][1] > other[1][1]
    assert other[1][1] - other[2][1] == pytest.approx(
        2.30103 / 2.69897 * (ring[1][1] - ring[2][1]) * 2.69897 / 1.69897, abs=0.05
    )


def test_a_mark_stands_on_its_curve_and_one_off_the_axis_is_left_out():
    root = drawn()
    marks = {
        item.find(f"{SPACE}title").text: item
        for item in root.iter(f"{SPACE}g")
        if item.get("class") in {"mark", "line"}
    }
    assert set(marks) == {"asked", "here"}
    ring = points(root, "ring")
    height = float(marks["here"].find(f"{SPACE}circle").get("cy"))
    assert height == pytest.approx((ring[0][1] + ring[1][1]) / 2, abs=0.02)


def test_ranks_are_told_without_a_unit():
    assert "4 KiB" in as_curves("x", "bytes", CURVES)
    assert "KiB" not in as_curves("x", "ranks", CURVES)
