"""AdamW with quantized moments: a weight goes in; two moments of a byte an element, with their scales, come out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.job.optimizers import adamw

if TYPE_CHECKING:
    from meshwright.job.optimizer import Moment, Weight

_BLOCK: Final = 256
_LEAST_ELEMENTS: Final = 4096


def moments(weight: Weight) -> tuple[Moment, ...]:
    """Both moments in 8 bits with one float32 maximum for 256 elements; in float32 where there are under 4096.

    Source: bitsandbytes from 0.44 on, optim/optimizer.py (`Optimizer2State`: blocks of 256, `min_8bit_size=4096`);
    Dettmers et al., "8-bit optimizers via block-wise quantization" (arXiv 2110.02861). Leaves out the two tables of 256
    code values that a device keeps once. The size is that of the whole parameter, as a sharded one states it.
    """
    plain = adamw.moments(weight)
    if weight.elements < _LEAST_ELEMENTS:
        return plain
    return tuple(replace(moment, bits=8, block=_BLOCK) for moment in plain)
