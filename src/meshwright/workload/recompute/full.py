"""Each block is made again whole from its input, which is all that it keeps.

Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016 (arXiv:1604.06174).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.workload.recomputing import Recompute

if TYPE_CHECKING:
    from meshwright.workload.operators import Operator
    from meshwright.workload.saved import BlockSet
    from meshwright.workload.saved_entries import Saved

TITLE: Final = "every block made again from its input"
SOURCE: Final = "Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016 (arXiv:1604.06174)"
COUNTED: Final = False


def recompute(_count: int) -> Recompute:
    """The policy."""
    return Recompute(kept=_kept, repeats=_repeats)


def _kept(block: BlockSet) -> tuple[Saved, ...]:
    return (block.input,)


def _repeats(_operator: Operator) -> bool:
    return True
