"""SGD with momentum: a weight goes in; its momentum in float32 comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.job.optimizer import Moment

if TYPE_CHECKING:
    from meshwright.job.optimizer import Weight


def moments(_weight: Weight) -> tuple[Moment, ...]:
    """One momentum, 4 bytes an element.

    Source: Sutskever et al., "On the importance of initialization and momentum in deep learning" (ICML 2013), as
    `torch.optim.SGD` with `momentum` above 0 keeps it (`momentum_buffer`).
    """
    return (Moment(name="momentum"),)
