"""What a prediction is made of: amounts with their names, the plan's own and those by which a run differs by design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

LEDGER: Final = "planned"
"""The name of what the planner counts; every other term is a difference by design, with its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One amount. name: `planned`, or a word for the difference.   reason: why the run has it, and the plan not."""

    name: str
    value: int
    reason: str


def planned(value: float) -> Term:
    """What the planner counts, a whole number. Raises nothing: a part of a byte is our bug."""
    whole = round(value)
    assert abs(value - whole) < 1e-6 * max(abs(value), 1), value
    return Term(name=LEDGER, value=whole, reason="")


def differs(name: str, value: float, reason: str) -> Term:
    """A difference by design."""
    whole = round(value)
    assert abs(value - whole) < 1e-6 * max(abs(value), 1), (name, value)
    return Term(name=name, value=whole, reason=reason)


def total(terms: Iterable[Term]) -> int:
    """All together."""
    return sum(term.value for term in terms)
