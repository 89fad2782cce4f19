"""What a step reads of experts when a number, a word or counts say so."""

from __future__ import annotations

import pytest

from meshwright.workload.feed_forward import covered_share, distinct_experts


@pytest.mark.parametrize(("reads", "rows", "read"), [(100.0, 64, 100), (100.0, 5, 40), (100.0, 1, 8), ("full", 1, 128)])
def test_a_given_number_of_experts_is_read_as_far_as_rows_can_choose_so_many(reads, rows, read):
    assert 8 + (128 - 8) * covered_share(128, 8, rows, reads) == pytest.approx(read)


def test_expected_reads_are_those_of_the_first_row_and_what_the_others_add():
    assert 8 + (128 - 8) * covered_share(128, 8, 64, "expected") == pytest.approx(distinct_experts(128, 8, 64))
