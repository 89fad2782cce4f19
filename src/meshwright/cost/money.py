"""Devices and times go in; what was occupied, and what an on-time session costs, come out."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshwright.base.numbers import Floats, Ints, N, floor, maximum, minimum, where, whole
from meshwright.base.traced import formula


@formula
def occupied_gpu_s(devices: int, last_finish_s: N) -> N:
    """Device-seconds from the common arrival to the last finish, idle devices included.

    Source: chapter "Supernodes", equation 6-13.
    """
    return last_finish_s * devices


@formula
def per_on_time_gpu_s(occupied_gpu_s: N, on_time_count: Any) -> N:
    """Device-seconds per session that met the deadline; not a number where none did, never zero."""
    served = where(np.asarray(on_time_count) > 0, on_time_count, np.nan)
    return occupied_gpu_s / served


@formula
def energy_j(power_w: N, occupied_s: N) -> N:
    """Energy of a system held at full power. Source: chapter "Supernodes", section 6.7.2. Leaves out idling."""
    return power_w * occupied_s


@formula
def powered_nodes(budget_w: N, base_w: N, node_w: N) -> N:
    """Whole boxes, one number or a column, that a power budget carries beside a base load.

    Source: chapter "Supernodes", equation 6-11.
    """
    return maximum(floor((budget_w - base_w) / node_w), 0)


@formula
def turns(replicas: Ints, sessions: int) -> Ints:
    """[rows, sessions]: how many sessions a session's replica runs up to and with it.

    Sessions are dealt round robin, and each replica runs one at a time. Source: chapter "Supernodes", section 6.7.1.
    """
    return np.arange(int(sessions))[None, :] // replicas[:, None] + 1


@formula
def finish_s(service_s: N, turn: Any) -> N:
    """Finish of a session that is the `turn`-th of its replica. Source: chapter "Supernodes", section 6.7.1."""
    return service_s * turn


@formula
def on_time_count(service_s: Floats, replicas: Ints, sessions: int | Ints, deadline_s: float | Floats | None) -> Ints:
    """How many sessions finish by the deadline: all of them when there is none, none where the service has no time.

    Each replica finishes as many turns as its deadline holds. Source: chapter "Supernodes", section 6.7.2.
    """
    if deadline_s is None:
        return np.broadcast_to(np.asarray(sessions), len(service_s))
    held: Any = floor(deadline_s / service_s)
    held = where(finish_s(service_s, held) > deadline_s, held - 1, held)  # the quotient was rounded up
    held = where(finish_s(service_s, held + 1) <= deadline_s, held + 1, held)  # or down
    held = where(held >= 0, minimum(held, sessions), np.zeros(1, dtype=np.int64))
    return whole(minimum(replicas * held, sessions))
