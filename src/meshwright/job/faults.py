"""`card=0,at=20ms,stall=40ms` goes in; what stops, when and for how long come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import JobError, suggest
from meshwright.base.units import Seconds, parse_quantity

_WORDS: Final = ("at", "stall")
_RECONNECT: Final = "reconnect"
_NOTHING_S: Final = Seconds(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One stop of one part.

    domain: `card`, `node`, or a fault domain that the system names (a power supply, a switch).   index: which one.
    at, stall: seconds from the sessions' arrival, and until the part is back.   reconnect: after that, until its
    connections are set up again.
    """

    domain: str
    index: int
    at: Seconds
    stall: Seconds
    reconnect: Seconds = _NOTHING_S


def read_fault(text: str) -> Fault:
    """A fault from its option text. Raises JOB004 for a malformed one, IO001..IO003 for a faulty time."""
    parts = [part.partition("=") for part in text.split(",")]
    pairs = {name.strip(): value.strip() for name, _, value in parts}
    domains = [name.strip() for name, _, _ in parts if name.strip() not in {*_WORDS, _RECONNECT}]
    absent = [name for name in _WORDS if name not in pairs]
    if absent or len(domains) != 1:
        what = f"has no {absent[0]}" if absent else f"names {len(domains)} parts"
        raise JobError(4, f"--fault {text}: {what}", "write as in --fault card=0,at=20ms,stall=40ms")
    domain = domains[0]
    if not pairs[domain].isdecimal() or len(pairs[domain]) > 9:  # noqa: PLR2004 - more than any system has
        raise JobError(4, f"--fault {text}: {domain}={pairs[domain]!r} is no number", f"write as in {domain}=0")
    stated = [name for name in (*_WORDS, _RECONNECT) if name in pairs]
    times = {name: Seconds(float(parse_quantity(pairs[name], "seconds", f"--fault {name}"))) for name in stated}
    return Fault(domain=domain, index=int(pairs[domain]), **times)


def unknown_domain(fault: Fault, known: tuple[str, ...]) -> JobError:
    """The error for a fault domain that the system does not name."""
    return JobError(5, f"--fault {fault.domain}={fault.index}: no such fault domain", suggest(fault.domain, known))


def unknown_index(fault: Fault, count: int) -> JobError:
    """The error for a part beyond those that there are."""
    cause = f"--fault {fault.domain}={fault.index}: the system has {count}"
    return JobError(5, cause, f"give {fault.domain} from 0 to {count - 1}")
