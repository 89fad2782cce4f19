"""Work and rates go in; the time of one operator comes out, and which of the two bounds it."""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N, maximum
from meshwright.base.traced import formula
from meshwright.base.units import MULTIPLY_ADD_FLOPS


@formula
def matmul_flops(elements: N, rows: Any, multiply_add_flops: Any = MULTIPLY_ADD_FLOPS) -> N:
    """FLOPs of `rows` rows times a matrix of `elements` weights. Source: chapter "Supernodes", section 6.1.2."""
    return elements * rows * multiply_add_flops


@formula
def compute_s(work_flops: N, rate_flops_per_s: N) -> N:
    """Seconds to compute. Source: chapter "Supernodes", equation 6-2."""
    return work_flops / rate_flops_per_s


@formula
def read_s(read_bytes: N, rate_bytes_per_s: N) -> N:
    """Seconds to read from memory. Source: chapter "Supernodes", equation 6-2."""
    return read_bytes / rate_bytes_per_s


@formula
def roofline_s(work_flops: N, rate_flops_per_s: N, read_bytes: N, rate_bytes_per_s: N) -> N:
    """Seconds of one operator: compute and memory traffic overlap, so the longer one counts.

    A lower bound at datasheet rates. Leaves out launch time and imperfect overlap. Source: chapter "Supernodes",
    equation 6-2.
    """
    return maximum(compute_s(work_flops, rate_flops_per_s), read_s(read_bytes, rate_bytes_per_s))


@formula
def mfu_share(work_flops: N, rate_flops_per_s: N, read_bytes: N, rate_bytes_per_s: N) -> N:
    """The largest share of the peak that the operator can reach. Source: chapter "Supernodes", section 6.1.2."""
    ideal = compute_s(work_flops, rate_flops_per_s)
    return ideal / roofline_s(work_flops, rate_flops_per_s, read_bytes, rate_bytes_per_s)


@formula
def read_over_compute_share(work_flops: N, rate_flops_per_s: N, read_bytes: N, rate_bytes_per_s: N) -> N:
    """How many times longer reading takes than computing. Source: chapter "Supernodes", section 6.1.2."""
    return read_s(read_bytes, rate_bytes_per_s) / compute_s(work_flops, rate_flops_per_s)
