"""AdamW with moments in bfloat16: a weight goes in; its two moments come out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshwright.job.optimizers import adamw

if TYPE_CHECKING:
    from meshwright.job.optimizer import Moment, Weight


def moments(weight: Weight) -> tuple[Moment, ...]:
    """First and second moment, 2 bytes an element each.

    Source: DeepSeek-AI, "DeepSeek-V3 technical report" (arXiv 2412.19437), section 3.3.3: BF16 instead of FP32 for the
    first and second moments of AdamW.
    """
    return tuple(replace(moment, bits=16) for moment in adamw.moments(weight))
