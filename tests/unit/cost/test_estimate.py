"""The estimator on shapes whose numbers can be said by hand; golden values are in tests/golden."""

from __future__ import annotations

from dataclasses import replace
from math import isclose

import numpy as np
import pytest

from meshwright.base.result import Basis
from meshwright.cost.efficiency import Efficiency
from meshwright.cost.estimate import Assumptions, estimate_step, flops, read_bytes, state_bytes, weight_bytes
from meshwright.cost.memory import serving_ledger, state_bytes_per_token
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.model import parameter_bytes
from meshwright.model.reader import read_model
from meshwright.system.system import read_system
from meshwright.workload.batches import decode, prefill

MODEL, SPARSE, SYSTEM = read_model("Qwen/Qwen3-32B"), read_model("Qwen/Qwen3-235B-A22B"), read_system("hgx-h100 x2")


def step(layout, batch, model=MODEL, **assumptions):
    return estimate_step(model, SYSTEM, table([layout]), batch, Assumptions(**assumptions))


def test_one_card_reads_every_weight_but_the_embedding_and_the_cache_of_its_context():
    found = step(Layout(), decode(131064, 1))
    sizes = parameter_bytes(MODEL)
    assert float(weight_bytes(found)[0]) == sizes["total"] - sizes["embedding"] - sizes["norms"]
    assert float(state_bytes(found)[0]) == 131065 * 64 * state_bytes_per_token(MODEL, 0)
    assert float(read_bytes(found)[0]) == float(weight_bytes(found)[0]) + float(state_bytes(found)[0])
    assert float(found.exchange_s[0]) == 0.0


def test_decode_is_bound_by_reading_and_prefill_by_computing():
    assert not any(item.compute_bound[0] for item in step(Layout(), decode(1000, 1)).work)
    assert all(item.compute_bound[0] for item in step(Layout(), prefill(8192)).work if item.operator.kind is not None)


def test_a_mean_step_is_the_mean_of_single_steps():
    several = step(Layout(tp=4), decode(1000, 8)).total_s[0]
    single = [step(Layout(tp=4), decode(1000 + number, 1)).total_s[0] for number in range(8)]
    assert isclose(several, np.mean(single), rel_tol=1e-12)


def test_even_reads_divide_every_weight_and_strict_reads_follow_the_table():
    even, strict = (step(Layout(tp=16), decode(1000, 1), weight_reads=reads) for reads in ("even", "strict"))
    sizes = parameter_bytes(MODEL)
    whole = sizes["total"] - sizes["embedding"] - sizes["norms"]
    assert isclose(float(weight_bytes(even)[0]), whole / 16, rel_tol=1e-12)
    replicated = 64 * 2 * 5120 * 1024 * 2 * (2 - 1) / 16  # K and V projections are held twice over 16 ranks
    assert isclose(float(weight_bytes(strict)[0]) - whole / 16, replicated, rel_tol=1e-9)


def test_experts_over_ep_pay_the_expected_busiest_group():
    tp, ep = (step(layout, decode(0, 1), model=SPARSE) for layout in (Layout(tp=8, etp=8), Layout(tp=8, ep=8)))
    routed = [
        (sliced, spread) for sliced, spread in zip(tp.work, ep.work, strict=True) if sliced.operator.rows == "routed"
    ]
    assert all(spread.weight_bytes[0] > sliced.weight_bytes[0] for sliced, spread in routed)
    assert flops(ep)[0] > flops(tp)[0]


def test_a_prompt_reads_the_experts_it_is_expected_to_choose():
    one, many = (step(Layout(), prefill(rows), model=SPARSE) for rows in (8, 8192))
    routed = [item for item in many.work if item.operator.rows == "routed"]
    whole = sum(item.operator.count * item.operator.weights[0].elements * 2 for item in routed)
    assert isclose(sum(float(item.weight_bytes[0]) for item in routed), whole, rel_tol=1e-9)
    assert weight_bytes(one)[0] < weight_bytes(many)[0]


def test_only_boundaries_between_boxes_pay_the_nic():
    inside, across = step(Layout(tp=4, pp=2), decode(10, 1)), step(Layout(tp=8, pp=2), decode(10, 1))
    send = {exchange.algorithm[0]: exchange for _, exchange in across.exchanges}["send_recv"]
    near = {exchange.algorithm[0]: exchange for _, exchange in inside.exchanges}["send_recv"]
    assert float(near.seconds[0]) == SYSTEM.scale_up.latency + 10240 / SYSTEM.scale_up.bandwidth
    assert float(send.seconds[0]) == SYSTEM.nic_latency + 10240 / SYSTEM.nic_bandwidth


@pytest.mark.parametrize(("ranks", "rounds"), [(2, 2), (8, 14), (16, 30)])
def test_a_group_pays_the_slowest_link_between_its_members(ranks, rounds):
    """A ring of n ranks: 2 (n - 1) rounds of alpha and a block of 1 / n; over boxes through the NICs of 8 members."""
    near, far = SYSTEM.scale_up, SYSTEM.scale_out
    wire, bandwidth = (near, near.bandwidth) if ranks <= 8 else (far, min(near.bandwidth, 8 * far.bandwidth))
    one = rounds * (wire.latency + 10240 / ranks / bandwidth)
    found = step(Layout(tp=ranks), decode(10, 1), all_reduce="ring")
    assert isclose(float(found.exchange_s[0]), 2 * 64 * one, rel_tol=1e-12)


def test_the_head_works_on_the_last_row_of_a_prompt_only():
    few, many = (step(Layout(), prefill(rows)).work[-1] for rows in (2, 4096))
    assert few.operator.name == "lm_head"
    assert float(few.flops[0]) == float(many.flops[0]) == 2.0 * 151936 * 5120


def test_a_group_of_one_exchanges_nothing_and_pp_sends_pp_minus_1_times():
    send = SYSTEM.scale_up.latency + 10240 / SYSTEM.scale_up.bandwidth
    assert isclose(float(step(Layout(pp=4), decode(10, 1)).exchange_s[0]), 3 * send, rel_tol=1e-12)


def test_an_algorithm_that_does_not_permit_the_group_has_no_time():
    assert np.isnan(step(Layout(tp=6), decode(10, 1), all_reduce="tree").total_s[0])


def test_efficiencies_lengthen_what_they_belong_to():
    plain = step(Layout(tp=8), decode(1000, 1), all_reduce="ring")
    half = Efficiency(basis=Basis.CALIBRATED, matrix=1.0, memory=0.5, link=0.5)
    slowed = step(Layout(tp=8), decode(1000, 1), all_reduce="ring", efficiency=half)
    assert isclose(float(slowed.local_s[0]), 2 * float(plain.local_s[0]), rel_tol=1e-12)
    assert float(slowed.exchange_s[0]) > float(plain.exchange_s[0])


def test_a_format_the_card_cannot_multiply_in_runs_in_the_plain_one():
    fp8 = read_model("Qwen/Qwen3-30B-A3B-FP8")
    a100 = read_system("hgx-a100")
    found = estimate_step(fp8, a100, table([Layout()]), prefill(4096), Assumptions())
    work = found.work[0]
    rate = float(work.flops[0]) / float(work.seconds[0])
    assert isclose(rate, a100.accelerator.peak["bf16"], rel_tol=1e-9)


def ledger(layout, model=MODEL, sessions=1, tokens=131072, capacity=80 * 10**9):
    column = np.array([sessions])
    return serving_ledger(
        model, table([layout]), sessions=column, tokens=tokens, workspace_bytes=2 * 2**30, capacity_bytes=capacity
    )


@pytest.mark.parametrize(("tp", "most"), [(1, 0), (2, 2), (4, 7), (8, 16)])
def test_the_chapters_sessions_of_128k_fit(tp, most):
    """Chapter "Supernodes", section 6.2.2."""
    assert int(ledger(Layout(tp=tp)).max_sessions[0]) == most


def test_the_first_of_equally_full_stages_is_named_and_the_last_holds_the_head():
    found = ledger(Layout(pp=2), sessions=0)
    assert int(found.stage[0]) == 1
    assert int(found.parameters[0]) > parameter_bytes(MODEL)["total"] // 2


def test_a_tied_head_is_stored_again_on_the_last_stage():
    tied = replace(MODEL, tied=True)
    alone, split = (int(ledger(Layout(pp=pp), model=tied, sessions=0).parameters[0]) for pp in (1, 2))
    assert alone == parameter_bytes(tied)["total"]
    assert split == int(ledger(Layout(pp=2), sessions=0).parameters[0])


def test_copies_of_attention_with_their_own_samples_each_keep_their_share():
    """The chapter's TP2 x EP4 repeats the cache four times; dealt samples do not."""
    degrees = {"tp": 2, "dp_replicate": 4, "ep": 4, "etp": 2}
    same, dealt = (
        ledger(Layout(**degrees, attention=copies), model=SPARSE, sessions=8, tokens=8192)
        for copies in ("replicated", "data_parallel")
    )
    assert int(same.kv_cache[0]) == 8 * 752 * 2**20
    assert int(dealt.kv_cache[0]) == 2 * 752 * 2**20
    assert int(dealt.max_sessions[0]) == 4 * int(same.max_sessions[0])


def test_cp_shares_the_positions_of_a_session():
    whole, shared = ledger(Layout(tp=8)), ledger(Layout(tp=8, cp=2))
    assert int(shared.kv_cache[0]) * 2 == int(whole.kv_cache[0])
    assert int(shared.max_kv_tokens[0]) == 2 * int(whole.max_kv_tokens[0])
    assert int(shared.parameters[0]) == int(whole.parameters[0])
