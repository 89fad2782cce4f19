"""Laws of offloading within a plan: what leaves a device is on its host, nothing is sooner, none is missed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright import read_model, read_system
from meshwright.base.errors import UserError
from meshwright.cost.offload import cast_on_device_s, cast_on_host_s, transfer_wait_s
from meshwright.cost.training_activations import activation_columns
from meshwright.cost.training_offload import NONE, OFFLOADS, GradientCast, HostPath, gradient_cast
from meshwright.job.recipe import RECIPES, Recipe, read_recipe
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.scenarios._training_host import with_host
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios._training_search import grades, search_training
from meshwright.scenarios._training_space import chunks, training_space
from meshwright.scenarios._training_table import training_table
from meshwright.scenarios.training import plan_train

SYSTEM = read_system("rtx4090-host")
JOB = TrainJob(tokens=10**9, sequence=1024, global_batch=16)
LAYOUTS = (
    Layout(dp_shard=8, zero=3, micro_batch=2, attention="data_parallel"),
    Layout(dp_shard=8, zero=1, attention="data_parallel"),
    Layout(dp_shard=4, zero=2, dp_replicate=2, recompute="full", attention="data_parallel"),
    Layout(tp=2, sp=True, pp=2, schedule="one_f_one_b", dp_replicate=2, attention="data_parallel"),
    Layout(tp=4, pp=2, schedule="fill_drain", recompute="selective", attention="data_parallel"),
)
PARTS = OFFLOADS[1:]
RATES = st.floats(1e9, 1e12)


def offloading(offload, options=None, *, recipe=None, model="tiny-qwen3", layouts=LAYOUTS):
    options = options or TrainOptions()
    rows = table([replace(layout, offload=offload) for layout in layouts])
    on = with_host(SYSTEM, options)
    return training_table(read_model(model), on, replace(JOB, recipe=recipe or Recipe()), options, rows)


@pytest.mark.parametrize("offload", PARTS)
@pytest.mark.parametrize("recipe", RECIPES.names())
@pytest.mark.parametrize("model", ["tiny-qwen3", "tiny-qwen3-moe"])
def test_offloading_frees_bytes_of_a_device_and_adds_time(offload, recipe, model):
    recipe = read_recipe(recipe)
    here, there = offloading(NONE, recipe=recipe, model=model), offloading(offload, recipe=recipe, model=model)
    assert (there.ledger.total <= here.ledger.total).all()
    assert (there.step_s >= here.step_s).all()
    assert (there.offload_wait_s >= 0).all()
    assert (there.host_bytes >= here.ledger.total - there.ledger.total).all(), "what has left is on the host"
    assert (here.host_bytes == 0).all()
    assert (here.offload_wait_s == 0).all()


@pytest.mark.parametrize("offload", PARTS)
@given(link=RATES, host=RATES, efficiency=st.sampled_from([None, 0.05, 0.4, 0.9]))
@settings(max_examples=15, deadline=None)
def test_no_rates_make_an_offloaded_step_sooner_and_faster_ones_never_later(offload, link, host, efficiency):
    rates = TrainOptions(host_link=link, host_bandwidth=host, efficiency=efficiency, efficiency_kind="compute")
    slow, here = offloading(offload, rates), offloading(NONE, rates)
    slack = 1 + 1e-12
    assert (slow.step_s >= here.step_s).all()
    faster = offloading(offload, replace(rates, host_bandwidth=2 * host))
    assert (faster.offload_wait_s <= slow.offload_wait_s * slack + 1e-12).all()
    if "optimizer" not in offload:  # a faster link may move the cast of gradients to the other end
        faster = offloading(offload, replace(rates, host_link=2 * link))
        assert (faster.offload_wait_s <= slow.offload_wait_s * slack + 1e-12).all()


@pytest.mark.parametrize("offload", PARTS)
def test_behind_a_long_computation_little_or_nothing_is_waited_for(offload):
    """Activations hide whole; of state the first fetch, or the last update, has nothing to hide behind."""
    long = TrainOptions(efficiency=1e-7, efficiency_kind="compute")
    found = offloading(offload, long)
    state = offload.replace("+activations", "")
    assert (found.offload_wait_s == (0.0 if offload == "activations" else offloading(state, long).offload_wait_s)).all()
    assert (found.offload_wait_s < 1e-3 * found.step_s).all()


def test_each_part_leaves_the_ledger_under_its_own_name():
    """Of layouts without stages, where the fullest rank is the same one."""
    here, state, weights, kept = (
        offloading(what, layouts=LAYOUTS[:3]) for what in (NONE, "optimizer", "parameters", "activations")
    )
    assert (state.ledger.optimizer_state < here.ledger.optimizer_state).all()
    assert (state.ledger.parameters == here.ledger.parameters).all()
    assert (state.ledger.gradients == here.ledger.gradients).all(), "gradients stay where they are added up"
    assert (weights.ledger.optimizer_state == here.ledger.optimizer_state).all()
    assert (kept.ledger.resident == here.ledger.resident).all()
    assert (kept.ledger.activations <= here.ledger.activations).all()
    assert (kept.ledger.activations < here.ledger.activations).any()


def test_of_many_layers_two_modules_stay_of_parameters_and_two_layers_of_activations():
    """Qwen3-8B, 36 layers on each of eight ranks: under zero 3 an eighth of the head with its norm, twice."""
    model, layouts = read_model("Qwen/Qwen3-8B"), (Layout(dp_shard=8, zero=3, attention="data_parallel"),)
    here, weights, kept = (
        offloading(what, model=model.name, layouts=layouts) for what in (NONE, "parameters", "activations")
    )
    assert weights.ledger.parameters[0] == 2 * 2 * (622_329_856 + 4096) // 8
    layer = activation_columns(model, table(list(layouts)), sequence=JOB.sequence)
    left = here.ledger.activations[0] - kept.ledger.activations[0]
    assert left == 34 * layer.saved[0, 0] + layer.embedding[0]
    assert kept.host_bytes[0] == 36 * layer.saved[0, 0] + layer.embedding[0]


@pytest.mark.parametrize("offload", PARTS)
def test_a_column_is_its_rows(offload):
    together = offloading(offload)
    for place, layout in enumerate(LAYOUTS):
        alone = offloading(offload, layouts=(layout,))
        for name in ("step_s", "offload_wait_s", "host_bytes"):
            assert getattr(alone, name)[0] == getattr(together, name)[place], name
        assert alone.ledger.total[0] == together.ledger.total[place]


@given(link=RATES, host=RATES, device=RATES)
def test_gradients_are_cast_on_the_end_that_is_sooner(link, host, device):
    path = HostPath(link_bytes_per_s=link, host_bytes_per_s=host, device_bytes_per_s=device, shared=False)
    found = gradient_cast(Recipe(), path)
    ends = cast_on_host_s(2.0, 4.0, link, host), cast_on_device_s(2.0, 4.0, link, device)
    assert found.on_device == (ends[1] < ends[0])
    assert found.sent(100) == (200 if found.on_device else 100)


@pytest.mark.parametrize("changes", [{"gradients": "fp32"}, {"master": "none"}])
def test_gradients_that_are_read_as_they_are_need_no_cast(changes):
    path = HostPath(link_bytes_per_s=1e12, host_bytes_per_s=1e9, device_bytes_per_s=1e12, shared=False)
    found = gradient_cast(replace(Recipe(), **changes), path)
    assert found == GradientCast(narrow=found.narrow, wide=found.narrow, on_device=False)


def test_updated_parameters_alone_go_down_behind_no_computation():
    long = TrainOptions(efficiency=1e-7, efficiency_kind="compute")
    alone = offloading("parameters", long, layouts=LAYOUTS[:1]).offload_wait_s[0]
    shard = offloading(NONE).ledger.parameters[0]
    assert alone > transfer_wait_s(float(shard), SYSTEM.host.link_bandwidth, 0.0)


def test_a_host_that_lacks_a_byte_for_each_device_leaves_the_layout_out():
    asked = {"offload": "optimizer", "dp_shard": 8, "zero": 3, "micro_batch": 1}
    model = read_model("tiny-qwen3")
    free = plan_train(model, SYSTEM, JOB, TrainOptions(layout=asked, runs=0))
    need = free.best.memory["host_bytes"]
    assert free.notes[-1].startswith("host memory of")
    enough = plan_train(model, SYSTEM, JOB, TrainOptions(layout=asked, host_memory=8 * need, runs=0))
    assert enough.verdict.answer == "yes"
    assert not any("host memory" in note for note in enough.notes)
    short = plan_train(model, SYSTEM, JOB, TrainOptions(layout=asked, host_memory=8 * need - 1, runs=0))
    assert short.verdict.answer == "no"
    assert {item.excluded.code for item in short.candidates if item.memory["host_bytes"] >= need} == {"LAY034"}
    assert "on its host" in short.verdict.text


def test_an_unknown_host_offloads_nothing_unless_its_rates_are_given():
    model, system = read_model("tiny-qwen3"), read_system("hgx-h20")
    found = plan_train(model, system, JOB, TrainOptions(usable_memory=2**31 + 2**20, runs=0))
    assert {item.layout["offload"] for item in found.candidates} == {NONE}
    assert "offload is not searched" in found.notes[-1]
    with pytest.raises(UserError, match="JOB024"):
        plan_train(model, system, JOB, TrainOptions(layout={"offload": "optimizer"}))
    known = TrainOptions(layout={"offload": "optimizer"}, host_link=64e9, host_bandwidth=6e11, runs=0)
    assert plan_train(model, system, JOB, known).best.layout["offload"] == "optimizer"
    with pytest.raises(UserError, match="LAY035"):
        plan_train(model, SYSTEM, JOB, TrainOptions(layout={"offload": "nvme"}))


@pytest.mark.parametrize("spare", [2**23, 2**24, 2**25, 2**26, 2**28])
def test_the_best_with_offloads_is_the_best_of_all_offloads(spare):
    """Against every layout under every offload, by grade, finish, no offload, no recompute and id."""
    model, fixed = read_model("tiny-qwen3"), {"cp": 1, "micro_batch": 4, "pp": 1}
    options = TrainOptions(usable_memory=2**31 + spare, layout=fixed, keep=1, host_memory=2**36)
    system = with_host(SYSTEM, options)
    found, seen = search_training(
        model, system, JOB, options, training_space(model, system, JOB, fixed, options.context)
    )
    rows = []
    for offload in OFFLOADS:
        space = training_space(model, system, JOB, {**fixed, "offload": offload}, options.context)
        for layouts in chunks(space, model):
            one = training_table(model, system, JOB, options, layouts)
            none = np.zeros(len(one), dtype=np.bool_)
            rows += [
                (grade, finish, layout.offload != NONE, layout.recompute != NONE, layout.id)
                for grade, finish, layout in zip(grades(one, none), one.finish_s, layouts.rows(), strict=True)
                if grade < 2
            ]
    if not rows:
        assert not found.fits.any()
        return
    best = min(rows, key=lambda row: row[1])
    near = [row for row in rows if row[1] <= best[1] * (1 + 1e-12)]
    assert found.layouts.row(0).id == min(near, key=lambda row: row[2:])[-1]
    assert seen.fitting > 0


def test_offloaded_finalists_stand_by_their_estimate_and_the_others_are_simulated():
    """Qwen3-32B on eight cards of 24 GB, whose state alone is 65 GB a card."""
    options = TrainOptions(layout={"cp": 1, "micro_batch": 1, "pp": 1}, host_memory=2**40, runs=0)
    result = plan_train(read_model("Qwen/Qwen3-32B"), SYSTEM, JOB, options)
    found = result.candidates
    assert result.best is found[0]
    offloads = [item for item in found if item.layout["offload"] != NONE]
    assert offloads
    assert all(item.measures["simulated"] is None for item in offloads)
    keys = [(not item.fits, item.excluded is not None, item.measures["finish_s"]) for item in offloads]
    assert keys == sorted(keys)


def test_of_a_base_that_adapters_freeze_nothing_comes_back_from_the_optimizers_host():
    """State of 12 bytes, gradients of 2 and as they are cast of 4, and 2 of the parameter: of adapters alone."""
    model, recipe = read_model("Qwen/Qwen3-8B"), read_recipe("bf16-lora")
    adapters = 36 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 12_288))
    layouts = (Layout(dp_replicate=8, attention="data_parallel"), Layout(dp_shard=8, zero=1, attention="data_parallel"))
    whole, shard = offloading("optimizer", recipe=recipe, model=model.name, layouts=layouts).host_bytes
    assert 18 * adapters <= whole <= 20 * adapters
    assert shard == pytest.approx(whole / 8, rel=1e-6)
