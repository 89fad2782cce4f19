"""Under LoRA the base is frozen: its matrices are multiplied forward and for the gradient of their inputs, no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.cost.model_flops import PASSES, forward_flops
from meshwright.job.recipe import read_recipe
from meshwright.job.train import TrainJob
from meshwright.model.model import block_weights
from meshwright.model.reader import read_model
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.training import plan_train
from meshwright.system.system import read_system
from meshwright.workload.operators import operators

MODEL, SYSTEM = read_model("Qwen/Qwen3-8B"), read_system("hgx-h100")
JOB = TrainJob(tokens=10**9, sequence=4096, global_batch=64)
FIXED = {"tp": 1, "pp": 1, "cp": 1, "zero": 3, "dp_replicate": 1, "micro_batch": 1, "recompute": "none"}


def best_of(recipe, **changes):
    options = TrainOptions(layout={**FIXED, **changes}, flips="none", runs=0, efficiency=1.0)
    return plan_train(MODEL, SYSTEM, replace(JOB, recipe=read_recipe(recipe)), options).best.measures


def test_a_step_leaves_out_one_of_the_three_products_with_every_matrix_and_has_three_with_adapters():
    rows = 1.0 * JOB.sequence
    products = sum(forward_flops(item, rows) * item.count for item in operators(MODEL) if item.weights)
    recipe = read_recipe("bf16-lora")
    sizes = [
        item.shape
        for item in block_weights(MODEL, 0)
        if any(item.name.endswith(f"{target}.weight") for target in recipe.lora_targets)
    ]
    added = sum(2 * rows * recipe.lora_rank * (out + inner) for out, inner in sizes) * MODEL.layers * PASSES
    spared_s = (products - added) * JOB.global_batch / (SYSTEM.devices * SYSTEM.accelerator.peak["bf16"])
    whole, frozen = best_of("bf16-adamw"), best_of("bf16-lora")
    assert whole["step"]["compute_s"] - frozen["step"]["compute_s"] == pytest.approx(spared_s, rel=1e-9)


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_utilisation_counts_the_flops_that_are_needed(recompute):
    measures = best_of("bf16-lora", recompute=recompute)
    step = measures["step"]
    assert measures["mfu"] == pytest.approx(step["compute_s"] / step["total_s"], rel=1e-9)
    assert (measures["hfu"] > measures["mfu"] * 1.01) == (recompute == "full")


def test_the_simulated_step_computes_as_long():
    measures = best_of("bf16-lora")
    assert measures["simulated"]["compute_s"] == pytest.approx(measures["step"]["compute_s"], rel=1e-9)
