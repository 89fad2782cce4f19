"""Core attention is made again: scores, softmax and the mix of values, from queries, keys and values.

Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022 (arXiv:2205.05198),
selective recomputation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.workload.recomputing import Recompute

if TYPE_CHECKING:
    from meshwright.workload.operators import Operator
    from meshwright.workload.saved import BlockSet
    from meshwright.workload.saved_entries import Saved

TITLE: Final = "core attention made again"
SOURCE: Final = (
    "Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022 (arXiv:2205.05198)"
)
COUNTED: Final = False


def recompute(_count: int) -> Recompute:
    """The policy."""
    return Recompute(kept=_kept, repeats=_repeats, rebuilt="half")


def _kept(block: BlockSet) -> tuple[Saved, ...]:
    return (*(item for item in block.saved if not item.core), *block.core_inputs)


def _repeats(operator: Operator) -> bool:
    return operator.name == "attention"
