"""Where does a remote read spend its time? Stages of a path and times of phases go in; sums and crossings come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import SystemSpecError, suggest
from meshwright.base.units import Seconds
from meshwright.system.read_path import Stage, read_path

CONTROLLER: Final = "controller"
"""The phase whose time is cycles over the clock."""
_MOST_MHZ: Final = 1e5
_LONGEST_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRead:
    """One read. crossings: stages that cross PCIe, and crossing_s what they take.

    times, spent_s: of each phase, in the order of its first stage.
    """

    path: str
    total_s: float
    crossings: int
    crossing_s: float
    crossing_share: float
    times: dict[str, int]
    spent_s: dict[str, float]
    not_modelled: tuple[str, ...]


def remote_read(path: str, phases: dict[str, Seconds], clock_mhz: float) -> RemoteRead:
    """A read over a registered path; phases: seconds of each by name, but of the controller, which counts cycles.

    Raises SYS002 (path), SYS032 (a phase without a time, or a time or clock that cannot be). Source: chapter
    "Supernodes", section 6.5.5, figure 6-39.
    """
    if not 0 < clock_mhz <= _MOST_MHZ:
        raise SystemSpecError(32, f"a clock of {clock_mhz} MHz", f"give one above zero, at most {_MOST_MHZ:g}")
    found = read_path(path)
    seconds = [_stage_s(stage, phases, clock_mhz) for stage in found.stages]
    crossing = [time for stage, time in zip(found.stages, seconds, strict=True) if stage.crosses]
    times: dict[str, int] = {}
    spent: dict[str, float] = {}
    for stage, time in zip(found.stages, seconds, strict=True):
        times[stage.phase] = times.get(stage.phase, 0) + 1
        spent[stage.phase] = spent.get(stage.phase, 0.0) + time
    return RemoteRead(
        path=found.name,
        total_s=sum(seconds),
        crossings=len(crossing),
        crossing_s=sum(crossing),
        crossing_share=sum(crossing) / sum(seconds) if sum(seconds) else 0.0,
        times=times,
        spent_s=spent,
        not_modelled=(
            "stages that real cards merge, add or overlap: a descriptor may travel with the doorbell",
            "queues: the read is alone on its way",
        ),
    )


def _stage_s(stage: Stage, phases: dict[str, Seconds], clock_mhz: float) -> float:
    if stage.phase == CONTROLLER:
        return stage.cycles / (1e6 * clock_mhz)
    if stage.phase not in phases:
        raise SystemSpecError(32, f"{stage.name}: no time of {stage.phase!r}", suggest(stage.phase, phases))
    time = phases[stage.phase]
    if not 0 <= time <= _LONGEST_S:
        raise SystemSpecError(32, f"{stage.phase} takes {time} s", f"give a time of at most {_LONGEST_S} s")
    return float(time)
