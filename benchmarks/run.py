"""Tokens a second of a run under FSDP2 alone, beside a plain FSDP2 script of one model, in turns, on two processes.

The script is what one writes by hand: `fully_shard` on every block, the ends and the whole, a forward, `backward`,
`clip_grad_norm_`, AdamW. Both have the same modules, samples and formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from meshwright.layout.layout import Layout
from meshwright.model.arithmetic import arithmetic_of
from meshwright.model.reader import read_config
from meshwright.runtime.job import RunOptions
from meshwright.runtime.launch.member import Member
from meshwright.runtime.launch.supervisor import launch
from meshwright.runtime.loop.samples import SyntheticTokens
from meshwright.runtime.loop.trainer import Batch, Recipe, trainer_of
from meshwright.runtime.modules.decoder import Share, Stage
from meshwright.runtime.modules.linear import Later
from meshwright.runtime.modules.recompute import wraps_of
from meshwright.runtime.parallel.shards import Precision
from meshwright.runtime.state.weights import fill, made_up, ranges_of
from meshwright.runtime.train import crew_of
from meshwright.runtime.world import World, join
from meshwright.workload.slots import Shape, checked_shape

LEAST = 0.95
"""Of the script's tokens a second."""
_CONFIG = {
    "model_type": "qwen3",
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "num_hidden_layers": 4,
    "vocab_size": 4096,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
_BATCH = Batch(global_batch=8, sequence=128)
_LAYOUT = Layout(dp_shard=2, zero=3, micro_batch=4, schedule="one_f_one_b", attention="data_parallel")
_SINGLE = Precision(compute=torch.float32, kept=torch.float32, reduced=torch.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Medians of steps taken in turns. ratio: of tokens a second, ours to the script's, pair by pair."""

    ours_s: float
    script_s: float
    ratio: float
    steps: int

    @property
    def exceeded(self) -> bool:
        """Whether ours is slower than is allowed."""
        return self.ratio < LEAST


def measure(steps: int) -> Pair:
    """So many steps of each, one of ours, one of the script's."""
    return launch(_rank, steps, crew_of(_LAYOUT, RunOptions()), lambda _: None)[0]


def page(pair: Pair) -> list[str]:
    """What it measured, for docs/benchmarks.md."""
    tokens = _BATCH.global_batch * _BATCH.sequence
    return [
        "## A run beside a plain FSDP2 script",
        "",
        "A Qwen3 of 4 layers of width 256, float32, two processes over gloo, zero 3; steps of ours and of a script",
        f"with `fully_shard`, `backward`, `clip_grad_norm_` and AdamW in turns, {pair.steps} of each.",
        "",
        "| | seconds a step | tokens a second |",
        "|---|---:|---:|",
        f"| `run train` | {pair.ours_s:.3f} | {tokens / pair.ours_s:,.0f} |",
        f"| the script | {pair.script_s:.3f} | {tokens / pair.script_s:,.0f} |",
        "",
        f"Ratio of tokens a second, median of pairs: {pair.ratio:.2f} (at least {LEAST} is asked).",
    ]


def _rank(member: Member, steps: int) -> Pair:
    model = read_config(_CONFIG, "benchmark")
    samples = SyntheticTokens(seed=0, vocab=model.vocab, sequence=_BATCH.sequence, ragged=False)
    shape = Shape(stages=1, micro_batches=1)
    slots = checked_shape("one_f_one_b", shape).slots(shape)
    world = join(_LAYOUT, member.rank, member.device)
    recipe = Recipe(precision=_SINGLE)
    trainer = trainer_of(model, arithmetic_of(_CONFIG), world, slots, _BATCH, recipe, made_up(model, 0))
    script = _Script(world, recipe)
    taken: list[tuple[float, float]] = []
    for step in range(steps + 1):
        ours = _seconds(lambda step=step: trainer.step(step, samples.sample))
        theirs = _seconds(lambda step=step: script.step(step, samples))
        taken.append((ours, theirs))
    timed = taken[1:]
    return Pair(
        ours_s=median(ours for ours, _ in timed),
        script_s=median(theirs for _, theirs in timed),
        ratio=median(theirs / ours for ours, theirs in timed),
        steps=steps,
    )


class _Script:
    """A plain FSDP2 training script."""

    def __init__(self, world: World, recipe: Recipe) -> None:
        model = read_config(_CONFIG, "benchmark")
        ranges = ranges_of(model, _LAYOUT, world.rank, "gathered")
        share = Share(ranges=ranges, later=Later(), wraps=wraps_of("none"))
        self.stage = Stage(model, arithmetic_of(_CONFIG), range(model.layers), share)
        fill(self.stage, ranges, made_up(model, 0))
        mesh = world.mesh["dp_shard"]
        for part in (self.stage.model.embed_tokens, *self.stage.blocks, self.stage.lm_head, self.stage):
            fully_shard(part, mesh=mesh)
        self.world, self.clip = world, recipe.clip
        self.optimizer = torch.optim.AdamW(
            self.stage.parameters(),
            lr=recipe.rate,
            betas=recipe.betas,
            eps=recipe.epsilon,
            weight_decay=recipe.decay,
        )

    def step(self, number: int, samples: SyntheticTokens) -> float:
        """One step, and its loss."""
        local = _BATCH.global_batch // self.world.copies
        first = number * _BATCH.global_batch + self.world.copy * local
        pairs = [samples.sample(first + place) for place in range(local)]
        tokens, labels = (torch.stack(column) for column in zip(*pairs, strict=True))
        loss = self.stage(tokens, labels) / labels.numel()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.stage.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        whole = loss.detach()
        dist.all_reduce(whole, op=dist.ReduceOp.AVG)
        return whole.item()


def _seconds(work: object) -> float:
    dist.barrier()
    start = perf_counter()
    work()
    dist.barrier()
    return perf_counter() - start
