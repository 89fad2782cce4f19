"""How long until everyone is connected? Endpoints, peers and times go in; both ways to connect them come out.

A context for each pair takes system calls and a message on another network, pair after pair. Endpoints and channels are
made apart: their number is a sum where the other is a product. Both repeat at every restart and every change of size.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from meshwright.base.errors import JobError
from meshwright.base.units import Seconds
from meshwright.cost.interconnect import channel_setup_s, pair_setup_s, spread_s
from meshwright.job.serve import check_range

_MOST: Final = 2**24
_MOST_CORES: Final = 2**16
_MOST_CALLS: Final = 1000
_LONGEST_S: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """objects: to be made.   each_s: of a connection, or of a channel.   serial_s: one after the other."""

    objects: int
    each_s: float
    serial_s: float
    spread_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSetup:
    """Both ways. ratio: of their times.   saved_s: of a recovery that connects anew, on all cores."""

    pair: Setup
    channel: Setup
    ratio: float
    saved_s: float
    not_modelled: tuple[str, ...]


def connection_setup(
    *, endpoints: int, peers: int, calls: int, call_s: Seconds, round_trip_s: Seconds, cores: int
) -> ConnectionSetup:
    """`endpoints` of one host with `peers` of others, each with each; calls: system calls of one pair.

    Raises JOB001 (counts), JOB115 (times). Source: chapter "Supernodes", section 6.5.5, figure 6-41.
    """
    check_range("endpoints", endpoints, 1, _MOST)
    check_range("peers", peers, 1, _MOST)
    check_range("calls", calls, 1, _MOST_CALLS)
    check_range("cores", cores, 1, _MOST_CORES)
    if not (0 < call_s <= _LONGEST_S and 0 <= round_trip_s <= _LONGEST_S):
        raise JobError(115, f"calls of {call_s} s and a round trip of {round_trip_s} s", "give a call above zero")
    pairs = endpoints * peers
    one_by_one = pair_setup_s(pairs, calls, call_s, round_trip_s)
    apart = channel_setup_s(endpoints, peers, call_s, round_trip_s)
    pair = Setup(
        objects=pairs,
        each_s=float(pair_setup_s(1, calls, _exact(call_s), _exact(round_trip_s))),
        serial_s=one_by_one,
        spread_s=spread_s(one_by_one, cores),
    )
    channel = Setup(
        objects=endpoints + peers,
        each_s=float(channel_setup_s(0, 1, _exact(call_s), _exact(round_trip_s))),
        serial_s=apart,
        spread_s=spread_s(apart, cores),
    )
    return ConnectionSetup(
        pair=pair,
        channel=channel,
        ratio=pair.serial_s / channel.serial_s,
        saved_s=pair.spread_s - channel.spread_s,
        not_modelled=("locks of the driver, which keep cores from working side by side", "retries and discovery"),
    )


def _exact(time_s: float) -> Fraction:
    """The decimal that was given: a sum of such times is exact too."""
    return Fraction(repr(float(time_s)))
