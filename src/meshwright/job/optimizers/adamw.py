"""AdamW: a weight goes in; its two moments in float32 come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.job.optimizer import Moment

if TYPE_CHECKING:
    from meshwright.job.optimizer import Weight


def moments(_weight: Weight) -> tuple[Moment, ...]:
    """First and second moment, 4 bytes an element each.

    Source: Loshchilov and Hutter, "Decoupled weight decay regularization" (arXiv 1711.05101), algorithm 2. Leaves out
    the count of steps, one number a parameter.
    """
    return Moment(name="first_moment"), Moment(name="second_moment")
