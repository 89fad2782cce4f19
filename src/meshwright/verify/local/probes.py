"""A small decoder goes in; real steps of one rank's trainer come out, which cost next to nothing but their launches.

Every rank trains a model of its own. Behind FSDP2 it is wrapped over a mesh of one rank, with products in another
format than what the optimizer updates (wrapping needs one of two reasons): hooks, copies and shards are those of a real
run, and its exchanges have nobody to wait for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import torch

from meshwright.layout.layout import Layout
from meshwright.model.arithmetic import arithmetic_of
from meshwright.model.reader import read_config
from meshwright.runtime.loop.samples import SyntheticTokens
from meshwright.runtime.loop.trainer import Batch, Recipe, trainer_of
from meshwright.runtime.parallel.shards import Precision
from meshwright.runtime.state.weights import made_up
from meshwright.runtime.world import World, join
from meshwright.verify.local.cases import PLAIN, PROBE_SEQUENCE
from meshwright.workload.slots import Shape, checked_shape

if TYPE_CHECKING:
    from meshwright.runtime.loop.trainer import Trainer
    from meshwright.verify.local.actions import Action, Place
    from meshwright.verify.local.cases import Case

CONFIG: Final[dict[str, Any]] = {
    "model_type": "qwen3",
    "hidden_size": 32,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "use_sliding_window": False,
    "attention_bias": False,
    "vocab_size": 64,
}
"""So small that its products and its memory traffic are below a thousandth of its step."""


def probe_of(case: Case, place: Place) -> Action:
    """A step of a probe. case.format: how it keeps its parameters; case.shape: its layers, and its micro-batches."""
    layers, micro_batches = case.shape
    config = {**CONFIG, "num_hidden_layers": layers}
    model = read_config(config, "probe")
    batch = Batch(global_batch=micro_batches, sequence=PROBE_SEQUENCE)
    wrapped = case.format != PLAIN
    shape = Shape(stages=1, micro_batches=micro_batches)
    trainer = trainer_of(
        model,
        arithmetic_of(config),
        _wrapped_world(case.format, place) if wrapped else join(Layout(), 0, place.device),
        checked_shape("one_f_one_b", shape).slots(shape),
        batch,
        Recipe(precision=_precision(torch.float64 if wrapped else torch.float32)),
        made_up(model, 0),
    )
    data = SyntheticTokens(seed=0, vocab=model.vocab, sequence=batch.sequence, ragged=False)
    return steps_of(trainer, data, place)


def steps_of(trainer: Trainer, data: SyntheticTokens, place: Place) -> Action:
    """One step after the other, each on new samples."""
    number = 0

    def run() -> tuple[float, ...]:
        nonlocal number
        started = time.perf_counter()
        trainer.step(number, data.sample)
        place.settle()
        number += 1
        return (time.perf_counter() - started,)

    return run


def _precision(kept: torch.dtype) -> Precision:
    return Precision(compute=torch.float32, kept=kept, reduced=torch.float32)


def _wrapped_world(kind: str, place: Place) -> World:
    """One rank by itself, with a mesh that FSDP2 can stand on."""
    layout = Layout(zero=int(kind.removeprefix("zero=")))
    alone = join(Layout(), 0, place.device)
    return World(
        layout=layout, rank=0, place=alone.place, mesh=place.alone, all_copies=None, back=None, device=place.device
    )
