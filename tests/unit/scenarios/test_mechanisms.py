import itertools

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.model.reader import read_model
from meshwright.scenarios.catalog import KINDS, catalog
from meshwright.scenarios.collective import collective_time, crossover_bytes
from meshwright.scenarios.phases import decode_phase, expert_call, prefill_phase
from meshwright.scenarios.tensor_parallel import kv_placement, split_feed_forward, tp_scaling
from meshwright.system.system import read_system

QWEN3_32B = read_model("Qwen/Qwen3-32B")
BOX = read_system("hgx-h100")


def test_ring_and_tree_cost_the_same_at_the_crossover_and_swap_around_it():
    link = (8, 0.822e-6, 450e9)
    size = crossover_bytes("tree", "ring", *link)
    assert pytest.approx(size, rel=1e-3) == 680 * 1024
    near = [collective_time(name, link[0], round(size), *link[1:]).total_s for name in ("ring", "tree")]
    assert near[0] == pytest.approx(near[1], rel=1e-4)
    below, above = (
        [collective_time(name, link[0], round(size * factor), *link[1:]).total_s for name in ("ring", "tree")]
        for factor in (0.9, 1.1)
    )
    assert below[1] < below[0]
    assert above[0] < above[1]


def test_algorithms_refuse_rank_counts_and_orders_that_they_do_not_take():
    for call, code in (
        (lambda: collective_time("tree", 6, 1024, 1e-6, 1e9), "COL002"),
        (lambda: collective_time("ring", 0, 1024, 1e-6, 1e9), "COL002"),
        (lambda: collective_time("rings", 8, 1024, 1e-6, 1e9), "COL001"),
        (lambda: crossover_bytes("ring", "tree", 8, 1e-6, 1e9), "COL003"),
        (lambda: crossover_bytes("tree", "ring", 2, 1e-6, 1e9), "COL003"),
    ):
        with pytest.raises(MeshwrightError) as caught:
            call()
        assert caught.value.code == code


def test_kv_is_replicated_when_tp_exceeds_the_kv_heads():
    eight, sixteen = kv_placement(QWEN3_32B, 8, 131072), kv_placement(QWEN3_32B, 16, 131072)
    assert (eight.heads_per_rank, eight.copies_per_head) == (1, 1)
    assert (sixteen.heads_per_rank, sixteen.copies_per_head) == (1, 2)
    assert sixteen.rank_bytes == eight.rank_bytes
    assert sixteen.all_ranks_bytes == 2 * eight.all_ranks_bytes


def test_a_split_feed_forward_saves_what_the_other_ranks_hold():
    split = split_feed_forward(5120, 25600, 4, 3350e9)
    assert split.shard_bytes * 4 == split.whole_bytes
    assert split.saved_bytes == split.whole_bytes - split.shard_bytes


def test_each_doubling_of_tp_reports_its_saving_and_its_price():
    rows = tp_scaling(QWEN3_32B, BOX, 131064, (1, 2, 4, 8), "ring")
    assert rows[0].net_saving_s is None
    for before, row in itertools.pairwise(rows):
        assert row.net_saving_s == pytest.approx(before.step_s - row.step_s)
        assert row.net_saving_s == pytest.approx(row.local_saving_s - row.exchange_increase_s)


def test_decode_is_bound_by_memory_and_a_long_prompt_by_compute():
    assert decode_phase(QWEN3_32B, BOX, 8, 8192).bound == "memory"
    assert prefill_phase(QWEN3_32B, BOX, 8, 8192).bound == "compute"


def test_experts_of_many_rows_are_all_read():
    one, many = (expert_call(4096, 1536, 128, 8, rows, BOX) for rows in (1, 8192))
    assert one.distinct == 8.0
    assert many.distinct == pytest.approx(128)
    assert many.flops == 8192 * one.flops


@pytest.mark.parametrize("kind", KINDS)
def test_the_catalog_lists_every_kind_and_names_the_sources_of_its_facts(kind):
    items = catalog(kind).body["items"]
    assert items
    for item in items:
        keys = {source.key for source in item["sources"]}
        assert {fact.source for fact in item.get("facts", ())} - {None} <= keys


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(MeshwrightError) as caught:
        catalog("modles")
    assert caught.value.code == "IO034"
    assert "models" in caught.value.fix
