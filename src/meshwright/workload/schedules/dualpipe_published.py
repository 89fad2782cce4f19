"""DualPipe in the order that its authors publish: eight phases, a forward beside a backward of the other direction.

Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024 (arXiv:2412.19437), section 3.2.1, figure 5 and table 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.workload.schedules import _two_ways
from meshwright.workload.schedules._two_ways import Way, eight_phases
from meshwright.workload.slots import Bubble, Refusal, Shape, Slots, Work, both_ways, gathered

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

TITLE: Final = "from both ends in eight phases"
SOURCE: Final = "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024 (arXiv:2412.19437), section 3.2.1, figure 5, table 2"
DIRECTIONS: Final = 2
COPIES: Final = 2


def refusal(shape: Shape) -> Refusal | None:
    """An even number of ranks, and an even number of micro-batches, 2p or more."""
    return _two_ways.refusal(shape, least=2 * shape.stages)


def placement(shape: Shape) -> Ints:
    """Rank s holds virtual stage s of one direction and p - 1 - s of the other."""
    return both_ways(shape)


def slots(shape: Shape) -> Slots:
    """The second half of the micro-batches enters at the last rank; the upper half of the ranks mirrors the lower."""
    half = shape.micro_batches // 2
    orders: list[tuple[int, int, Ints]] = []
    for rank in range(shape.stages):
        mirror = shape.stages - 1 - rank
        one, other = Way(virtual_stage=rank, first=0, direction=0), Way(virtual_stage=mirror, first=half, direction=1)
        near, far = (one, other) if rank < mirror else (other, one)
        orders.append((rank, 0, eight_phases(shape.stages // 2, min(rank, mirror), half, near, far)))
    return gathered(orders, both_ways(shape))


def _bubble(stages: int, _chunks: int, work: Work) -> Any:
    """Of indivisible cells."""
    return _two_ways.bubble(stages, work)


BUBBLE: Final = Bubble(
    time=_bubble,
    of="step",
    holds=lambda work: work.forward <= work.inputs and work.weight <= work.inputs,
    least=lambda _ranks: 1,
    where="indivisible cells, and an input gradient no shorter than a forward or a weight gradient",
)
