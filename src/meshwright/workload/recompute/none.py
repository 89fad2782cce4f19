"""Nothing is made again: a layer keeps all that its backward wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.workload.recomputing import Recompute

if TYPE_CHECKING:
    from meshwright.workload.operators import Operator
    from meshwright.workload.saved import BlockSet
    from meshwright.workload.saved_entries import Saved

TITLE: Final = "everything kept"
SOURCE: Final = "torch 2.13, autograd"
COUNTED: Final = False


def recompute(_count: int) -> Recompute:
    """The policy."""
    return Recompute(kept=_kept, repeats=_repeats)


def _kept(block: BlockSet) -> tuple[Saved, ...]:
    return block.saved


def _repeats(_operator: Operator) -> bool:
    return False
