"""Work, exchanges, update and memory of training layers, by hand: rows of tokens, matrices, links and rounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.base.errors import SystemSpecError
from meshwright.cost.model_flops import model_flops, trained_flops
from meshwright.cost.pipelines import pipelines
from meshwright.cost.training import turns
from meshwright.cost.training_exchange import boundary_s, layer_exchange, state_exchange
from meshwright.cost.training_work import training_work
from meshwright.job.recipe import Recipe, read_recipe
from meshwright.job.train import TrainJob
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.feed_forwards import Dense
from meshwright.model.model import parameter_counts
from meshwright.model.reader import read_model
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios._training_table import training_table
from meshwright.scenarios.training import plan_train
from meshwright.system.system import read_system

DENSE, MIXTURE = read_model("Qwen/Qwen3-8B"), read_model("Qwen/Qwen3-30B-A3B")
BOXES = read_system("hgx-h100 x2")
CARDS = read_system("rtx4090-host x6")
SEQUENCE, BATCH, BYTES = 4096, 32, 2
PLAIN = TrainOptions(efficiency=0.5)


def rows_of(**fields):
    layout = Layout(**{"attention": "data_parallel", **fields})
    return replace(table([layout]), order=PIPELINE_OUTSIDE)


def step_of(model, system=BOXES, options=PLAIN, **fields):
    job = TrainJob(tokens=10**9, sequence=SEQUENCE, global_batch=BATCH)
    return training_table(model, system, job, options, rows_of(**fields))


def flops_of_all_ranks(model, **fields):
    """Of one step, over all ranks of all stages."""
    layout = Layout(**fields)
    return step_of(model, **fields).step.hardware_flops[0] * layout.world_size / layout.pp


def layers_of(model, system, nic="own", **fields):
    """Seconds of exchanges of one layer of the first kind, forward and backward, beside no attention."""
    rows = rows_of(**fields)
    work = training_work(model, system, rows, Recipe(), SEQUENCE, 1.0)
    alone = replace(work, attention_s=work.attention_s * 0.0)
    found = layer_exchange(model, system, rows, SEQUENCE, alone, nic)
    return found.forward_s[0, 0], found.backward_s[0, 0]


@pytest.mark.parametrize(
    "fields",
    [
        {"dp_replicate": 16},
        {"tp": 8, "dp_replicate": 2},
        {"tp": 4, "sp": True, "cp": 2, "pp": 2},
        {"cp": 8, "dp_shard": 2, "zero": 3},
        {"pp": 4, "dp_shard": 4, "zero": 1, "schedule": "interleaved", "virtual_stages": 3},
        {"pp": 2, "dp_replicate": 8, "schedule": "dualpipe_published", "micro_batch": 2},
    ],
)
def test_the_flops_of_all_ranks_are_those_of_the_model_however_it_is_laid_out(fields):
    expected = model_flops(DENSE, SEQUENCE) * BATCH
    assert flops_of_all_ranks(DENSE, **fields) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "fields",
    [
        {"dp_replicate": 16, "ep": 16},
        {"dp_shard": 8, "cp": 2, "zero": 2, "ep": 8},
        {"tp": 2, "sp": True, "dp_replicate": 8, "ep": 8, "etp": 2},
        {"tp": 4, "sp": True, "dp_replicate": 4, "ep": 4, "etp": 4},
        {"tp": 4, "sp": True, "pp": 4, "ep": 4},
    ],
)
def test_experts_are_visited_as_often_as_rows_choose_them_and_only_the_router_is_repeated_over_tp(fields):
    layer = MIXTURE.kinds[0].feed_forward
    router = 3 * 2 * MIXTURE.hidden * layer.experts * MIXTURE.layers * SEQUENCE
    expected = (model_flops(MIXTURE, SEQUENCE) + (fields.get("tp", 1) - 1) * router) * BATCH
    assert flops_of_all_ranks(MIXTURE, **fields) == pytest.approx(expected, rel=1e-12)


def test_full_recompute_runs_every_forward_but_the_heads_again():
    head = 2 * DENSE.hidden * DENSE.vocab * SEQUENCE
    forward = model_flops(DENSE, SEQUENCE) / 3
    expected = (4 * forward - head) * BATCH
    assert flops_of_all_ranks(DENSE, dp_replicate=16, recompute="full") == pytest.approx(expected, rel=1e-12)


def test_a_backward_multiplies_by_every_matrix_twice_and_scores_twice():
    work = training_work(DENSE, BOXES, rows_of(), Recipe(), SEQUENCE, 0.5)
    both = work.input_s + work.weight_s
    assert both == pytest.approx(2 * work.forward_s)
    assert work.weight_s == pytest.approx(work.forward_s - work.attention_s)
    rate = 0.5 * BOXES.accelerator.peak["bf16"]
    pairs = SEQUENCE * (SEQUENCE + 1) // 2
    assert work.attention_s[0, 0] == pytest.approx(4 * pairs * 32 * 128 / rate)


@pytest.mark.parametrize(("sp", "recompute"), [(True, "none"), (True, "full"), (False, "none")])
def test_a_layer_sums_twice_a_pass_over_tp(sp, recompute):
    near = BOXES.scale_up
    sent = SEQUENCE * DENSE.hidden * BYTES
    ring = 2 * 7 * (near.latency + sent / 8 / near.bandwidth)
    forward, backward = layers_of(DENSE, BOXES, tp=8, sp=sp, dp_replicate=2, recompute=recompute)
    if sp:
        assert forward == pytest.approx(2 * ring)
        assert backward == pytest.approx((4 if recompute == "full" else 2) * ring)
    else:
        assert forward == backward
        assert forward <= 2 * ring * (1 + 1e-12), "the fastest all_reduce is at least as fast as a ring"


def test_keys_and_values_go_round_cp_once_and_in_the_backward_with_their_gradients():
    near = BOXES.scale_up
    sent = SEQUENCE / 4 * 2 * 8 * 128 * BYTES
    once = 3 * (near.latency + sent / near.bandwidth)
    assert layers_of(DENSE, BOXES, cp=4, dp_replicate=4) == (pytest.approx(once), pytest.approx(2 * once))


def test_attention_hides_the_ring_of_cp():
    rows = rows_of(cp=4, dp_replicate=4)
    work = training_work(DENSE, BOXES, rows, Recipe(), SEQUENCE, 1e-3)
    found = layer_exchange(DENSE, BOXES, rows, SEQUENCE, work, "own")
    assert (found.forward_s[0, 0], found.backward_s[0, 0]) == (0.0, 0.0)


@pytest.mark.parametrize(("nic", "share"), [("own", 1.0), ("shared", 1 / 8)])
def test_rows_for_experts_in_the_other_box_go_over_the_nic_and_the_rest_over_the_link(nic, share):
    sent = SEQUENCE * 8 * MIXTURE.hidden * BYTES
    link, card = BOXES.scale_up, BOXES.scale_out
    inside = 7 * (link.latency + sent / 16 / link.bandwidth)
    once = inside + 8 * (card.latency + sent / 16 / (card.bandwidth * share))  # box by box, one after the other
    found = layers_of(MIXTURE, BOXES, nic, dp_replicate=16, ep=16)
    assert found == (pytest.approx(2 * once), pytest.approx(2 * once))


@pytest.mark.parametrize(("nic", "rate"), [("own", 32e9), ("shared", 25e9)])
def test_a_ring_over_boxes_takes_their_cards_links_or_the_nic_that_they_share(nic, rate):
    free = replace(
        CARDS, scale_up=replace(CARDS.scale_up, latency=0.0), scale_out=replace(CARDS.scale_out, latency=0.0)
    )
    found = state_exchange(DENSE, free, rows_of(dp_shard=48, zero=3), Recipe(), nic)
    seconds = found.gather_s[0] @ np.array([*DENSE.kind_counts, 1, 1])
    assert seconds == pytest.approx(2 * parameter_counts(DENSE)["total"] * 47 / 48 / rate)


@pytest.mark.parametrize(
    ("zero", "each_pass", "each_backward", "once", "last"),
    [(0, 0, 0, 0, 3 + 3 + 7), (1, 0, 0, 5, 3 + 7), (2, 0, 3, 5, 7), (3, 2, 3, 0, 7)],
)
def test_the_channel_carries_what_the_zero_stage_says(zero, each_pass, each_backward, once, last):
    """Gather 2 s, refresh 5 s, reduce 3 s (an all_reduce is two of them), between copies 7 s."""
    found = turns(np.array([zero]), np.array([2.0]), np.array([5.0]), np.array([3.0]), np.array([7.0]))
    assert (found.gather_each[0], found.reduce_each[0], found.gather_once[0], found.reduce_last[0]) == (
        each_pass,
        each_backward,
        once,
        last,
    )


@pytest.mark.parametrize(("sp", "parts"), [(True, 4), (False, 1)])
def test_a_boundary_passes_every_row_whole_or_a_part_of_it_under_sp(sp, parts):
    rows = rows_of(tp=4, sp=sp, pp=4)
    link, card = BOXES.scale_up, BOXES.scale_out
    sent = SEQUENCE * DENSE.hidden * BYTES / parts
    near, far = link.latency + sent / link.bandwidth, card.latency + sent / card.bandwidth
    once = (2 * near + far) / 3  # stages 0 and 1 share a box, 2 and 3 the other
    assert boundary_s(DENSE, BOXES, rows, SEQUENCE, "own")[0] == pytest.approx(once)
    assert step_of(DENSE, tp=4, sp=sp, pp=4).step.boundary_s[0] == pytest.approx(2 * 3 * once)


def test_an_update_reads_and_writes_what_the_optimizer_owns_and_touches_gradients_and_weights_once():
    kind = replace(PLAIN, efficiency_kind="compute")
    found = step_of(DENSE, read_system("hgx-h100"), kind, tp=1).step.update_s[0]
    moved = (2 * 12 + 2 + 2) * parameter_counts(DENSE)["total"]
    assert found == pytest.approx(moved / BOXES.accelerator.memory_bandwidth)
    assert step_of(DENSE, read_system("hgx-h100"), PLAIN, tp=1).step.update_s[0] == 0, "model FLOPs hold it"


def test_with_prefetch_an_end_is_whole_between_two_layers_and_a_gradient_is_reduced_beside_the_next():
    layer = BYTES * 192_946_432
    on, off = (
        step_of(DENSE, options=replace(PLAIN, prefetch=word), dp_shard=16, zero=3).ledger.gathered[0]
        for word in ("on", "off")
    )
    end = BYTES * DENSE.vocab * DENSE.hidden
    assert off == pytest.approx(end + end, rel=1e-4), "without: the weights and the gradient of the module in use"
    assert on == pytest.approx(end + 2 * layer + end + layer, rel=1e-4)


@pytest.mark.parametrize(("schedule", "first", "last"), [("fill_drain", 96, 96), ("one_f_one_b", 4, 1)])
def test_sets_of_a_long_step_are_all_its_micro_batches_or_as_many_as_ranks_follow(schedule, first, last):
    found = pipelines(DENSE, rows_of(pp=4, schedule=schedule), np.array([96]))
    places = {int(number): place for place, number in enumerate(found.number[0]) if found.ranks[0, place]}
    assert found.sets[0, places[0]] == first
    assert found.last_sets[0].max() == last


def test_gpu_hours_are_those_of_the_run_without_and_with_planned_stops():
    job = TrainJob(tokens=10**9, sequence=SEQUENCE, global_batch=BATCH, reserve=86400.0)
    options = TrainOptions(efficiency=0.5, job_mtbf=1e5, storage_write=1e9, flips="none", runs=0, finalists=0, keep=1)
    found = plan_train(DENSE, BOXES, job, options).candidates[0].measures
    assert found["overhead_fraction"] > 0
    assert found["gpu_hours"] == pytest.approx((found["finish_s"] - 86400) * 16 / 3600)
    assert found["gpu_hours_with_stops"] == pytest.approx(found["finish_s"] * 16 / 3600)


@pytest.mark.parametrize(("recipe", "width"), [("bf16-adamw", 2), ("fp8-adamw", 2), ("fp32-adamw", 4)])
def test_rows_are_as_wide_as_the_recipe_computes_whatever_format_the_config_was_released_in(recipe, width):
    """Gemma 2 was released in float32: between stages a row of 3584 numbers is still two bytes each under bf16."""
    job = TrainJob(tokens=10**9, sequence=SEQUENCE, global_batch=BATCH, recipe=read_recipe(recipe))
    rows = rows_of(dp_replicate=8, pp=2, recompute="full", schedule="one_f_one_b")
    for name in ("google/gemma-2-9b", "Qwen/Qwen3-8B"):
        model = read_model(name)
        found = training_table(model, BOXES, job, replace(PLAIN, loss="fused"), rows)
        sent = SEQUENCE * model.hidden * width
        assert found.step.boundary_s[0] == pytest.approx(2 * (BOXES.nic_latency + sent / BOXES.scale_out.bandwidth))
        kept = 2 * model.layers // 2 * sent
        assert found.ledger.activations[0] == kept, "inputs of the first stage's blocks, of two micro-batches"


def test_beside_adapters_a_matrix_has_two_passes_and_scores_and_adapters_three():
    """Qwen3-8B with rank 16 on all seven matrices of a layer, by hand."""
    recipe = read_recipe("bf16-lora")
    job = TrainJob(tokens=10**9, sequence=SEQUENCE, global_batch=BATCH, recipe=recipe)
    matrices = 36 * 192_937_984 + 4096 * 151_936
    adapters = 36 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 12_288))
    scores = 36 * 4 * 4096 * SEQUENCE * (SEQUENCE + 1) // 2
    flops = SEQUENCE * (4 * matrices + 6 * adapters) + 3 * scores
    assert trained_flops(DENSE, recipe, SEQUENCE) == pytest.approx(flops, rel=1e-12)
    assert trained_flops(DENSE, Recipe(), SEQUENCE) == model_flops(DENSE, SEQUENCE)
    found = training_table(DENSE, BOXES, job, PLAIN, rows_of(dp_replicate=16)).step
    assert found.hardware_flops[0] * 16 == pytest.approx(flops * BATCH, rel=1e-12)
    assert found.compute_s[0] == pytest.approx(flops * BATCH / 16 / (0.5 * BOXES.accelerator.peak["bf16"]), rel=1e-12)


def test_without_an_efficiency_only_matrices_with_a_copy_in_fp8_run_at_its_rate():
    peak = BOXES.accelerator.peak
    fp8, bf16 = (
        training_work(DENSE, BOXES, rows_of(), read_recipe(name), 65_536, None) for name in ("fp8-adamw", "bf16-adamw")
    )
    assert fp8.attention_s[0, 0] == bf16.attention_s[0, 0] > 0
    assert fp8.forward_s[0, -1] == bf16.forward_s[0, -1] > 0, "the head"
    assert fp8.weight_s[0, 0] == pytest.approx(bf16.weight_s[0, 0] * peak["bf16"] / peak["fp8"])


def test_operands_in_float32_have_no_narrower_rate():
    with pytest.raises(SystemSpecError) as caught:
        training_work(DENSE, read_system("hgx-b200"), rows_of(), read_recipe("fp32-adamw"), SEQUENCE, None)
    assert caught.value.code == "SYS005"


@pytest.mark.parametrize(("recompute", "times"), [("none", 2), ("attention", 3), ("full", 3), ("selective", 2)])
def test_attention_that_runs_again_sends_keys_and_values_round_again(recompute, times):
    rows = rows_of(cp=4, dp_replicate=4, recompute=recompute)
    work = training_work(DENSE, BOXES, rows, Recipe(), SEQUENCE, 1.0)
    alone = replace(work, attention_s=work.attention_s * 0.0)
    found = layer_exchange(DENSE, BOXES, rows, SEQUENCE, alone, "own")
    assert found.backward_s[0, 0] == pytest.approx(times * found.forward_s[0, 0])


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_an_update_moves_what_its_rank_owns_also_where_gradients_and_weights_stay_whole(zero):
    kind = replace(PLAIN, efficiency_kind="compute")
    found = step_of(DENSE, options=kind, dp_shard=16, zero=zero).step.update_s[0]
    moved = (2 * 12 + 2 + 2) * parameter_counts(DENSE)["total"] / 16
    assert found == pytest.approx(moved / BOXES.accelerator.memory_bandwidth, rel=1e-6)


@pytest.mark.parametrize(("recipe", "moved"), [("fp32-adamw", 2 * 8 + 4 + 2 * 4), ("fp8-adamw-bf16-moments", None)])
def test_parameters_that_are_their_own_master_are_read_and_written(recipe, moved):
    if moved is None:  # master 4, moments 2 + 2, gradients 4, and a byte with its scale a matrix, 2 bytes at the ends
        moved = 2 * 8 + 4
        written = 36 * 192_937_984 * (1 + 4 / 128**2) + 2 * (2 * 151_936 * 4096 + 36 * (2 * 4096 + 2 * 128) + 4096)
    else:
        written = 0
    job = TrainJob(tokens=10**9, sequence=SEQUENCE, global_batch=BATCH, recipe=read_recipe(recipe))
    kind = replace(PLAIN, efficiency_kind="compute")
    found = training_table(DENSE, BOXES, job, kind, rows_of(dp_replicate=16)).step.update_s[0]
    expected = moved * parameter_counts(DENSE)["total"] + written
    assert found == pytest.approx(expected / BOXES.accelerator.memory_bandwidth, rel=1e-6)


def test_an_update_of_adapters_leaves_the_base_alone():
    job = TrainJob(tokens=10**9, sequence=SEQUENCE, global_batch=BATCH, recipe=read_recipe("bf16-lora"))
    kind = replace(PLAIN, efficiency_kind="compute")
    found = training_table(DENSE, BOXES, job, kind, rows_of(dp_replicate=16)).step.update_s[0]
    adapters = 36 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 12_288))
    assert found == pytest.approx((2 * 12 + 2 + 2) * adapters / BOXES.accelerator.memory_bandwidth)


@pytest.mark.parametrize(
    ("fields", "rings"),
    [
        ({"sp": True, "ep": 16}, 2),  # rows of a rank's own go to the experts and come back
        ({"sp": True, "ep": 4}, 2),
        ({"sp": False, "ep": 16}, 3),  # each rank of tp sends a quarter of the rows, and gathers the others
    ],
)
def test_rows_that_a_rank_routes_itself_are_not_summed_over_tp_again(fields, rings):
    """Qwen3-30B-A3B at tp 4 on one link: two rings for the mixer, as under sp, and what the experts' rows leave."""
    link = BOXES.scale_up
    whole = replace(read_system("hgx-h100"), nodes=1, devices_per_node=16)
    sent = SEQUENCE * MIXTURE.hidden * BYTES
    ring = 3 * (link.latency + sent / 4 / link.bandwidth)
    ranks = fields["ep"]
    routed = sent / 4 * 8 * (ranks - 1) / ranks / link.bandwidth + (ranks - 1) * link.latency
    rows = {"tp": 4, "dp_replicate": 4, **fields}
    forward, backward = layers_of(MIXTURE, replace(whole, scale_out=None), **rows)
    mixer = layers_of(DENSE, replace(whole, scale_out=None), tp=4, dp_replicate=4, sp=fields["sp"])[0] / 2
    mixer = mixer * MIXTURE.hidden / DENSE.hidden if not fields["sp"] else 2 * ring
    assert forward == pytest.approx(mixer + (rings - 2) * ring + 2 * routed, rel=0.01)
    assert forward == backward


def test_a_shared_expert_is_summed_over_tp_as_a_dense_layer():
    layer = MIXTURE.kinds[0].feed_forward
    shared = replace(layer, shared=Dense(intermediate=768, gated=True))
    block = replace(MIXTURE.kinds[0], feed_forward=shared)
    group = replace(MIXTURE.groups[0], block=block)
    model = replace(MIXTURE, groups=(group,))
    fields = {"tp": 4, "dp_replicate": 4, "sp": True, "ep": 16}
    plain, both = layers_of(MIXTURE, BOXES, **fields)[0], layers_of(model, BOXES, **fields)[0]
    sent = SEQUENCE * MIXTURE.hidden * BYTES
    rings = 2 * 3 * (BOXES.scale_up.latency + sent / 4 / BOXES.scale_up.bandwidth)
    assert both - plain == pytest.approx(rings)
