"""What does running an exchange beside a computation save? A measured pair goes in; factors, saving and bound come out.

Nothing here predicts: the finish of both is measured. The sum and the longest of the times alone stand beside it, as
what it saves over and what it loses to interference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from meshwright.base.errors import CollectiveError
from meshwright.base.units import Bytes, Seconds, show_seconds
from meshwright.system.overlaps import read_overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """One pair. sum_alone_s: one after the other.   longest_alone_s: what no overlap can beat.

    saving_s: the sum less the finish.   interference_s: the finish less the longest.   hidden_share: the saving over
    the shorter of the two, 1 where it costs nothing.   bound_by: which of them ends last.
    """

    communication_alone_s: float
    computation_alone_s: float
    communication_together_s: float
    computation_together_s: float
    finish_s: float
    communication_slowdown: float
    computation_slowdown: float
    sum_alone_s: float
    longest_alone_s: float
    saving_s: float
    interference_s: float
    hidden_share: float
    bound_by: Literal["communication", "computation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredInterference(Interference):
    """A pair of the archive, with where and how it was measured."""

    platform: str
    operation: str
    message_bytes: Bytes
    protocol: str


def interference(
    communication_alone_s: Seconds,
    computation_alone_s: Seconds,
    communication_together_s: Seconds,
    computation_together_s: Seconds,
    finish_s: Seconds,
) -> Interference:
    """A pair that someone measured, all times from one start. Holds for these two sizes alone.

    Raises COL006 for a time of zero, and for a finish before the end of either. Source: chapter "Supernodes", section
    6.4.3.
    """
    together = (communication_together_s, computation_together_s)
    if min(communication_alone_s, computation_alone_s, *together) <= 0 or finish_s < max(together):
        cause = f"a finish after {show_seconds(finish_s)} of {' and '.join(map(show_seconds, together))}"
        raise CollectiveError(6, cause, "give times above zero, and a finish no earlier than the end of either")
    return Interference(
        communication_alone_s=communication_alone_s,
        computation_alone_s=computation_alone_s,
        communication_together_s=communication_together_s,
        computation_together_s=computation_together_s,
        finish_s=finish_s,
        communication_slowdown=communication_together_s / communication_alone_s,
        computation_slowdown=computation_together_s / computation_alone_s,
        sum_alone_s=communication_alone_s + computation_alone_s,
        longest_alone_s=max(communication_alone_s, computation_alone_s),
        saving_s=communication_alone_s + computation_alone_s - finish_s,
        interference_s=finish_s - max(communication_alone_s, computation_alone_s),
        hidden_share=(communication_alone_s + computation_alone_s - finish_s)
        / min(communication_alone_s, computation_alone_s),
        bound_by="communication" if communication_together_s > computation_together_s else "computation",
    )


def overlap(pair: str) -> MeasuredInterference:
    """A pair of the archive, by its name. Raises SYS002. Source: as the pair names."""
    found = read_overlap(pair)
    told = interference(
        found.alone.communication,
        found.alone.computation,
        found.together.communication,
        found.together.computation,
        found.together.finish,
    )
    return MeasuredInterference(
        **{name: getattr(told, name) for name in Interference.__dataclass_fields__},
        platform=found.platform,
        operation=found.operation,
        message_bytes=found.message,
        protocol=found.protocol,
    )
