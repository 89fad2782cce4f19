"""Adam: a weight goes in; its two moments in float32 come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.job.optimizers import adamw

if TYPE_CHECKING:
    from meshwright.job.optimizer import Moment, Weight


def moments(weight: Weight) -> tuple[Moment, ...]:
    """The state of AdamW: the two differ in how they decay weights.

    Source: Kingma and Ba, "Adam: a method for stochastic optimization" (arXiv 1412.6980), algorithm 1.
    """
    return adamw.moments(weight)
