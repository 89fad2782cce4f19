"""One process of ours is transformers on the same weights: logits, three updates, and files in both directions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

from meshwright.base.errors import ModelError, RunError
from meshwright.base.parse import read_toml
from meshwright.layout.layout import Layout
from meshwright.model.arithmetic import arithmetic_of
from meshwright.model.reader import CATALOG, read_arithmetic, read_config, read_model
from meshwright.runtime.loop.samples import SyntheticTokens
from meshwright.runtime.loop.trainer import Batch, Recipe, trainer_of
from meshwright.runtime.parallel.shards import Precision
from meshwright.runtime.parallel.vocabulary import NO_LABEL
from meshwright.runtime.state.safetensors import INDEX, SINGLE, create, read_entries, stored_values, write_part
from meshwright.runtime.state.weights import made_up, shapes_of
from meshwright.runtime.world import join
from meshwright.workload.slots import Shape, checked_shape

DOUBLE = Precision(compute=torch.float64, kept=torch.float64, reduced=torch.float64)
CPU = torch.device("cpu")
BATCH = Batch(global_batch=4, sequence=24)
TIGHT = {"rtol": 1e-10, "atol": 1e-10}
STRETCHED = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def config_of(name):
    return read_toml(CATALOG.text(name), name)["config"]


def double_norm(module):
    """transformers takes the mean square in float32 whatever the weights are in; torch's own norm stays in float64."""
    for name, child in module.named_children():
        if type(child).__name__.endswith("RMSNorm"):
            norm = torch.nn.RMSNorm(child.weight.shape, eps=child.variance_epsilon, dtype=torch.float64)
            norm.weight = child.weight
            setattr(module, name, norm)
        else:
            double_norm(child)


def theirs(config, values, shapes):
    kind = AutoConfig.for_model(config["model_type"], **{k: v for k, v in config.items() if k != "model_type"})
    model = AutoModelForCausalLM.from_config(kind, dtype=torch.float64, attn_implementation="sdpa")
    double_norm(model)
    state = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in state.items():
            parameter.copy_(values(name, tuple(range(size) for size in shapes[name])))
    return model


def ours(model, arithmetic, values, recipe=None, batch=BATCH):
    shape = Shape(stages=1, micro_batches=batch.global_batch)
    slots = checked_shape("one_f_one_b", shape).slots(shape)
    world = join(Layout(attention="data_parallel"), 0, CPU)
    return trainer_of(model, arithmetic, world, slots, batch, recipe or Recipe(precision=DOUBLE), values)


def cases():
    for name in ("tiny-qwen3", "tiny-llama", "tiny-qwen2"):
        yield pytest.param(config_of(name), id=name)
    yield pytest.param({**config_of("tiny-llama"), "rope_parameters": STRETCHED}, id="llama3 rotation")
    stretched = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
    yield pytest.param({**config_of("tiny-qwen3"), "rope_parameters": stretched}, id="linear rotation")


@pytest.mark.parametrize("config", list(cases()))
def test_logits_are_those_of_transformers(config):
    model, values = read_config(config, "tiny"), made_up(read_config(config, "tiny"), 3)
    stage = ours(model, arithmetic_of(config), values).stages[0, 0]
    tokens = torch.randint(model.vocab, (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(stage(tokens), theirs(config, values, shapes_of(model))(tokens).logits, **TIGHT)


@pytest.mark.parametrize("name", ["tiny-qwen3", "tiny-llama"])
def test_three_updates_are_those_of_transformers_and_torch(name):
    model, values = read_model(name), made_up(read_model(name), 5)
    recipe = Recipe(precision=DOUBLE, clip=0.5)
    trainer = ours(model, read_arithmetic(name), values, recipe)
    other = theirs(config_of(name), values, shapes_of(model))
    optimizer = torch.optim.AdamW(
        other.parameters(), lr=recipe.rate, betas=recipe.betas, eps=recipe.epsilon, weight_decay=recipe.decay
    )
    samples = SyntheticTokens(seed=5, vocab=model.vocab, sequence=BATCH.sequence, ragged=True)
    for step in range(3):
        report = trainer.step(step, samples.sample)
        pairs = [samples.sample(step * BATCH.global_batch + place) for place in range(BATCH.global_batch)]
        tokens, labels = (torch.stack(column) for column in zip(*pairs, strict=True))
        logits = other(tokens).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=NO_LABEL)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(other.parameters(), recipe.clip)
        optimizer.step()
        assert (report.loss, report.norm) == pytest.approx((loss.item(), norm.item()), rel=1e-9)
        assert report.norm > recipe.clip, "the case clips"
    found = dict(trainer.parameters)
    for key, parameter in other.named_parameters():
        torch.testing.assert_close(found[key], parameter, **TIGHT)


@pytest.mark.parametrize("name", ["tiny-qwen3", "tiny-llama"])
def test_weights_that_transformers_saved_are_read_by_slices(name, tmp_path):
    model = read_model(name)
    other = theirs(config_of(name), made_up(model, 7), shapes_of(model)).float()
    other.save_pretrained(tmp_path)
    stored = stored_values(tmp_path, shapes_of(model), tied=model.tied)
    state = dict(other.named_parameters(remove_duplicate=False))
    for key, shape in shapes_of(model).items():
        cut = tuple(range(size // 3, size) for size in shape)
        part = state[key][tuple(slice(item.start, item.stop) for item in cut)]
        assert torch.equal(stored(key, cut), part), key


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_weights_that_ranks_wrote_are_read_by_transformers(dtype, tmp_path):
    model, config = read_model("tiny-qwen3"), config_of("tiny-qwen3")
    values, shapes = made_up(model, 9), shapes_of(model)
    AutoConfig.for_model("qwen3", **{k: v for k, v in config.items() if k != "model_type"}).save_pretrained(tmp_path)
    entries = create(tmp_path / SINGLE, shapes, dtype)
    for key, shape in shapes.items():
        half = shape[0] // 2
        for first in (range(half), range(half, shape[0])):
            part = (first, *(range(size) for size in shape[1:]))
            write_part(entries[key], part, values(key, part))
    loaded = transformers.Qwen3ForCausalLM.from_pretrained(tmp_path, dtype=dtype)
    for key, parameter in loaded.named_parameters():
        whole = values(key, tuple(range(size) for size in shapes[key]))
        assert torch.equal(parameter, whole.to(dtype)), key


def test_a_file_that_is_no_safetensors_file_is_told(tmp_path):
    for text in (b"", b"\xff" * 64, (10**9).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"[]"):
        (tmp_path / SINGLE).write_bytes(text)
        with pytest.raises(RunError, match="RUN016"):
            stored_values(tmp_path, {}, tied=False)


def test_an_index_that_lists_no_files_is_told(tmp_path):
    for text in ("[]", "{}", '{"weight_map": []}'):
        (tmp_path / INDEX).write_text(text)
        with pytest.raises(RunError, match="RUN016"):
            stored_values(tmp_path, {}, tied=False)


def test_another_seed_draws_other_weights_and_other_samples():
    model, name = read_model("tiny-qwen3"), "model.layers.0.mlp.up_proj.weight"
    ranges = tuple(range(size) for size in shapes_of(model)[name])
    drawn = [made_up(model, seed)(name, ranges) for seed in (0, 1, 1)]
    assert torch.equal(drawn[1], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])
    first, second = (SyntheticTokens(seed=seed, vocab=512, sequence=24, ragged=False) for seed in (0, 1))
    assert not any(torch.equal(first.sample(index)[0], second.sample(index)[0]) for index in range(8))


def test_tensors_that_are_no_weights_are_left_alone(tmp_path):
    from safetensors.torch import save_file

    save_file({"step": torch.tensor([7]), "model.norm.weight": torch.ones(4)}, tmp_path / SINGLE)
    assert set(read_entries(tmp_path)) == {"model.norm.weight"}


@pytest.mark.parametrize(("low", "high"), [(0.0, 4.0), (4.0, 4.0), (-1.0, 4.0)])
def test_a_stretching_without_a_ramp_is_refused(low, high):
    stretched = {**STRETCHED, "low_freq_factor": low, "high_freq_factor": high}
    with pytest.raises(ModelError, match=r"MOD006.*high_freq_factor"):
        arithmetic_of({**config_of("tiny-llama"), "rope_parameters": stretched})


def test_a_tensor_of_another_shape_or_none_is_told(tmp_path):
    model = read_model("tiny-qwen3")
    create(tmp_path / SINGLE, {"model.embed_tokens.weight": (3, 2)}, torch.float32)
    with pytest.raises(RunError, match="RUN017"):
        stored_values(tmp_path, shapes_of(model), tied=False)


def test_a_policy_keeps_gradients_to_the_bit():
    model, arithmetic = read_model("tiny-llama"), read_arithmetic("tiny-llama")
    samples = SyntheticTokens(seed=1, vocab=model.vocab, sequence=BATCH.sequence, ragged=True)
    found = {}
    for policy in ("none", "full", "attention", "selective", "every_2", "uniform_3"):
        world = join(Layout(attention="data_parallel", recompute=policy), 0, CPU)
        shape = Shape(stages=1, micro_batches=BATCH.global_batch)
        slots = checked_shape("one_f_one_b", shape).slots(shape)
        trainer = trainer_of(model, arithmetic, world, slots, BATCH, Recipe(precision=DOUBLE), made_up(model, 2))
        trainer.step(0, samples.sample)
        found[policy] = {name: value.detach().clone() for name, value in trainer.parameters}
    for policy, weights in found.items():
        assert all(torch.equal(value, found["none"][name]) for name, value in weights.items()), policy


def test_arithmetic_is_that_of_the_config():
    arithmetic = arithmetic_of({**config_of("tiny-llama"), "rms_norm_eps": 0.5})
    assert arithmetic.norm_epsilon == 0.5
    assert replace(arithmetic.rotation, theta=1.0) != arithmetic.rotation
