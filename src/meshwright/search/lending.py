"""Shortfalls and spares of whole amounts go in; who lends how much to whom, in the fewest loans, comes out.

A plan of fewest loans can be reached by transfers that each leave a borrower or a lender with nothing: its loans form
trees, and a leaf of a tree either needs all that it still takes or gives all that it still has. So the exact search
tries sequences of such transfers alone. Of equal numbers of loans that plan is chosen which keeps the largest spaces
free whole, and then the one with the lowest numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Search: TypeAlias = Literal["exact", "greedy"]
Row: TypeAlias = tuple[int, ...]
Pairs: TypeAlias = tuple[tuple[int, int, int], ...]
_MOST_EXACT: Final = 9
"""Borrowers and lenders together, up to which every sequence is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """borrower, lender: places in the columns of shortfalls and spares."""

    borrower: int
    lender: int
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lending:
    """loans: in the order of borrowers, then lenders.   search: whether fewer loans are known not to exist."""

    loans: tuple[Loan, ...]
    search: Search


def lend(shortfalls: Sequence[int], spares: Sequence[int]) -> Lending | None:
    """Loans that cover every shortfall from the spares of others; None where all spares together are too little.

    shortfalls, spares: a number for every place; a place with a shortfall has no spare. Exact up to nine borrowers
    and lenders; beyond, the largest shortfall takes the smallest spare that covers it, or else the largest one.
    """
    if sum(shortfalls) > sum(spares):
        return None
    needs, has = tuple(shortfalls), tuple(spares)
    exact = sum(map(bool, (*needs, *has))) <= _MOST_EXACT
    found = _exact(needs, has, {})[2] if exact else _greedy(needs, has)
    loans = tuple(Loan(borrower=borrower, lender=lender, amount=amount) for borrower, lender, amount in sorted(found))
    return Lending(loans=loans, search="exact" if exact else "greedy")


def _exact(needs: Row, has: Row, known: dict[tuple[Row, Row], tuple[int, Row, Pairs]]) -> tuple[int, Row, Pairs]:
    """The best of all ways on: number of loans, spaces left (negative, so that least is best), and the loans."""
    if not any(needs):
        return 0, tuple(sorted(-space for space in has)), ()
    if (needs, has) not in known:
        ways: list[tuple[int, Row, Pairs]] = []
        for borrower in (place for place, need in enumerate(needs) if need):
            for lender in _distinct(has):
                amount = min(needs[borrower], has[lender])
                rest = _less(needs, borrower, amount), _less(has, lender, amount)
                count, left, loans = _exact(*rest, known)
                ways.append((count + 1, left, tuple(sorted((*loans, (borrower, lender, amount))))))
        known[needs, has] = min(ways)
    return known[needs, has]


def _distinct(has: Row) -> list[int]:
    """Lenders, the first of those with equal spare."""
    first: dict[int, int] = {}
    for place, space in enumerate(has):
        if space:
            first.setdefault(space, place)
    return list(first.values())


def _less(row: Row, place: int, amount: int) -> Row:
    return (*row[:place], row[place] - amount, *row[place + 1 :])


def _greedy(needs: Row, has: Row) -> Pairs:
    found: list[tuple[int, int, int]] = []
    spaces = list(has)
    for borrower in sorted(range(len(needs)), key=lambda place: (-needs[place], place)):
        need = needs[borrower]
        while need:
            open_ = [place for place, space in enumerate(spaces) if space]
            covering = [place for place in open_ if spaces[place] >= need]
            lender = min(covering, key=lambda place: (spaces[place], place)) if covering else -1
            lender = lender if covering else max(open_, key=lambda place: (spaces[place], -place))
            amount = min(need, spaces[lender])
            found.append((borrower, lender, amount))
            spaces[lender] -= amount
            need -= amount
    return tuple(found)
