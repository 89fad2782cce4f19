"""Who should start transfers? Initiators and times go in; crossings of PCIe, cores taken and a rate come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import SystemSpecError
from meshwright.base.units import Seconds
from meshwright.job.serve import check_range
from meshwright.system.initiator import Initiator, read_initiator

_MOST_CORES: Final = 2**16
_LONGEST_S: Final = 1.0
LEFT_OUT: Final = (
    "steps that real cards merge or add: descriptors that travel with the doorbell, batches behind one doorbell",
    "what the card itself can take, and a queue before it",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitiatorRow:
    """One initiator. Crossings are of one request; the completion crosses on the initiator's side.

    control_s: until the card has what it needs.   requests_per_s: of all cores, each waiting for its control path.
    """

    id: str
    name: str
    cores: str
    steps: int
    control_crossings: int
    payload_crossings: int
    completion_crossings: int
    remote_crossings: int
    crossings: int
    control_s: float
    requests_per_s: float
    note: str


def initiators(names: tuple[str, ...], crossing_s: Seconds, work_s: Seconds, cores: int) -> tuple[InitiatorRow, ...]:
    """Registered initiators with `cores` of their cores; work_s: of a core for one request, beside the crossings.

    Raises SYS002 (name), SYS033 (times), JOB001 (cores). Source: chapter "Supernodes", section 6.4.4, figure 6-29.
    """
    check_range("cores", cores, 1, _MOST_CORES)
    if not (0 <= crossing_s <= _LONGEST_S and 0 < work_s <= _LONGEST_S):
        cause = f"crossings of {crossing_s} s and work of {work_s} s"
        raise SystemSpecError(33, cause, f"give times of at most {_LONGEST_S} s, work above zero")
    return tuple(_row(read_initiator(name), crossing_s, work_s, cores) for name in names)


def _row(found: Initiator, crossing_s: float, work_s: float, cores: int) -> InitiatorRow:
    crossing = [step for step in found.steps if step.crosses]
    own = [step.path for step in crossing if step.side == "initiator"]
    control_s = work_s + own.count("control") * crossing_s
    return InitiatorRow(
        id=found.id,
        name=found.name,
        cores=found.cores,
        steps=len(found.steps),
        control_crossings=own.count("control"),
        payload_crossings=own.count("payload"),
        completion_crossings=own.count("completion"),
        remote_crossings=len(crossing) - len(own),
        crossings=len(crossing),
        control_s=control_s,
        requests_per_s=cores / control_s,
        note=found.note,
    )
