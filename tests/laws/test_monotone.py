"""Better hardware never hurts, and a wider tp never stores more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.base.units import BytesPerSecond, FlopsPerSecond, Seconds
from meshwright.cost.estimate import Assumptions, estimate_step
from meshwright.cost.memory import serving_ledger
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.layout.rules import keeps_all
from meshwright.model.feed_forwards import Experts
from meshwright.system.system import System, read_system
from meshwright.workload.batches import decode, prefill
from tests.laws.strategies import layouts, models

SYSTEM = read_system("hgx-h100 x4")
LINKS = ("scale_up", "scale_out")


def with_link(system: System, link: str, **change: float) -> System:
    return replace(system, **{link: replace(getattr(system, link), **change)})


def faster(system: System, part: str, factor: float) -> System:
    """The system with one rate multiplied, or one latency divided."""
    accelerator = system.accelerator
    if part == "memory_bandwidth":
        rate = BytesPerSecond(accelerator.memory_bandwidth * factor)
        return replace(system, accelerator=replace(accelerator, memory_bandwidth=rate))
    if part == "peak":
        peak = {name: FlopsPerSecond(rate * factor) for name, rate in accelerator.peak.items()}
        return replace(system, accelerator=replace(accelerator, peak=peak))
    link, _, field = part.partition(".")
    value = getattr(getattr(system, link), field)
    changed = Seconds(value / factor) if field == "latency" else BytesPerSecond(value * factor)
    return with_link(system, link, **{field: changed})


PARTS = ("memory_bandwidth", "peak", *(f"{link}.{field}" for link in LINKS for field in ("bandwidth", "latency")))


@settings(max_examples=60)
@given(data=st.data(), part=st.sampled_from(PARTS), factor=st.floats(1.0, 8.0))
def test_more_bandwidth_and_less_latency_never_slow_a_step(data, part, factor):
    model = data.draw(models())
    rows = table([data.draw(layouts(model, serving=True)) for _ in range(4)])
    batch = data.draw(st.sampled_from([decode(30, 3), prefill(64)]))
    assumptions = Assumptions(all_reduce=data.draw(st.sampled_from(["auto", "ring", "tree"])))
    before = estimate_step(model, SYSTEM, rows, batch, assumptions).total_s
    after = estimate_step(model, faster(SYSTEM, part, factor), rows, batch, assumptions).total_s
    np.testing.assert_array_equal(np.isnan(before), np.isnan(after))
    assert (after <= before)[~np.isnan(before)].all()


@pytest.mark.parametrize("part", PARTS)
def test_each_rate_does_enter_a_step_of_a_pipeline_over_boxes(part):
    """So that the law above cannot hold by ignoring what it varies."""
    from meshwright.model.reader import read_model

    model = read_model("Qwen/Qwen3-32B")
    rows = table([Layout(tp=8, pp=2), Layout(tp=16), Layout(tp=2, pp=4)])
    batch = prefill(4096) if part == "peak" else decode(1000, 1)
    before = estimate_step(model, SYSTEM, rows, batch, Assumptions()).total_s
    after = estimate_step(model, faster(SYSTEM, part, 2.0), rows, batch, Assumptions()).total_s
    assert (after < before).any()


@settings(max_examples=40)
@given(data=st.data(), capacity=st.integers(0, 2_000_000), more=st.integers(0, 2_000_000))
def test_more_memory_never_lowers_what_fits(data, capacity, more):
    model = data.draw(models())
    rows = table([data.draw(layouts(model)) for _ in range(4)])

    def ledger(size):
        one = np.ones(4, dtype=np.int64)
        return serving_ledger(model, rows, sessions=one, tokens=20, workspace_bytes=9, capacity_bytes=size)

    small, large = ledger(capacity), ledger(capacity + more)
    assert (large.max_sessions >= small.max_sessions).all()
    assert (large.max_kv_tokens >= small.max_kv_tokens).all()


@settings(max_examples=40)
@given(data=st.data())
def test_more_tp_never_raises_what_a_rank_stores(data):
    model = data.draw(models())
    sparse = any(isinstance(block.feed_forward, Experts) for block in model.kinds)
    tried = [Layout(tp=tp, etp=tp if sparse else 1) for tp in (1, 2, 3, 4, 6, 8, 12, 24)]
    kept = keeps_all(model, table(tried)).tolist()
    rows = table([layout for layout, keeps in zip(tried, kept, strict=True) if keeps])
    one = np.ones(len(rows), dtype=np.int64)
    ledger = serving_ledger(model, rows, sessions=one, tokens=20, workspace_bytes=0, capacity_bytes=10**9)
    assert (np.diff(ledger.parameters) <= 0).all()
    assert (np.diff(ledger.kv_cache) <= 0).all()


@settings(max_examples=40)
@given(data=st.data())
def test_kv_is_replicated_when_tp_exceeds_kv_heads(data):
    """Per rank it stays one head; all ranks together hold tp / kv_heads copies."""
    model = data.draw(models().filter(lambda item: len({block.mixer.kv_heads for block in item.kinds}) == 1))
    heads, kv_heads = model.kinds[0].mixer.heads, model.kinds[0].mixer.kv_heads
    tps = [tp for tp in range(1, heads + 1) if heads % tp == 0 and (tp % kv_heads == 0 or kv_heads % tp == 0)]
    one = np.ones(len(tps), dtype=np.int64)
    rows = table([Layout(tp=tp) for tp in tps])
    ledger = serving_ledger(model, rows, sessions=one, tokens=20, workspace_bytes=0, capacity_bytes=10**9)
    whole = int(ledger.kv_cache[0])
    assert ledger.kv_cache.tolist() == [whole // min(tp, kv_heads) for tp in tps]
