"""What engines' start-up logs state of their KV cache, row by row: bytes of a token on a GPU, and the budget rule."""

from __future__ import annotations

from collections import Counter

import pytest

from meshwright.base.parse import set_path
from meshwright.system.system import read_system
from tests.measured.ask import TOLERANCE, answer, ask, model_of, rows, table
from tests.measured.report import PAGE, page

_VERDICTS = {"agrees", "circular agrees", "rule changed", "later architecture", "not answerable"}


def test_every_row_has_a_verdict_and_no_other_does():
    assert [row["id"] for row in rows()] == sorted(table("kv-verdicts"))
    assert len(rows()) == 34


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["id"])
def test_the_row_agrees_or_says_why_it_is_not_answered(row):
    found = answer(row)
    assert found.verdict in _VERDICTS, f"{found.predicted} B predicted, {found.stated} B stated"
    if "agrees" in found.verdict:
        assert abs(found.error) <= TOLERANCE
    else:
        assert found.reason


def test_enough_rows_agree_that_are_no_circle():
    verdicts = Counter(answer(row).verdict for row in rows())
    assert verdicts["agrees"] >= 3
    assert verdicts["circular agrees"] >= 5


def test_a_row_that_states_both_numbers_is_not_left_out_for_want_of_them():
    for row in rows():
        said = table("kv-verdicts")[row["id"]]
        if row["available_kv_gib"] and row["kv_tokens"]:
            assert "not stated" not in said.get("reason", ""), row["id"]


@pytest.mark.parametrize("factor", [2, 4])
def test_a_wrong_kv_width_would_not_agree(factor):
    """The comparison can fail: cached elements of another width are far outside the tolerance."""
    row = next(row for row in rows() if row["id"] == "kv-062")
    memory = ask(model_of("meta-llama/Llama-3.1-70B", 16 * factor), 4, read_system("hgx-h100")).body["memory"]
    assert abs(memory["kv_bytes_per_token"] / answer(row).stated - 1) > 0.9


def test_the_budget_rule_gives_the_available_kv_and_tokens_of_a_log_that_states_its_parts():
    row = next(row for row in rows() if row["id"] == "kv-090")
    said = table("kv-verdicts")["kv-090"]
    system = set_path(read_system("hgx-a100-40gb"), "accelerator.memory", said["budget"]["memory"])
    engine = {"name": "vllm", "gpu_memory_utilization": 0.9, "reserve": said["budget"]["reserve"]}
    context = int(row["max_model_len"])
    found = ask(model_of(said["model"]), 1, system, {"context": context, "engine": engine}).body["memory"]["engine"]
    assert found["available_kv_bytes"] == pytest.approx(float(row["available_kv_gib"]) * 2**30, rel=TOLERANCE)
    assert found["kv_tokens"] == pytest.approx(int(row["kv_tokens"]), rel=TOLERANCE)
    assert found["kv_blocks"] == pytest.approx(int(row["n_blocks"]), rel=TOLERANCE)
    assert found["max_concurrency"] == pytest.approx(float(row["max_concurrency"]), rel=TOLERANCE)
    assert found["kv_tokens"] % found["block_size"] == 0


def test_the_page_is_what_the_command_writes():
    assert PAGE.read_text(encoding="utf-8") == page()
