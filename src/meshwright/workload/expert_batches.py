"""Choices of a batch and where experts lie go in; rows, drops, padding and what each rank sends come out, exactly.

A slot is one copy of one expert: its choices are dealt to its copies in turn, in the order of tokens. A group of ranks
holds the same slots: one rank, or those that cut its experts between them (etp).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import numpy as np

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints

Dedup: TypeAlias = Literal["none", "rank", "node"]
"""How a token's row is sent: once for every choice; once to every rank that holds some of its experts; or once to every
box that does, where one rank passes it on."""
DROPPED: Final = -1
_NARROW: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slots:
    """Columns, one row a slot: its expert, and the group that holds it. Slots of one expert follow each other."""

    expert: Ints
    group: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Executed:
    """What one layer runs. slot: [tokens, top_k], DROPPED where the capacity was used up.

    asked, kept: [slots] rows before and after the capacity.   capacity: rows of a slot, None where there is none.
    """

    slot: Ints
    asked: Ints
    kept: Ints
    capacity: int | None

    @property
    def dropped(self) -> int:
        """Choices that no slot ran."""
        return int(self.asked.sum() - self.kept.sum())

    @property
    def padding(self) -> int:
        """Rows of zeros that are run beside: every slot is filled up to its capacity."""
        return 0 if self.capacity is None else len(self.kept) * self.capacity - int(self.kept.sum())

    @property
    def rows(self) -> Ints:
        """[slots] rows that are run, those of padding among them."""
        return self.kept if self.capacity is None else np.full_like(self.kept, self.capacity)


def capacity_rows(factor: Fraction, tokens: int, top_k: int, slots: int) -> int:
    """Rows that a slot takes at most: floor(factor x tokens x top_k / slots), of exact fractions.

    Source: chapter "Training systems", section 10.3.4.
    """
    return int(factor * tokens * top_k / slots)


def least_factor(rows: int, tokens: int, top_k: int, slots: int) -> float:
    """The least factor, as it is written in decimals, under which a slot takes so many rows."""
    found = rows * slots / (tokens * top_k)
    while capacity_rows(Fraction(repr(found)), tokens, top_k, slots) < rows:
        found = nextafter(found, inf)
    return found


def executed(choices: Ints, slots: Slots, capacity: int | None) -> Executed:
    """The choices of a layer by slot; where a capacity is used up, those of later tokens are dropped.

    choices: [tokens, top_k] experts.
    """
    experts = int(slots.expert.max()) + 1
    copies = np.bincount(slots.expert, minlength=experts)
    first = np.cumsum(copies) - copies
    wanted = choices.reshape(-1)
    slot = first[wanted] + earlier(wanted, experts) % copies[wanted]
    asked = np.bincount(slot, minlength=len(slots.expert))
    if capacity is None:
        return Executed(slot=slot.reshape(choices.shape), asked=asked, kept=asked, capacity=None)
    late = earlier(slot, len(asked)) >= capacity
    held = np.where(late, DROPPED, slot).reshape(choices.shape)
    return Executed(slot=held, asked=asked, kept=np.minimum(asked, capacity), capacity=capacity)


def earlier(items: Ints, kinds: int) -> Ints:
    """How many of the items before each are like it. kinds: one more than the largest."""
    narrow = items.astype(np.uint16) if kinds <= _NARROW else items  # whose sort is by digits, and the same
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(items, minlength=kinds)
    first = np.cumsum(counts) - counts
    found = np.empty(len(items), dtype=np.int64)
    found[order] = np.arange(len(items)) - first[items[order]]
    return found


def dealt(tokens: int, ranks: int) -> Ints:
    """[tokens]: the rank on which each stands before the layer: equal shares, neighbours together."""
    return np.arange(tokens) * ranks // tokens


def rows_sent(source: Ints, target: Ints, sources: int, targets: int, *, once: bool) -> Ints:
    """[sources, targets]: rows from each to each, those to oneself included.

    source: [tokens].   target: [tokens, top_k], DROPPED for none.   once: of a token one row to a target, however many
    of its choices are there.
    """
    token, to = _pairs(target, once=once)
    return _table(source[token], to, sources, targets)


def relayed(source: Ints, target: Ints, ranks: int, node_ranks: int) -> tuple[Ints, Ints]:
    """Two [ranks, ranks] of rows: a token's to one rank of every other box that holds some of its experts, and on.

    In another box it is the rank with the sender's place; in its own box the token goes to its ranks at once, in the
    second part. Source: DeepSeek-AI, DeepSeek-V3, 2024 (arXiv:2412.19437), section 3.2.2.
    """
    own, place = source // node_ranks, source % node_ranks
    node = np.where(target == DROPPED, DROPPED, target // node_ranks)
    token, box = _pairs(np.where(node == own[:, None], DROPPED, node), once=True)
    entry = np.minimum(box * node_ranks + place[token], ranks - 1)
    first = _table(source[token], entry, ranks, ranks)
    token, to = _pairs(target, once=True)
    box = to // node_ranks
    relay = np.where(box == own[token], source[token], np.minimum(box * node_ranks + place[token], ranks - 1))
    return first, _table(relay, to, ranks, ranks)


def _pairs(target: Ints, *, once: bool) -> tuple[Ints, Ints]:
    """Tokens and their targets, one a choice, or each pair once."""
    if once:
        target = np.sort(target, axis=1)
    kept = target != DROPPED
    if once:
        kept[:, 1:] &= target[:, 1:] != target[:, :-1]
    token = np.broadcast_to(np.arange(len(target))[:, None], target.shape)[kept]
    return token, target[kept]


def _table(source: Ints, to: Ints, sources: int, targets: int) -> Ints:
    found = np.bincount(source * targets + to, minlength=sources * targets)
    return cast("Ints", found.reshape(sources, targets))


def without_own(sent: Ints) -> Ints:
    """The rows that leave their rank: what stays is not sent."""
    found = sent.copy()
    np.fill_diagonal(found, 0)
    return found


def skipping(slot: Ints) -> Bools:
    """[tokens]: those that no expert works on, whose state goes by."""
    return cast("Bools", (slot == DROPPED).all(axis=1))
