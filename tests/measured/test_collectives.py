"""Measured exchanges: every row has a family or a reason, fits foresee what they did not see, files are so."""

from __future__ import annotations

from collections import Counter
from statistics import median

import numpy as np
import pytest

from meshwright.cost.collective_fits import FAMILIES, fitted_s
from meshwright.system.accelerator import ACCELERATORS
from meshwright.system.collective_fits import collective_fits, read_collective_fit
from meshwright.system.link import LINKS
from tests.measured.collective_fitting import RANKS, SIZES, SOURCES, fit
from tests.measured.collective_rows import DROPPED, MIB, Key, Row, groups, rows
from tests.measured.collectives import FOLDER, PAGE, TARGETS, by_family, fits, page, scored, texts

_KEY = Key(accelerator="any", link="any", operation="all_reduce", family="nccl", boxes=1)


def test_every_row_is_kept_or_has_a_coded_reason():
    counts = Counter(row.dropped for row in rows())
    assert len(rows()) == 1117
    assert counts[""] == 1031
    assert set(counts) == {"", *DROPPED}


def test_every_kept_row_has_a_family_that_has_its_operation():
    for key in groups():
        assert key.operation in FAMILIES[key.family].programs, key


def test_what_a_source_calls_nvls_is_in_the_switch_and_what_it_calls_ring_is_not():
    named = {row.id: row.key.family for row in rows()}
    assert named["stas-h200-16g-001"] == "in_switch"
    assert named["stas-h200-16g-002"] == "nccl"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("large", [False, True])
def test_the_median_error_of_a_family_is_within_what_is_asked(family, large):
    errors = by_family(family, large=large)
    assert not errors or median(errors) <= TARGETS[large]


def test_no_row_is_scored_by_a_fit_that_saw_it():
    for items in scored().values():
        ids = [item.row.id for item in items]
        assert len(ids) == len({(name, item.by) for name, item in zip(ids, items, strict=True)})
        assert {item.by for item in items} <= {SOURCES, RANKS, SIZES}


def test_a_changed_row_does_not_change_what_is_foreseen_of_it():
    key = next(key for key in groups() if key.accelerator == "h100-sxm" and key.operation == "all_gather")
    from tests.measured.collective_fitting import scores

    own = groups()[key]
    row = next(item.row for item in scores(key, own) if item.by == RANKS)
    slower = [other if other.id != row.id else _with(other, other.seconds * 3) for other in own]
    before = next(item.predicted_s for item in scores(key, own) if item.row.id == row.id and item.by == RANKS)
    after = next(item.predicted_s for item in scores(key, slower) if item.row.id == row.id and item.by == RANKS)
    assert after == pytest.approx(before, rel=1e-9)


def _with(row, seconds):
    return Row(id=row.id, source=row.source, key=row.key, ranks=row.ranks, size=row.size, seconds=seconds)


def test_a_fit_finds_the_numbers_that_times_were_made_of():
    sizes = [4**power for power in range(6, 15)]
    made = [
        Row(id=f"{ranks}-{size}", source="made", key=_KEY, ranks=ranks, size=size, seconds=0.0)
        for ranks in (2, 4, 8)
        for size in sizes
    ]
    from tests.measured.collective_fitting import Fitted

    truth = Fitted(key=_KEY, launch_s=5e-6, latency_s=0.8e-6, byte_s=1 / 340e9)
    timed = [_with(row, seconds) for row, seconds in zip(made, truth.seconds(made), strict=True)]
    found = fit(_KEY, timed)
    assert found.launch_s == pytest.approx(truth.launch_s, rel=1e-3)
    assert found.latency_s == pytest.approx(truth.latency_s, rel=1e-3)
    assert found.byte_s == pytest.approx(truth.byte_s, rel=1e-3)


def test_a_latency_is_not_told_by_rows_of_equal_rounds():
    eight = list(groups()[next(key for key in groups() if key.family == "nccl_one_process")])
    assert fit(eight[0].key, eight).latency_s == 0


def test_the_product_computes_what_was_fitted():
    for key, found in groups().items():
        shipped = read_collective_fit(key.name)
        times = [float(fitted_s(shipped, row.ranks, float(row.size))) for row in found]
        assert np.allclose(times, fits()[key].seconds(found), rtol=2e-3), key.name


def test_files_of_fits_are_what_the_command_writes():
    assert {file.stem: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.toml")} == texts()


def test_the_page_is_what_the_command_writes():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_fits_name_the_catalog_or_say_what_it_does_not_have():
    unknown = {found.accelerator for found in collective_fits()} - set(ACCELERATORS.names())
    assert unknown <= {"a100-pcie", "b300-sxm", "gb200", "h100-nvl", "rtx-pro-6000-server"}
    links = {found.link for found in collective_fits()} - set(LINKS.names())
    assert links == {"efa-400gbit", "nvlink3-bridge", "nvlink4-bridge", "pcie-gen4-x16-across-sockets"}


def test_rows_of_at_least_a_mebibyte_have_a_spread_of_their_own():
    for found in collective_fits():
        assert found.most < MIB or found.spread[-1].least >= MIB
