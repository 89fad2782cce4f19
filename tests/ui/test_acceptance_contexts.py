"""The table of long contexts and the wide groups of chapter "Supernodes", 6.2.2, 6.5.1 and 6.5.3, by command."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of

DENSE, SPARSE = "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B"
PRINTED = {
    DENSE: {
        "parameters_bytes": (65.52e9, 0.005e9),
        "one_step_weight_bytes": (63.97e9, 0.005e9),
        "balanced_step_weight_bytes": (63.97e9, 0.005e9),
        "step_flops": (8.49e12, 0.005e12),
        "step_state_bytes": (549.8e9, 0.05e9),
        "state_read_s": (164e-3, 0.5e-3),
    },
    SPARSE: {
        "parameters_bytes": (61.06e9, 0.005e9),
        "one_step_weight_bytes": (6.08e9, 0.005e9),
        "balanced_step_weight_bytes": (60.44e9, 0.005e9),
        "step_flops": (2.04e12, 0.005e12),
        "step_state_bytes": (206.2e9, 0.05e9),
        "state_read_s": (62e-3, 0.5e-3),
    },
}
"""Value and half a unit of the last printed digit."""


def rows(context):
    answer = answer_of("study", "run", "long-context", "--set", f"context={context}")["answer"]
    assert answer["not_modelled"]
    return {row["model"]: row for row in answer["rows"]}


@pytest.fixture(scope="module")
def short():
    return rows(32768)


@pytest.fixture(scope="module")
def long():
    return rows(131072)


@pytest.mark.parametrize("model", PRINTED)
def test_the_table_says_what_the_chapter_prints(short, model):
    for name, (value, half) in PRINTED[model].items():
        assert short[model][name] == pytest.approx(value, abs=half), name


@pytest.mark.parametrize(("model", "kib", "session"), [(DENSE, 256, 34.36e9), (SPARSE, 96, 12.88e9)])
def test_the_state_of_one_long_session(long, model, kib, session):
    assert long[model]["kv_bytes_per_token"] == kib * 1024
    assert long[model]["session_bytes"] == pytest.approx(session, abs=0.005e9)


@pytest.mark.parametrize(("model", "printed"), [(DENSE, [(0, 1), (2, 10)]), (SPARSE, [(1, 5), (7, 29)])])
def test_sessions_that_fit_one_and_two_cards(long, short, model, printed):
    for name in ("pooled_sessions", "tensor_parallel_sessions"):
        of_128k, of_32k = ([room[name] for room in table[model]["room"]] for table in (long, short))
        assert list(zip(of_128k, of_32k, strict=True)) == printed


def test_a_mixture_saves_reading_alone_but_not_in_a_batch(short):
    assert short[SPARSE]["one_step_weight_share"] == pytest.approx(0.1, abs=0.005)
    assert short[SPARSE]["balanced_step_weight_bytes"] > 0.94 * short[DENSE]["balanced_step_weight_bytes"]
    assert short[SPARSE]["times_fewer_flops"] > 4
    for row in short.values():
        assert row["state_read_s"] > 3 * row["weight_read_s"]


def test_a_balanced_batch_reads_every_expert_not_their_expected_number(short):
    assert short[SPARSE]["uniform_step_weight_bytes"] == pytest.approx(59.5e9, abs=0.05e9)
    assert short[SPARSE]["balanced_step_weight_bytes"] == pytest.approx(60.44e9, abs=0.005e9)


def test_sixteen_cards_lose_to_eight_over_boxes_and_in_one_domain():
    answer = answer_of("study", "run", "wide-group")["answer"]
    steps = {name: round(answer[name]["step_s"] * 1e3, 2) for name in ("one_box", "measured", "one_domain")}
    assert steps == {"one_box": 5.15, "measured": 6.67, "one_domain": 5.64}
    assert round(answer["over_boxes"]["local_s"] * 1e3, 2) == 2.48
    assert round(answer["over_boxes"]["all_reduce_s"] * 1e6) == 113
    assert answer["measured"]["archived_bytes"] == 16384
    assert round(answer["break_even_s"] * 1e6, 1) == 20.9
