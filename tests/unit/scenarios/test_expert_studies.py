"""The chapters' small questions on experts, and the shortcuts that they reject."""

from __future__ import annotations

import pytest

from meshwright.base.errors import JobError, LayoutError
from meshwright.model.reader import read_model
from meshwright.scenarios.expert_capacity import expert_capacity
from meshwright.scenarios.replicated_attention import replicated_attention
from meshwright.scenarios.routing_record import routing_record, top_experts
from meshwright.scenarios.token_dispatch import token_dispatch
from meshwright.system.system import read_system

MODEL, BOX = read_model("Qwen/Qwen3-235B-A22B"), read_system("hgx-h100")


def test_the_chapters_token_runs_one_expert_here_and_sends_one_row_to_card_3():
    found = token_dispatch(4, 2, 0, (1, 6), 4096, 2)
    assert (found.homes, found.local, found.once_bytes, found.return_bytes) == ((0, 3), 1, 8192, 8192)


def test_eight_experts_in_pairs_on_four_cards_are_32_kib_and_not_64():
    """Rejected answer 7."""
    found = token_dispatch(5, 2, 0, tuple(range(2, 10)), 4096, 2)
    assert (found.each_bytes, found.once_bytes, found.target_ranks) == (65536, 32768, 4)


@pytest.mark.parametrize("factor", [1.0, 1.25, 1.5, 2.0])
def test_kept_rows_and_padding_fill_every_expert(factor):
    found = expert_capacity("64x768", "64x256", 8, 8, factor)
    assert found.executed_rows == 128 * found.capacity_rows
    assert found.dispatches - found.dropped_rows + found.padding == found.executed_rows
    assert sum(found.dropped) == found.dropped_rows


def test_expert_time_follows_the_busiest_card_and_not_the_mean():
    """Rejected answers 8 of chapter "Supernodes" and 13 of "Training systems": 96 rows, not 64, are a third more."""
    found = expert_capacity("96,32", "none", 1, 2, 2.0)
    assert (found.busiest_group_rows, found.mean_group_rows) == (96, 64)
    assert found.balanced_saving_fraction == pytest.approx(1 / 3)


def test_a_capacity_below_one_row_drops_all_and_every_token_passes_by():
    found = expert_capacity("4,4", "none", 1, 1, 0.1)
    assert (found.capacity_rows, found.dropped_rows, found.skipped_tokens, found.padding) == (0, 8, 8, 0)


def test_every_group_has_all_rows_so_nothing_is_sent_and_three_sums_remain():
    found = replicated_attention(MODEL, BOX, 2, 4, 2, 8192, 8192, "fp32")
    assert found.sent_bytes == 448 * 2**20
    assert [item.axis for item in found.merges] == ["tp", "etp", "ep"]
    assert (found.kv_copies, found.attention_copies) == (4, 4)


def test_a_record_is_two_or_four_bytes_a_choice():
    assert (routing_record(8192, 48, 8, 2), routing_record(8192, 48, 8, 4)) == (6 * 2**20, 12 * 2**20)


def test_of_equal_scores_the_first_is_chosen():
    assert top_experts((0.3, 0.5, 0.3), 2).chosen == (2, 1)
    assert top_experts((0.5, 0.301, 0.302), 2).chosen == (1, 3)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: token_dispatch(4, 2, 4, (1,), 4096, 2),
        lambda: token_dispatch(4, 2, 0, (1, 1), 4096, 2),
        lambda: token_dispatch(4, 2, 0, (8,), 4096, 2),
        lambda: token_dispatch(0, 2, 0, (0,), 4096, 2),
        lambda: expert_capacity("96,32.5", "none", 1, 2, 1.0),
        lambda: expert_capacity("96,32", "none", 0, 2, 1.0),
        lambda: expert_capacity("96,32", "none", 1, 2, 0.0),
        lambda: routing_record(0, 48, 8, 2),
        lambda: top_experts((0.1,), 2),
    ],
)
def test_what_cannot_be_is_refused(ask):
    with pytest.raises(JobError, match="JOB129"):
        ask()


def test_groups_that_do_not_share_the_experts_evenly_are_refused():
    with pytest.raises(LayoutError, match="LAY040"):
        expert_capacity("96,32,64", "none", 1, 2, 1.0)
