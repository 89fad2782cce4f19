"""Exchanges and parts of ranks of cp on shapes whose numbers can be said by hand."""

from __future__ import annotations

from itertools import product

import pytest

from meshwright.cost.estimate import Assumptions, estimate_step, flops, state_bytes, weight_bytes
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.reader import read_model
from meshwright.system.system import read_system
from meshwright.workload.batches import decode, prefill
from meshwright.workload.context_split import ContextPlan

SYSTEM = read_system("hgx-h100 x2")
DENSE = read_model("Qwen/Qwen3-32B")
HYBRID, LATENT, WINDOWED = (
    read_model(name) for name in ("Qwen/Qwen3.6-35B-A3B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b")
)
SHARED = {"attention": "context_parallel"}


def step(layout, batch, model=DENSE, **assumptions):
    return estimate_step(model, SYSTEM, table([layout]), batch, Assumptions(all_reduce="ring", **assumptions))


def of_cp(found):
    return {message.operation: (message, exchange) for message, exchange in found.exchanges if message.axis == "cp"}


def test_ranks_that_repeat_the_weights_gather_a_maximum_a_sum_and_a_vector_of_each_head():
    """64 heads of 128 over tp=2, in fp32, from each of four ranks, in each of 64 layers."""
    message, exchange = of_cp(step(Layout(tp=2, cp=4), decode(4095, 1)))["merge"]
    assert message.per_row_bytes.tolist() == [32 * (128 + 2) * 4 * 4]
    assert (message.count, exchange.rounds.tolist()) == (64, [3])


def test_ranks_that_share_the_weights_gather_queries_and_sums_and_reduce_outputs():
    """8 heads of each rank are asked by 4: 32 x 128 bf16, 32 sums from each, and outputs of 32 x 128 bf16."""
    message, _ = of_cp(step(Layout(tp=2, cp=4, **SHARED), decode(4095, 1)))["merge"]
    assert message.per_row_bytes.tolist() == [32 * 128 * 2 + 4 * 32 * 4 + 32 * 128 * 2]


def test_a_merge_has_a_row_of_each_session_and_no_position():
    times = [float(of_cp(step(Layout(cp=8), decode(tokens, 1, sessions)))["merge"][1].seconds[0])
             for tokens, sessions in ((4096, 1), (131072, 1), (4096, 1024))]  # fmt: skip
    assert times[0] == times[1] < times[2]


def test_latent_rows_that_tp_repeats_are_shared_by_cp():
    """DeepSeek-V3 over eight ranks: each reads the whole cache under tp, an eighth of it where positions are dealt."""
    one, eight = Layout(tp=8, etp=8), Layout(cp=8, etp=8, **SHARED)
    alone, dealt = (step(layout, decode(8191, 1), LATENT) for layout in (one, eight))
    assert float(state_bytes(alone)[0]) == 8192 * 61 * 576 * 2
    assert float(state_bytes(dealt)[0]) * 8 == float(state_bytes(alone)[0])
    assert float(weight_bytes(dealt)[0]) == float(weight_bytes(alone)[0])


def test_the_fullest_rank_reads_a_position_more_where_ranks_do_not_divide_them():
    found = [float(state_bytes(step(Layout(cp=8), decode(start, 1)))[0]) for start in (7, 8, 15)]
    assert found[0] < found[1] == found[2] == 2 * found[0]


def test_windows_are_dealt_to_ranks_as_whole_contexts_are():
    alone, shared = (step(Layout(cp=cp), decode(131071, 1), WINDOWED) for cp in (1, 4))
    assert float(state_bytes(shared)[0]) * 4 == float(state_bytes(alone)[0])


def test_state_of_fixed_size_is_whole_on_every_rank_that_repeats_the_weights_and_cut_by_heads_on_others():
    def turned(**layout):
        found = step(Layout(**layout), decode(8191, 1), HYBRID)
        return sum(float(work.state_bytes[0]) for work in found.work if work.operator.recurrence is not None)

    assert turned(cp=2) == turned()
    assert turned(cp=2, etp=2, **SHARED) == turned(tp=2, etp=2) == turned() / 2


def test_a_prompt_over_ranks_that_repeat_the_weights_is_dealt_to_them():
    alone, dealt = (step(Layout(cp=cp), prefill(8192)) for cp in (1, 4))
    head = next(float(work.flops[0]) for work in alone.work if work.operator.sampled)
    assert float(flops(dealt)[0]) - head == pytest.approx((float(flops(alone)[0]) - head) / 4)
    assert set(of_cp(dealt)) == {"ring"}
    assert "merge" not in of_cp(dealt)


@pytest.mark.parametrize(("split", "more"), [("contiguous", 1.7), ("striped", 1.0001), ("zigzag", 1.0)])
def test_the_busiest_rank_of_a_split_decides_a_prompt(split, more):
    def attention(**layout):
        context = ContextPlan(split=split, exchange="all_gather")
        found = step(Layout(**layout), prefill(8192), context=context)
        return sum(float(work.flops[0]) for work in found.work if work.operator.scores.dims)

    assert more <= attention(cp=4) / (attention() / 4) < 4


def test_a_ring_is_waited_for_where_it_is_longer_than_attention_and_a_gather_always():
    """Beside long attention a ring costs nothing; of few tokens even its start-ups are longer than attention."""
    exchanged: dict[tuple[str, int], float] = {}
    for way, tokens in product(("ring", "all_gather"), (64, 65536)):
        found = step(Layout(cp=8), prefill(tokens), context=ContextPlan(exchange=way))
        exchanged[way, tokens] = float(of_cp(found)[way][1].seconds[0])
    assert exchanged["ring", 65536] == 0 < exchanged["ring", 64] < exchanged["all_gather", 64]
    assert exchanged["all_gather", 65536] > exchanged["all_gather", 64]


def test_heads_of_a_prompt_go_to_ranks_and_come_back():
    found = step(Layout(cp=8), prefill(8192), context=ContextPlan(exchange="ulysses"))
    sent = [message.after for message, _ in found.exchanges if message.operation == "all_to_all"]
    assert sent == ["projections", "attention"]


def test_a_recurrence_hands_its_state_through_the_ranks_that_share_a_prompt():
    found = step(Layout(cp=2), prefill(8192), HYBRID, context=ContextPlan(split="contiguous"))
    message, exchange = of_cp(found)["pass"]
    assert message.count == 30
    assert float(exchange.seconds[0]) > 0


def test_ranks_that_share_the_weights_run_a_prompt_as_one_tp_group():
    """But for K and V, whose projections repeat where tp is below the KV heads."""
    joined, shared = (step(layout, prefill(4096)) for layout in (Layout(tp=8), Layout(tp=4, cp=2, **SHARED)))
    times = {
        work.operator.name: [float(one.seconds[0]) for one in (work, other)]
        for work, other in zip(joined.work, shared.work, strict=True)
    }
    doubled = {name for name, (one, other) in times.items() if other != one}
    assert doubled == {"self_attn.k_proj", "self_attn.v_proj"}
    assert [float(exchange.seconds[0]) for message, exchange in shared.exchanges if message.axis == "tp"] == [
        float(exchange.seconds[0]) for message, exchange in joined.exchanges if message.axis == "tp"
    ]
    assert all(float(exchange.seconds[0]) == 0 for _, exchange in of_cp(shared).values())


def test_a_prompt_of_fewer_tokens_than_ranks_leaves_some_idle():
    assert float(step(Layout(cp=8), prefill(3)).total_s[0]) > 0
