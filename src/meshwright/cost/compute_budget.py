"""Parameters and tokens go in, as columns; the arithmetic of training, its time and the devices it needs come out.

The rule of thumb for dense models, for comparing scales. A plan counts a model's own operators instead.
"""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N, ceil
from meshwright.base.traced import formula
from meshwright.base.units import MULTIPLY_ADD_FLOPS
from meshwright.cost.model_flops import PASSES


@formula
def training_flops(parameters: N, tokens: Any, multiply_add_flops: Any = MULTIPLY_ADD_FLOPS) -> N:
    """FLOPs of a run in which every token meets every parameter in one multiply-add a pass: 6ND.

    Source: Kaplan et al., "Scaling Laws for Neural Language Models" (arXiv 2001.08361), section 2.1; chapter "Training
    systems", section 10.6.4. Leaves out attention scores, which grow with the sequence, and counts the embedding.
    """
    return parameters * tokens * (PASSES * multiply_add_flops)


@formula
def training_s(work_flops: N, count: Any, rate_flops_per_s: Any, efficiency_share: Any) -> N:
    """Seconds of computation on `count` devices at that share of their peak rate.

    Source: chapter "Training systems", section 10.6.4. Leaves out whatever a lower efficiency does not stand for.
    """
    return work_flops / (count * efficiency_share * rate_flops_per_s)


@formula
def needed_count(work_flops: N, rate_flops_per_s: Any, efficiency_share: Any, time_s: Any) -> N:
    """Devices, whole, that end within time_s. Source: chapter "Training systems", section 10.6.4."""
    return ceil(training_s(work_flops, 1, rate_flops_per_s, efficiency_share) / time_s)
