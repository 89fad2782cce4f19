"""How fast is one user on a machine whose weights need no HBM? Component times go in; a token's time comes out.

An analysis: no such silicon is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes, Seconds, Share
from meshwright.cost.weight_paths import apart_s, shared_s, token_s
from meshwright.job.serve import check_range

_MOST: Final = 2**60
_MOST_COUNT: Final = 2**20
LEFT_OUT: Final = ("batches: one user alone", "how component times come about: they are given")


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """A machine by the seconds of one token.

    paths: of weights and state, `separate` or one `shared` memory.   balance: of the stages, their mean over the
    longest.   layers, exchanges: of which each layer has so many.
    """

    name: str
    paths: Literal["separate", "shared"]
    weights: Seconds
    state: Seconds
    products: Seconds
    communication: Seconds
    fixed: Seconds
    balance: Share
    layers: int
    exchanges: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OneUser:
    """One machine. work_s: storage and computation, over the balance.   bound: the longest component."""

    name: str
    weights_s: float
    work_s: float
    communication_s: float
    communication_fraction: float
    exchanges: int
    step_s: float
    tokens_per_s: float
    bound: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneUserMachines:
    """The machines in the order given."""

    machines: tuple[OneUser, ...]
    not_modelled: tuple[str, ...]


def one_user(machines: tuple[Components, ...]) -> OneUserMachines:
    """A token of one user on every machine. Raises JOB133 (times and balance), JOB001 (counts).

    Source: chapter "Supernodes", section 6.7.4, equation 6-15, figures 6-54 and 6-55.
    """
    return OneUserMachines(machines=tuple(_one_user(times) for times in machines), not_modelled=LEFT_OUT)


def _one_user(times: Components) -> OneUser:
    given = (times.weights, times.state, times.products, times.communication, times.fixed)
    if min(given) < 0 or max(given[:3]) <= 0 or not 0 < times.balance <= 1:
        cause = "component times below zero, no work, or a balance that is no share"
        raise JobError(133, cause, "give times from 0, some work, and a balance above 0 to 1")
    check_range("layers", times.layers, 1, _MOST_COUNT)
    check_range("exchanges", times.exchanges, 0, _MOST_COUNT)
    paths = apart_s if times.paths == "separate" else shared_s
    plain = paths(times.weights, times.state, times.products)
    step = token_s(plain, times.balance, times.communication, times.fixed)
    work = token_s(plain, times.balance, 0.0, 0.0)
    parts = {"storage and computation": work, "communication": times.communication, "fixed": times.fixed}
    return OneUser(
        name=times.name,
        weights_s=times.weights,
        work_s=work,
        communication_s=times.communication,
        communication_fraction=times.communication / step,
        exchanges=times.layers * times.exchanges,
        step_s=step,
        tokens_per_s=1 / step,
        bound=max(parts, key=lambda name: parts[name]),
    )


def unnamed_s(speed: float, work_s: Seconds, communication_s: Seconds) -> float:
    """What a published speed, tokens a second, leaves beside its work and communication. Raises JOB133.

    Source: chapter "Supernodes", section 6.7.4.
    """
    if speed <= 0 or min(work_s, communication_s) < 0:
        raise JobError(133, "a speed of zero, or times below it", "give a speed above zero and times from 0")
    return 1 / speed - work_s - communication_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRoom:
    """devices: whose fast memory alone holds the weights.   *_sessions: whose state fits beside weights in ROM."""

    devices: int
    large_sessions: int
    fast_sessions: int
    times_more_sessions: float | None


def state_room(
    checkpoint_bytes: Bytes, device_bytes: Bytes, large_bytes: Bytes, fast_bytes: Bytes, session_bytes: Bytes
) -> StateRoom:
    """Weights in the SRAM of a device, or state in it; or state in a larger memory beside.

    device_bytes: SRAM of one device.   large_bytes, fast_bytes: room for state in HBM and in SRAM, where weights are in
    ROM. Raises JOB001 (sizes). Source: chapter "Supernodes", section 6.7.4.
    """
    for name, size in (
        ("checkpoint_bytes", checkpoint_bytes),
        ("device_bytes", device_bytes),
        ("session_bytes", session_bytes),
    ):
        check_range(name, size, 1, _MOST)
    for name, size in (("large_bytes", large_bytes), ("fast_bytes", fast_bytes)):
        check_range(name, size, 0, _MOST)
    large, fast = large_bytes // session_bytes, fast_bytes // session_bytes
    return StateRoom(
        devices=-(-checkpoint_bytes // device_bytes),
        large_sessions=large,
        fast_sessions=fast,
        times_more_sessions=large / fast if fast else None,
    )


def summed_bytes(parts: dict[str, Bytes]) -> int:
    """Bytes of a checkpoint by its parts. Raises JOB001. Source: chapter "Supernodes", section 6.7.4."""
    for name, size in parts.items():
        check_range(name, size, 0, _MOST)
    return sum(parts.values())
