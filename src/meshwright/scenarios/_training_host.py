"""A system and flags go in; what its hosts offer an offload comes out: rates of one device, and room."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import JobError, LayoutError, suggest
from meshwright.base.units import show_bytes
from meshwright.cost.training_offload import NONE, OFFLOADS, HostPath, gradient_cast
from meshwright.system.system import Host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.base.numbers import Bools, Ints
    from meshwright.base.result import Candidate
    from meshwright.job.train import TrainJob
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.system.system import System

UNKNOWN_ROOM: Final = (
    "host memory of {name} is not known: whether offloaded bytes have room there is not judged (--host-memory)"
)


def with_host(system: System, options: TrainOptions) -> System:
    """The system with what the flags say of its hosts."""
    given = {
        "memory": options.host_memory,
        "memory_bandwidth": options.host_bandwidth,
        "link_bandwidth": options.host_link,
    }
    given = {name: value for name, value in given.items() if value is not None}
    return replace(system, host=replace(system.host or Host(), **given)) if given else system


def host_path(system: System) -> HostPath | None:
    """Rates of one device's way to its host; None where its link or the host's memory rate is not known."""
    host = system.host
    if host is None or host.link_bandwidth is None or host.memory_bandwidth is None:
        return None
    return HostPath(
        link_bytes_per_s=host.link_bandwidth,
        host_bytes_per_s=host.memory_bandwidth / system.devices_per_node,
        device_bytes_per_s=system.accelerator.memory_bandwidth,
        shared=not system.peer_to_peer,
    )


def host_capacity_bytes(system: System) -> int | None:
    """A device's share of its host's memory; None where that is not known."""
    if system.host is None or system.host.memory is None:
        return None
    return system.host.memory // system.devices_per_node


def host_holds(system: System, host_bytes: Ints) -> Bools:
    """[rows]: whether a host has room for as much of each of its devices; yes where its memory is not known."""
    most = host_capacity_bytes(system)
    return np.ones(len(host_bytes), dtype=np.bool_) if most is None else host_bytes <= most


def check_offload(system: System, fixed: Mapping[str, Any]) -> None:
    """Raises LAY035 for an offload that is not known, JOB024 for one whose host rates are not known."""
    asked = fixed.get("offload", NONE)
    if asked not in OFFLOADS:
        raise LayoutError(35, f"--layout offload={asked}: not known", suggest(str(asked), OFFLOADS))
    if asked != NONE and host_path(system) is None:
        cause = f"--layout offload={asked}: the link to the host, or its memory rate, is not known of {system.name}"
        raise JobError(24, cause, "give both, as in --host-link 32GB/s --host-bandwidth 307.2GB/s")


def offloads(system: System, fixed: Mapping[str, Any]) -> tuple[str, ...]:
    """What the search tries of layouts that do not fit; nothing where an offload is fixed, or rates are not known."""
    return () if "offload" in fixed or host_path(system) is None else OFFLOADS[1:]


def host_notes(system: System, candidates: tuple[Candidate, ...]) -> tuple[str, ...]:
    """What is not known of the hosts, where it matters."""
    if host_path(system) is None:
        text = f"offload is not searched: the link to the host, or its memory rate, is not known of {system.name}"
        return (f"{text} (--host-link, --host-bandwidth)",)
    used = any(item.layout["offload"] != NONE for item in candidates)
    return (UNKNOWN_ROOM.format(name=system.name),) if used and host_capacity_bytes(system) is None else ()


def offload_told(system: System, job: TrainJob, shown: Candidate) -> dict[str, Any] | None:
    """The rates behind the shown layout's offload, and where its gradients are cast; None where it has none."""
    path = host_path(system)
    if path is None or shown.layout["offload"] == NONE:
        return None
    cast = gradient_cast(job.recipe, path)
    on = "device" if cast.on_device else "host"
    return {
        "link_bytes_per_s": path.link_bytes_per_s,
        "host_bytes_per_s": path.host_bytes_per_s,
        "cast_on": on if cast.wide > cast.narrow and "optimizer" in shown.layout["offload"].split("+") else None,
        "host_bytes": shown.memory["host_bytes"],
        "host_capacity_bytes": shown.memory["host_capacity_bytes"],
        "wait_s": shown.measures["step"]["offload_wait_s"],
    }


def host_full(system: System, needed_bytes: int) -> str:
    """Why a layout is out whose devices hold it and whose hosts do not."""
    held = show_bytes(host_capacity_bytes(system) or 0)
    return f"keeps {show_bytes(needed_bytes)} of each device on its host, more than a device's share of {held}"
