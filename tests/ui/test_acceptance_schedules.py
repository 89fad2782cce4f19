"""The example of chapter "Training systems", section 10.3.2, through the command: steps, peaks, idle times."""

from __future__ import annotations

from functools import cache

import pytest

from tests.ui.program import answer_of

_TIMES = ("--stages", "4", "--forward", "10ms", "--backward", "20ms", "--update", "1ms")
_SENT = ("--send", "1ms")
_CUT = ("--layers", "36", "--virtual-stages", "2")
_HELD = (
    "--saved", "229.7549MiB", "--saved-head", "76.1880MiB", "--forward-message", "1MiB", "--backward-message", "2MiB",
)  # fmt: skip
"""Of 128 tokens of Qwen3-8B, as the chapter prints them."""


@cache
def found(micro_batches, *more):
    """The rows of the answer by their schedule."""
    answer = answer_of("schedule", *_TIMES, "--micro-batches", str(micro_batches), *more)
    return {row["schedule"]: row for row in answer["schedules"]}


def milliseconds(seconds):
    return round(1000 * seconds, 3)


@pytest.mark.parametrize(
    ("name", "eight", "sixteen"),
    [
        ("fill_drain", 337, 577),
        ("one_f_one_b", 347, 599),
        ("interleaved", 297.667, 537.667),
        ("zero_bubble_h1", 283, 523),
        ("dualpipe_declared", 306, 558),
        ("dualpipe_published", 258, 498),
    ],
)
def test_the_step_of_each_schedule(name, eight, sixteen):
    assert milliseconds(found(8, *_SENT, *_CUT)[name]["total_s"]) == eight
    assert milliseconds(found(16, *_SENT, *_CUT)[name]["total_s"]) == sixteen


@pytest.mark.parametrize(("micro_batches", "total_ms"), [(8, 300), (16, 540)])
def test_interleaved_over_even_chunks(micro_batches, total_ms):
    assert milliseconds(found(micro_batches, *_SENT)["interleaved"]["total_s"]) == total_ms


@pytest.mark.parametrize(("micro_batches", "total_ms"), [(8, 274), (16, 526)])
def test_published_dualpipe_of_indivisible_cells(micro_batches, total_ms):
    row = found(micro_batches, *_SENT, *_CUT, "--cells", "indivisible")["dualpipe_published"]
    assert milliseconds(row["total_s"]) == total_ms


@pytest.mark.parametrize(("micro_batches", "total_ms"), [(8, 255), (16, 505)])
def test_declared_dualpipe_is_another_under_another_tie_rule_and_no_other_schedule_is(micro_batches, total_ms):
    tied, usual = found(micro_batches, *_SENT, *_CUT, "--ties", "micro-batch"), found(micro_batches, *_SENT, *_CUT)
    assert milliseconds(tied["dualpipe_declared"]["total_s"]) == total_ms
    others = set(usual) - {"dualpipe_declared"}
    assert len(others) == 8
    assert all(tied[name]["total_s"] == usual[name]["total_s"] for name in others)


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("fill_drain", [1840.04, 1840.04, 1840.04, 2447.54]),
        ("one_f_one_b", [921.02, 692.26, 462.51, 307.94]),
        ("interleaved", [1329.47, 1126.25, 896.49, 691.87]),
        ("zero_bubble_h1", [921.02, 921.02, 921.02, 1225.77]),
        ("dualpipe_declared", [1227.96, 1612.28, 1612.28, 1227.96]),
    ],
)
def test_the_peak_of_each_rank(name, mib):
    assert [round(peak / 2**20, 2) for peak in found(8, *_SENT, *_CUT, *_HELD)[name]["peak_bytes"]] == mib


@pytest.mark.parametrize(
    ("name", "with_messages_ms", "without_ms"),
    [
        ("fill_drain", 96, 90),
        ("one_f_one_b", 106, 90),
        ("interleaved", 56.667, 50),
        ("zero_bubble_h1", 42, 30),
        ("dualpipe_declared", 65, 60),
    ],
)
def test_every_rank_idles_equally_and_so_long(name, with_messages_ms, without_ms):
    assert [milliseconds(idle) for idle in found(8, *_SENT, *_CUT)[name]["idle_s"]] == [with_messages_ms] * 4
    assert [milliseconds(idle) for idle in found(8, *_CUT)[name]["idle_s"]] == [without_ms] * 4


def test_formulas_hold_where_they_are_said_to():
    """Bubbles of 90 for 1F1B, 45 for interleaved, 30 for H1, 20 for DualPipe: the last of published cells only."""
    even = found(8)
    for name, idle_ms in (("fill_drain", 90), ("one_f_one_b", 90), ("interleaved", 45), ("zero_bubble_h1", 30)):
        assert milliseconds(even[name]["bubble_s"]) == idle_ms
        assert [milliseconds(idle) for idle in even[name]["idle_s"]] == [idle_ms] * 4
    cells = found(8, "--cells", "indivisible")
    assert milliseconds(cells["dualpipe_published"]["bubble_s"]) == 20
    assert [milliseconds(idle) for idle in cells["dualpipe_published"]["idle_s"]] == [20] * 4
    assert cells["dualpipe_declared"]["bubble_s"] is None


def test_within_1_gb_only_1f1b_fits_and_without_a_limit_fill_and_drain_is_faster_than_it():
    limited = found(8, *_SENT, *_CUT, *_HELD, "--memory-limit", "1GB")
    assert [name for name, row in limited.items() if row["fits"]] == ["one_f_one_b"]
    free = found(8, *_SENT, *_CUT, *_HELD)
    assert free["fill_drain"]["total_s"] < free["one_f_one_b"]["total_s"]


def test_the_price_of_interleaving_and_of_dualpipe_does_not_fall_with_more_micro_batches():
    for count in (8, 16):
        rows = found(count, *_SENT, *_CUT)
        assert rows["interleaved"]["messages"] / rows["one_f_one_b"]["messages"] == pytest.approx(7 / 3)
        assert rows["dualpipe_published"]["parameter_copies"] == 2
    assert found(8, *_SENT, *_CUT)["one_f_one_b"]["bubble_over_ideal"] == 0.375
    assert found(16, *_SENT, *_CUT)["one_f_one_b"]["bubble_over_ideal"] == 0.1875
