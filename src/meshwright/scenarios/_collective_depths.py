"""A placed program and a depth go in; its seconds at any size, and the bytes of its links, come out.

The three depths of `time`: by ports alone, by the busiest link of each round, flow by flow (`cost.program_times`,
`sim.network`). One signature for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from meshwright.base.result import Basis
from meshwright.cost.program_times import port_times, round_times
from meshwright.sim.network import flows_of
from meshwright.workload.traffic import sent_bytes

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats
    from meshwright.cost.program_times import ProgramTime
    from meshwright.scenarios._collective_programs import Placed
    from meshwright.workload.traffic import Background

DepthName: TypeAlias = Literal["alpha-beta", "rounds", "flows"]
CHEAP_MOMENTS: Final = 3_000
"""Moments of a run that can be asked again at other sizes; a longer one is asked once."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timed:
    """A program at the bytes it was placed with. link_bytes: that every link of the fabric carries in it.

    start_up_s: the part that bytes do not change, None where flows overlap rounds.   at: seconds with so many times the
    bytes.   again: whether asking for other sizes is quick.
    """

    time_s: float
    start_up_s: float | None
    link_bytes: Floats
    at: Callable[[float], float]
    again: bool


def by_ports(item: Placed, background: Background) -> Timed:
    """Alpha-beta of the ports. Raises COL030."""
    return _by_rounds(port_times, item, background)


def by_rounds(item: Placed, background: Background) -> Timed:
    """The busiest link of each round. Raises COL030."""
    return _by_rounds(round_times, item, background)


def by_flows(item: Placed, background: Background) -> Timed:
    """Max-min fair flows; the last group's end. Raises COL030, COL031."""
    flows = flows_of(item.fabric, item.traffic, background)
    found = flows.run()
    return Timed(
        time_s=max(found.end_s),
        start_up_s=None,
        link_bytes=sent_bytes(flows.sends),
        at=lambda times: max(flows.run(times).end_s),
        again=found.moments * found.classes <= CHEAP_MOMENTS,
    )


def _by_rounds(depth: Callable[..., ProgramTime], item: Placed, background: Background) -> Timed:
    found = depth(item.fabric, item.traffic, background)
    return Timed(
        time_s=found.total_s,
        start_up_s=found.start_up_s,
        link_bytes=found.link_bytes,
        at=lambda times: found.start_up_s + found.transfer_s * times,
        again=True,
    )


DEPTHS: Final[Mapping[str, Callable[[Placed, Background], Timed]]] = {
    "alpha-beta": by_ports,
    "rounds": by_rounds,
    "flows": by_flows,
}
BASIS: Final = {
    "alpha-beta": f"{Basis.FORMULA.value}: alpha-beta of the ports, round by round",
    "rounds": f"{Basis.FORMULA.value}: the busiest link of each round",
    "flows": f"{Basis.SIMULATED.value}: max-min fair flows",
}
