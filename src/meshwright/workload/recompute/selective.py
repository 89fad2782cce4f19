"""Elementwise products that feed a matrix product are made again: gate x up, and normed values x weight.

No matrix product runs again. Source: chapter "Training systems", section 10.2.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.workload.recomputing import Recompute

if TYPE_CHECKING:
    from meshwright.workload.operators import Operator
    from meshwright.workload.saved import BlockSet
    from meshwright.workload.saved_entries import Saved

TITLE: Final = "elementwise products made again, one after the other"
SOURCE: Final = 'chapter "Training systems", section 10.2.2'
COUNTED: Final = False


def recompute(_count: int) -> Recompute:
    """The policy."""
    return Recompute(kept=_kept, repeats=_repeats, rebuilt="tensor")


def _kept(block: BlockSet) -> tuple[Saved, ...]:
    return tuple(item for item in block.saved if not item.product)


def _repeats(_operator: Operator) -> bool:
    return False
