"""Layouts that are run and compared with their plans: a covering sample for each change, the rest for a campaign."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from meshwright.job.recipe import read_recipe
from meshwright.layout.layout import Layout, read_fixed
from meshwright.model.reader import read_arithmetic, read_model
from meshwright.verify.run import compared, measure
from meshwright.verify.setting import setting_of


class Case(NamedTuple):
    """One run of `tiny-qwen3`."""

    layout: str
    recipe: str = "fp32-adamw"
    global_batch: int = 8
    sequence: int = 64

    @property
    def id(self):
        tail = "" if self.recipe == "fp32-adamw" else f" {self.recipe}"
        return f"{self.layout}{tail}"


FSDP2: Final = "fsdp2-adamw"
SAMPLE: Final = (
    Case("tp=1"),
    Case("tp=2,sp=true,recompute=full"),
    Case("tp=2,dp_shard=2,zero=3", FSDP2),
    Case("dp_shard=2,zero=2"),
    Case("dp_shard=2,zero=1,micro_batch=2", FSDP2),
    Case("pp=2,schedule=zero_bubble_h1"),
    Case("pp=2,tp=2,recompute=selective"),
    Case("dp_replicate=2,dp_shard=2,zero=3"),
)
"""Every axis, zero stage and recipe, recompute, sp, and a split backward."""
REST: Final = (
    Case("tp=1,micro_batch=4"),
    Case("tp=1,recompute=attention"),
    Case("tp=1,recompute=every_2"),
    Case("tp=1", FSDP2),
    Case("tp=1,recompute=full", FSDP2),
    Case("tp=2"),
    Case("tp=2,sp=true", FSDP2),
    Case("tp=4,sp=true,recompute=selective"),
    Case("tp=8"),
    Case("dp_shard=2,zero=0"),
    Case("dp_shard=2,zero=3"),
    Case("dp_shard=2,zero=3,recompute=full", FSDP2),
    Case("dp_shard=4,zero=2", FSDP2),
    Case("dp_shard=4,zero=3,recompute=uniform_2"),
    Case("dp_replicate=2"),
    Case("dp_replicate=2,dp_shard=2,zero=0"),
    Case("dp_replicate=2,dp_shard=2,zero=2,micro_batch=2", FSDP2),
    Case("pp=2"),
    Case("pp=2", FSDP2),
    Case("pp=2,schedule=fill_drain"),
    Case("pp=2,virtual_stages=2,schedule=interleaved"),
    Case("pp=2,schedule=zero_bubble_h2"),
    Case("pp=2,schedule=zero_bubble_v"),
    Case("pp=2,schedule=dualpipe_v"),
    Case("pp=2,schedule=dualpipe_published"),
    Case("pp=4"),
    Case("pp=4,schedule=zero_bubble_h1,recompute=full"),
    Case("pp=2,tp=2,sp=true"),
    Case("pp=2,dp_shard=2,zero=1"),
    Case("pp=2,dp_shard=2,zero=2,micro_batch=2"),
    Case("pp=2,dp_shard=2,zero=3,schedule=zero_bubble_h1"),
    Case("tp=2,sp=true,dp_shard=2,zero=3"),
    Case("pp=2,tp=2,dp_shard=2,zero=2,recompute=full", FSDP2),
)


@cache
def answer(case):
    """The result of one case."""
    read = read_recipe(case.recipe)
    layout = Layout(**read_fixed(case.layout))
    setting = setting_of(read_model("tiny-qwen3"), layout, read, case.global_batch, case.sequence, 1, 0)
    measured = measure(setting, read_arithmetic("tiny-qwen3"), timeout_s=90)
    return compared(setting, measured)
