"""Muon: a weight goes in; one momentum for a hidden matrix, AdamW's moments for everything else come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.job.optimizers import adamw, sgd

if TYPE_CHECKING:
    from meshwright.job.optimizer import Moment, Weight

_ENDS: Final = frozenset({"embedding", "head"})


def moments(weight: Weight) -> tuple[Moment, ...]:
    """A momentum for the matrices of the blocks, each expert's too; token table, head, norms and biases use AdamW.

    Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024, kellerjordan.github.io);
    Liu et al., "Muon is scalable for LLM training" (arXiv 2502.16982), section 2. Leaves out the work space of the
    orthogonalisation, which needs a whole matrix at a time.
    """
    return sgd.moments(weight) if weight.is_matrix and weight.part not in _ENDS else adamw.moments(weight)
