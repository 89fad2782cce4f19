"""One of every N blocks is made again whole from its input; the others keep everything.

Source: torchtitan, activation checkpointing `mode = "selective"` with a whole number for `selective_ac_option`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.workload.recomputing import Recompute

if TYPE_CHECKING:
    from meshwright.workload.operators import Operator
    from meshwright.workload.saved import BlockSet
    from meshwright.workload.saved_entries import Saved

TITLE: Final = "one of every N blocks made again"
SOURCE: Final = "torchtitan, activation_checkpoint.selective_ac_option"
COUNTED: Final = True


def recompute(count: int) -> Recompute:
    """The policy that treats one of every `count` blocks."""
    return Recompute(kept=_kept, repeats=_repeats, every=count)


def _kept(block: BlockSet) -> tuple[Saved, ...]:
    return (block.input,)


def _repeats(_operator: Operator) -> bool:
    return True
