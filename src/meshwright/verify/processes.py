"""A function goes in and runs as every rank of a line of local processes; what each rank returned comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from meshwright.runtime.launch.member import Member
from meshwright.runtime.launch.supervisor import Crew, launch

if TYPE_CHECKING:
    from meshwright.runtime.job import Devices

T = TypeVar("T")


def in_processes(work: Callable[[int], T], ranks: int, timeout_s: float, devices: Devices = "cpu") -> list[T]:
    """What `work(rank)` returned, by rank; it finds the default process group there, and must return what pickles.

    timeout_s: the longest a rank may stand in one place.   devices: with `cuda`, processes are started anew and `work`
    must pickle too. Raises RUN010 where a rank fails, RUN011 where one hangs.
    """
    places = tuple({"pp": rank} for rank in range(ranks))
    crew = Crew(places=places, devices=devices, timeout_s=timeout_s)
    return list(cast("tuple[T, ...]", launch(_rank, work, crew, _quietly)))


def _rank(member: Member, work: Callable[[int], T]) -> T:
    return work(member.rank)


def _quietly(_: object) -> None:
    """Nothing is told meanwhile."""
