"""When has a search for faster settings paid for itself, and which settings does it find? Measured times go in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from meshwright.base.errors import CollectiveError
from meshwright.base.units import Bytes, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Payback:
    """payback_calls: the fewest that save what the search cost.   exceeding_calls: the fewest that save more.

    net_saving_s: over the calls that were asked about; negative before the payback.
    """

    payback_calls: int
    exceeding_calls: int
    net_saving_s: float
    pays: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One way to run a collective, and its measured times: by itself, and in place, beside the step's computation."""

    algorithm: str
    protocol: str
    transport: str
    channels: int
    threads: int
    chunk_bytes: Bytes
    alone_s: Seconds
    in_place_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What the search found. fastest_alone: what times of the collective by itself would have chosen.

    saving_s: of a call in place, against the settings before.   alone_loses_s: what the other choice is slower by.
    """

    path: Settings
    chosen: Settings
    fastest_alone: Settings
    looked_at: int
    saving_s: float
    alone_loses_s: float


def tuning(search_s: Seconds, saving_s: Seconds, calls: int) -> Payback:
    """A search that costs search_s once and saves saving_s a call, over `calls` of them.

    Decimal amounts are divided exactly: 0.6 s over 0.2 s is 3 calls. Raises COL004 when a call saves nothing. Source:
    chapter "Supernodes", section 6.4.3.
    """
    if saving_s <= 0:
        raise CollectiveError(
            4, "a call saves nothing, so no number of calls repays a search", "give a saving above 0 s"
        )
    ratio = Fraction(repr(search_s)) / Fraction(repr(saving_s))
    return Payback(
        payback_calls=math.ceil(ratio),
        exceeding_calls=math.floor(ratio) + 1,
        net_saving_s=float(calls * Fraction(repr(saving_s)) - Fraction(repr(search_s))),
        pays=calls >= ratio,
    )


def tuned(settings: tuple[Settings, ...]) -> Tuned:
    """The best of measured settings, the first being those in use: the path first, then what it runs with.

    Algorithm, protocol and transport are chosen among settings with the channels, threads and chunk in use; these then
    among settings with that path. Both go by the time in place, for what is fast alone takes the computation's share.
    Raises COL005 without settings. Source: chapter "Supernodes", section 6.4.3 and note 11.
    """
    if not settings:
        raise CollectiveError(5, "no settings to choose from", "give those in use first, then those tried")
    now = settings[0]
    first = [item for item in settings if _resources(item) == _resources(now)]
    path = min(first, key=_in_place)
    second = [item for item in settings if _path(item) == _path(path)]
    chosen = min(second, key=_in_place)
    alone = min(settings, key=lambda item: item.alone_s)
    return Tuned(
        path=path,
        chosen=chosen,
        fastest_alone=alone,
        looked_at=len({*first, *second}),
        saving_s=now.in_place_s - chosen.in_place_s,
        alone_loses_s=alone.in_place_s - chosen.in_place_s,
    )


def _in_place(item: Settings) -> float:
    return item.in_place_s


def _path(item: Settings) -> tuple[Any, ...]:
    return item.algorithm, item.protocol, item.transport


def _resources(item: Settings) -> tuple[Any, ...]:
    return item.channels, item.threads, item.chunk_bytes
