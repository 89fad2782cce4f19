"""A recipe's name goes in; in which formats training keeps weights, gradients and optimizer state comes out.

"Mixed precision" alone defines none of them: each is a field. Named recipes are TOML files under `recipes/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from meshwright.base.errors import JobError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.job.optimizer import OPTIMIZERS

PlainName: TypeAlias = Literal["bf16", "fp16", "fp32"]
OperandName: TypeAlias = Literal["bf16", "fp16", "fp32", "fp8"]
OperandCopy: TypeAlias = Literal["none", "transient", "kept", "instead"]

RECIPES: Final = Registry(
    kind="recipes", package="meshwright.job", folder="recipes", suffix=".toml", error=JobError, number=40
)
DEFAULT_RECIPE: Final = "bf16-adamw"
_MOST_RANK: Final = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What training keeps of a parameter, and in which format.

    compute: of the operands of matrix products.   parameters: of the copy that the forward reads.   fp8_copy: of the
    matrices, with one float32 scale for 128 x 128 elements; made for each product (`transient`: nothing resident),
    `kept` beside that copy, or `instead` of it.   gradients: as accumulated over micro-batches.   master: the copy that
    the optimizer updates; `none` updates the parameters themselves.   optimizer: a name in `OPTIMIZERS`.
    lora_rank, lora_targets: above 0, the base is frozen and the named matrices (`q_proj`) have adapters of that rank.

    Source: Micikevicius et al., "Mixed precision training" (arXiv 1710.03740); Rajbhandari et al., "ZeRO" (arXiv
    1910.02054), section 3.1; Hu et al., "LoRA" (arXiv 2106.09685).
    """

    compute: OperandName = "bf16"
    parameters: PlainName = "bf16"
    fp8_copy: OperandCopy = "none"
    gradients: PlainName = "bf16"
    master: Literal["fp32", "none"] = "fp32"
    optimizer: str = "adamw"
    lora_rank: int = 0
    lora_targets: tuple[str, ...] = ()

    @property
    def rates(self) -> tuple[str, ...]:
        """Formats in whose rate an accelerator may multiply such operands, the best first; none is narrower."""
        return ("fp32",) if self.compute == "fp32" else tuple(dict.fromkeys((self.compute, "bf16", "fp16")))


def read_recipe(name: str) -> Recipe:
    """The recipe registered as `name`. Raises JOB040 (unknown), and the codes of `checked_recipe`."""
    return checked_recipe(build(Recipe, read_toml(RECIPES.text(name), name), name))


def checked_recipe(recipe: Recipe) -> Recipe:
    """The recipe itself. Raises JOB041 (optimizer) and JOB042 (fields that contradict each other)."""
    if recipe.optimizer not in OPTIMIZERS.names():
        raise OPTIMIZERS.unknown(recipe.optimizer)
    for holds, cause, fix in _contradictions(recipe):
        if holds:
            raise JobError(42, cause, fix)
    return recipe


def _contradictions(recipe: Recipe) -> tuple[tuple[bool, str, str], ...]:
    """Whether each holds, what it is, and how it is mended."""
    copied = recipe.fp8_copy != "none"
    return (
        (
            copied and recipe.compute != "fp8",
            f"fp8_copy={recipe.fp8_copy}: operands in {recipe.compute} need no copy in fp8",
            "set compute=fp8, or fp8_copy=none",
        ),
        (
            recipe.compute == "fp8" and not copied,
            "compute=fp8: it is not said where the operands in fp8 come from",
            "set fp8_copy to transient, kept or instead",
        ),
        (
            recipe.fp8_copy == "instead" and recipe.master == "none",
            "fp8_copy=instead without a master: an update is smaller than a step of fp8",
            "set master=fp32, or fp8_copy=kept",
        ),
        (
            recipe.master == recipe.parameters,
            "the parameters are fp32 and the master is a second copy of the same",
            "set master=none, or parameters=bf16",
        ),
        (
            not 0 <= recipe.lora_rank <= _MOST_RANK,
            f"lora_rank is {recipe.lora_rank}",
            f"give a rank from 0 (no adapters) to {_MOST_RANK}",
        ),
        (
            (recipe.lora_rank > 0) != bool(recipe.lora_targets),
            f"lora_rank={recipe.lora_rank} with {len(recipe.lora_targets)} matrices to adapt",
            "give both, as in lora_rank=16 and lora_targets=q_proj,v_proj; or neither",
        ),
    )
