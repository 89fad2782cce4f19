"""DualPipeV: DualPipe's eight phases folded into a V, so that one copy of the parameters suffices.

Rank s holds virtual stages s and 2p - 1 - s; every micro-batch goes down and comes back up.
Source: Sea AI Lab, "Cut-in-half", 2025, and the DualPipeV of the authors of DeepSeek-V3 Technical Report
(arXiv:2412.19437).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.workload.schedules import _two_ways
from meshwright.workload.schedules._two_ways import Way, eight_phases
from meshwright.workload.slots import Bubble, Refusal, Shape, Slots, Work, gathered, in_a_v

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

TITLE: Final = "DualPipe's phases in a V"
SOURCE: Final = "Sea AI Lab, Cut-in-half, 2025, and DualPipeV of DeepSeek-AI (github.com/deepseek-ai/DualPipe)"
DIRECTIONS: Final = 1
COPIES: Final = 1


def refusal(shape: Shape) -> Refusal | None:
    """2p micro-batches or more."""
    least = 2 * shape.stages
    if shape.micro_batches >= least:
        return None
    reason = f"{shape.micro_batches} micro-batches are fewer than {least}"
    return Refusal(code="SCH001", reason=reason, nearest=least)


def placement(shape: Shape) -> Ints:
    """Rank s holds virtual stages s and 2p - 1 - s."""
    return in_a_v(shape)


def slots(shape: Shape) -> Slots:
    """Down is the near way of every rank, up the far one."""
    orders: list[tuple[int, int, Ints]] = []
    for rank in range(shape.stages):
        near = Way(virtual_stage=rank, first=0, direction=0)
        far = Way(virtual_stage=2 * shape.stages - 1 - rank, first=0, direction=0)
        orders.append((rank, 0, eight_phases(shape.stages, rank, shape.micro_batches, near, far)))
    return gathered(orders, in_a_v(shape))


def _bubble(stages: int, chunks: int, work: Work) -> Any:
    """That of DualPipe over the 2p virtual stages; the times of a rank are those of two of them."""
    return _two_ways.bubble(stages * chunks, work) / chunks


BUBBLE: Final = Bubble(
    time=_bubble,
    of="step",
    holds=lambda work: work.forward <= work.inputs and work.weight <= work.inputs,
    least=lambda _ranks: 1,
    where="indivisible cells, and an input gradient no shorter than a forward or a weight gradient",
)
