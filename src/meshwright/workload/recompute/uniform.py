"""Chunks of N neighbours are made again together from the input of the first.

Source: Megatron-LM, `--recompute-method uniform --recompute-num-layers N`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.workload.recomputing import Recompute

if TYPE_CHECKING:
    from meshwright.workload.operators import Operator
    from meshwright.workload.saved import BlockSet
    from meshwright.workload.saved_entries import Saved

TITLE: Final = "chunks of N layers made again together"
SOURCE: Final = "Megatron-LM, --recompute-granularity full --recompute-method uniform"
COUNTED: Final = True


def recompute(count: int) -> Recompute:
    """The policy with chunks of `count` layers."""
    return Recompute(kept=_kept, repeats=_repeats, chunk=count)


def _kept(block: BlockSet) -> tuple[Saved, ...]:
    return (block.input,)


def _repeats(_operator: Operator) -> bool:
    return True
