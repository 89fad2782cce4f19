"""Room as a function of length, and the pages of hybrid models."""

from __future__ import annotations

import pytest

from meshwright.base.errors import ModelError
from meshwright.model.reader import read_model
from meshwright.scenarios.fit import FitOptions, fit, replica_layout
from meshwright.scenarios.hybrid_pages import hybrid_pages
from meshwright.scenarios.inspect import cached_bytes, kv_bytes_per_token
from meshwright.system.system import read_system

HYBRID, PLAIN = read_model("Qwen/Qwen3.6-35B-A3B"), read_model("Qwen/Qwen3-8B")
SLIDING = read_model("google/gemma-3-12b-it")
SYSTEM = read_system("hgx-h100")


def memory(model, tp=1, **options):
    return fit(model, SYSTEM, replica_layout(model, tp, 1, 1), FitOptions(**options)).body["memory"]


def test_room_is_told_by_length_only_where_bytes_are_no_multiple_of_positions():
    assert "by_length" not in memory(PLAIN)
    assert [row["context"] for row in memory(HYBRID)["by_length"]] == [1024, 4096, 16384, 65536, 262144]
    assert 1024 in {row["context"] for row in memory(SLIDING)["by_length"]}


@pytest.mark.parametrize("model", [HYBRID, SLIDING], ids=["fixed state", "windows"])
def test_sessions_of_a_length_fill_the_room_and_one_more_does_not(model):
    found = memory(model)
    free = found["capacity_bytes"] - found["workspace_bytes"] - found["parameters_bytes"]
    for row in found["by_length"]:
        assert row["session_bytes"] == cached_bytes(model, row["context"])
        assert row["max_sessions"] * row["session_bytes"] <= free < (row["max_sessions"] + 1) * row["session_bytes"]
        assert row["max_kv_tokens"] == row["max_sessions"] * row["context"]


def test_tokens_that_fit_are_no_multiple_of_one_number():
    hybrid = [row["max_kv_tokens"] for row in memory(HYBRID)["by_length"]]
    assert hybrid[0] < hybrid[1] < hybrid[2]  # the fixed state is paid once a session
    sliding = [row["max_kv_tokens"] for row in memory(SLIDING)["by_length"]]
    assert sliding[-1] > 3 * sliding[0]  # windows are full


def test_the_stated_context_is_a_row_and_agrees_with_the_ledger():
    found = memory(HYBRID, context=5000, sessions=1)
    row = next(row for row in found["by_length"] if row["context"] == 5000)
    assert (row["session_bytes"], row["max_sessions"]) == (found["kv_cache_bytes"], found["max_sessions"])


@pytest.mark.parametrize("tp", [1, 2, 4, 8, 16])
def test_state_of_fixed_size_is_cut_by_the_heads_it_belongs_to(tp):
    model = read_model("Qwen/Qwen3.6-35B-A3B")
    system = read_system("hgx-h100 x2")
    found = fit(model, system, replica_layout(model, tp, 1, 1), FitOptions(context=1, sessions=1)).body["memory"]
    position = 20480 // min(tp, 2)  # two KV heads
    assert found["kv_cache_bytes"] == (62_914_560 + 1_966_080) // tp + position


def test_the_state_of_mamba_2_has_a_part_for_heads_and_one_for_groups():
    model = read_model("nvidia/Nemotron-H-56B-Base-8K")
    mixer = model.kinds[0].mixer
    assert (mixer.heads, mixer.head_dim, mixer.groups, mixer.state) == (256, 64, 8, 256)
    each = 256 * 64 * 256 * 4 + (256 * 64 + 2 * 8 * 256) * 4 * 2
    assert memory(model, 2, context=1, sessions=1)["kv_cache_bytes"] == (54 * each + 40960) // 2


def test_pages_of_two_logs_follow_from_the_bytes():
    """Case k07 (kv-109) and k04; one position less of the pool would change the first."""
    model = read_model("Qwen/Qwen3.5-35B-A3B", kv="fp8")
    found = hybrid_pages(model, 1, 32768, int(5.69 * 2**30), 16, 2)
    assert (found.block_tokens, found.blocks, found.reported_tokens) == (2096, 284, 148_816)
    assert found.max_concurrency == pytest.approx(12.91, rel=5e-4)
    least = 284 * 2096 * 1024 * 10
    assert hybrid_pages(model, 1, 32768, least, 16, 2).blocks == 284
    assert hybrid_pages(model, 1, 32768, least - 1, 16, 2).blocks == 283


@pytest.mark.parametrize("model", [PLAIN, SLIDING], ids=["no fixed state", "windows"])
def test_pages_of_other_layers_are_refused(model):
    with pytest.raises(ModelError) as caught:
        hybrid_pages(model, 1, 4096, 2**30, 16, 1)
    assert caught.value.code == "MOD041"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "KV tokens beside state of fixed size, "),
        ("openai/gpt-oss-120b", "KV tokens of sessions that fill no window, "),
        ("Qwen/Qwen3-8B", "KV tokens, "),
    ],
)
def test_the_verdict_says_what_its_room_for_tokens_leaves_out(name, told):
    model = read_model(name)
    found = fit(model, read_system("hgx-h200"), replica_layout(model, 8, 1, 1), FitOptions(context=8192))
    room = found.verdict.text.partition("room for ")[2]
    assert room.partition(" ")[2].startswith(told)


@pytest.mark.parametrize("sessions", [0, 1, 40])
def test_tokens_that_fit_stand_beside_the_fixed_state_of_the_resident_sessions(sessions):
    found = memory(HYBRID, context=1024 if sessions else 0, sessions=sessions)
    fixed = cached_bytes(HYBRID, 1024) - 1024 * found["kv_bytes_per_token"]
    free = found["capacity_bytes"] - found["workspace_bytes"] - found["parameters_bytes"]
    assert fixed > 60_000_000
    assert found["max_kv_tokens"] == (free - max(sessions, 1) * fixed) // found["kv_bytes_per_token"]
    row = found["by_length"][0]
    as_many = memory(HYBRID, context=row["context"], sessions=row["max_sessions"])
    assert row["max_kv_tokens"] <= as_many["max_kv_tokens"] < row["max_kv_tokens"] + row["context"] + fixed // 20480


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-V4-Flash", "google/gemma-3-12b-it", "Qwen/Qwen3-8B"])
def test_fit_and_inspect_say_the_same_of_one_more_position(name):
    """DeepSeek-V4 keeps one row for 4 or 128 positions: a position adds its share of one."""
    model = read_model(name)
    found = memory(model, tp=1)
    assert found["kv_bytes_per_token"] == kv_bytes_per_token(model)
    assert sum(row["layers"] * row["bytes_per_token"] for row in found["kv_layers"]) == found["kv_bytes_per_token"]
