"""Tables of layouts go in, as a search looks at them; the rows that are best if something were different come out.

A plan chooses one row. Another may be chosen where memory, the tokens of a day or a rate differ: the rows that are best
under each of several what-ifs are kept beside the finalists, and among these flips are looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.traced import values
from meshwright.search.rank import order

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.layout.layouts import Layouts
    from meshwright.scenarios._training_table import TrainingTable

MOST: Final = 96
"""Rows among which flips are looked for."""
MEMORY_SPAN: Final = 2.0
"""What a rank may hold is looked at within this factor of what it may hold now."""
_NEXT: Final = 8
_NEAR: Final = 256
"""Rows of each table that are kept for each what-if, the best and those that come near it."""
_FRONT: Final = 32
_TIED: Final = 64
_HELD: Final = 16_384
_BEHIND: Final = 1e-9
"""How much longer a step is taken to be where a row of as long a step is chosen first; far above rounding."""
_EQUAL: Final = 1e-13
_SAME: Final = 1e-11
_EXCHANGING: Final = ("tp", "cp", "ep")
"""Degrees of what exchanges behind computation: no part of the step shows it until computation is faster."""
_HIDDEN: Final = 1e-6
"""What a second of the channel counts that nobody waits for: of rows of one step, those with less of it come first."""
_PARTS: Final = (
    "compute_s",
    "bubble_s",
    "update_s",
    "layer_exchange_s",
    "boundary_s",
    "state_exchange_s",
    "channel_s",
)
_FACTORS: Final = (1 / 4, 1 / 2, 2, 4)
_WHAT_IFS: Final = tuple(
    (compute, layers, channel)
    for factor in _FACTORS
    for compute, layers, channel in ((1, factor, factor), (1, factor, 1), (1, 1, factor), (factor, 1, 1))
)
"""Factors of the seconds of computation, of exchanges that layers wait for, and of weights and gradients."""
_SPENDS: Final = ("offload", "recompute")


@dataclass(slots=True, kw_only=True)
class Shortlist:
    """What a search passed by. evaluated: layouts to their table.   capacity_bytes: of a rank.   found: so far."""

    evaluated: Callable[[Layouts], TrainingTable]
    capacity_bytes: Any
    found: list[Layouts] = field(default_factory=list)

    def add(self, table: TrainingTable, kept: Bools) -> None:
        """Keep the contenders of a table, those of equal rank too; `kept` rows break no rule."""
        columns = table.layouts.columns
        behind = sum(np.not_equal(columns[name], "none") / len(_SPENDS) for name in _SPENDS)
        found = _contenders(table, kept, behind, self.capacity_bytes, tied=_TIED, following=0)
        found = np.union1d(found, _near(table, kept, self.capacity_bytes))
        self.found.append(table.layouts.take(found))
        if sum(map(len, self.found)) > _HELD:
            self.found = [self._kept(joined(self.found))]

    def near(self, finalists: Layouts) -> Layouts:
        """At most `_HELD` of the rows, by rank: those that may be best in some case, each as good as no other."""
        ranked = _by_rank(joined([finalists, *self.found]))
        return ranked.take(_without_twins(self.evaluated(ranked)))

    def with_finalists(self, finalists: Layouts) -> Layouts:
        """At most `MOST` of the rows, the best first; of rows that are alike in every part the first by rank."""
        return self._first(joined([finalists, *self.found]))

    def _kept(self, layouts: Layouts) -> Layouts:
        """Of all rows those that would be kept of one table of them."""
        ranked = _by_rank(layouts)
        near = _near(self.evaluated(ranked), np.ones(len(ranked), np.bool_), self.capacity_bytes)
        return joined([self._first(ranked), ranked.take(near)])

    def _first(self, layouts: Layouts) -> Layouts:
        ranked = _by_rank(layouts)
        table = self.evaluated(ranked)
        distinct = _without_twins(table)
        kept = np.zeros(len(ranked), np.bool_)
        kept[distinct] = True
        behind = np.arange(len(ranked)) / max(len(ranked), 1)
        found = _contenders(table, kept, behind, self.capacity_bytes, tied=1, following=_NEXT)
        return ranked.take(found[:MOST])


def ranks(layouts: Layouts) -> Ints:
    """The rows in the order that breaks ties: no offload first, then no recompute, then by id."""
    spends = [np.not_equal(layouts.columns[name], "none") for name in _SPENDS]
    return order(spends, [layout.id for layout in layouts.rows()])


def _by_rank(layouts: Layouts) -> Layouts:
    """Each layout once."""
    layouts = layouts.take(_once(layouts))
    return layouts.take(ranks(layouts))


def joined(tables: list[Layouts]) -> Layouts:
    """Rows of tables behind each other."""
    columns: Mapping[str, Any] = tables[0].columns
    return tables[0].changed({name: np.concatenate([table.columns[name] for table in tables]) for name in columns})


def _once(layouts: Layouts) -> Ints:
    """The first of rows that are the same layout."""
    rows = zip(*(column.tolist() for column in layouts.columns.values()), strict=True)
    first: dict[tuple[Any, ...], int] = {}
    for place, row in enumerate(rows):
        first.setdefault(row, place)
    return np.array(list(first.values()), dtype=np.int64)


def _contenders(  # noqa: PLR0917 - a table, and what of it is looked for
    table: TrainingTable, kept: Bools, behind: Any, capacity_bytes: Any, tied: int, following: int
) -> Ints:
    """Rows that are best in some case, the present one first, with at most `tied` that are as good in each.

    behind: from 0 to 1, which of equal rows is chosen first.   following: so many rows behind the present best as well.
    """
    held, took = values(table.ledger.total), values(table.step_s) * (1 + _BEHIND * behind)
    usable = kept & (table.count > 0)
    rows = np.flatnonzero(usable & (held <= capacity_bytes))
    small = np.flatnonzero(usable & (held <= capacity_bytes / MEMORY_SPAN))
    best, least = (_least(took[own], own, tied) for own in (rows, small))
    own = usable & (held > capacity_bytes / MEMORY_SPAN) & (held <= capacity_bytes * MEMORY_SPAN)
    if len(least):
        own &= took <= took[least[0]]
    if len(best):  # of those that hold more only a faster one comes in, of the others one that holds less
        own &= (held <= held[best].min()) | (took < took[best[0]])
    found = [best, least, _front(held, took, np.flatnonzero(own), capacity_bytes, tied)]
    found += [_least(score * (1 + _BEHIND * behind[rows]), rows, tied) for score in _scores(table, rows)]
    found.append(rows[np.argsort(took[rows], kind="stable")[:following]] if following else rows[:0])
    return np.array(list(dict.fromkeys(np.concatenate(found).tolist())), dtype=np.int64)


def _near(table: TrainingTable, kept: Bools, capacity_bytes: Any) -> Ints:
    """Of rows that fit without offload the `_NEAR` best of each what-if, in no order; of rows as each, `_TIED`."""
    usable = kept & (table.count > 0) & np.equal(table.layouts.columns["offload"], "none")
    rows = np.flatnonzero(usable & (values(table.ledger.total) <= capacity_bytes))
    if len(rows) <= _NEAR:
        return rows
    rows, group = _alike(table, rows)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    scores = [values(table.step_s)[rows[first]], *_scores(table, rows[first])]
    hidden = _HIDDEN * values(table.step.channel_s)[rows[first]]
    chosen = np.zeros(len(first), np.bool_)
    for score in scores:
        chosen[np.argsort(score + hidden)[:_NEAR]] = True
    place = np.arange(len(rows)) - first[group]
    return rows[chosen[group] & (place < _TIED)]


def _alike(table: TrainingTable, rows: Ints) -> tuple[Ints, Ints]:
    """The rows so that those that are alike in every part of a step stand together, and the number of these of each."""
    names = (*_PARTS, "forward_s", "hardware_flops", "sent_bytes")
    parts = [values(getattr(table.step, name))[rows] for name in names]
    parts += [table.layouts.degree(name)[rows] for name in _EXCHANGING]
    mixed: Any = sum(part / max(part.max(), 1e-300) * np.sqrt(2 + place) for place, part in enumerate(parts))
    rising = np.argsort(mixed, kind="stable")
    key = mixed[rising]
    return rows[rising], np.cumsum(np.diff(key, prepend=key[:1]) > _SAME * key)


def _least(score: Floats, rows: Ints, count: int) -> Ints:
    """The rows of the least score, at most so many, and none that is only chosen behind them."""
    if not len(rows):
        return rows
    return rows[np.flatnonzero(score <= score.min() * (1 + _EQUAL))[:count]]


def _scores(table: TrainingTable, rows: Ints) -> list[Floats]:
    """Seconds of a step in each what-if, roughly: what the channel takes beyond computation is waited for."""
    step = table.step
    compute, bubble, update, layers, ends, state, channel = (values(getattr(step, name))[rows] for name in _PARTS)
    found: list[Floats] = []
    for by_compute, by_layers, by_channel in _WHAT_IFS:
        waited = np.maximum(state * min(by_channel, 1.0), channel * by_channel - compute * by_compute)
        found.append((compute + bubble) * by_compute + update + (layers + ends) * by_layers + waited)
    return found


def _front(held: Any, score: Floats, rows: Ints, capacity_bytes: Any, tied: int) -> Ints:
    """Rows that are best where a rank may hold so many bytes and no more: those nearest to the present bound.

    tied: above 1, rows that hold as much and take as long come with them.
    """
    if not len(rows):
        return rows
    rising = rows[np.lexsort([score[rows], held[rows]])]
    least = np.minimum.accumulate(score[rising])
    first = np.ones(len(rising), np.bool_)
    first[1:] = score[rising][1:] < least[:-1] * (1 - _EQUAL)
    same = (np.diff(held[rising]) == 0) & (np.diff(score[rising]) <= _EQUAL * score[rising][1:])
    group = np.cumsum(np.concatenate([[True], ~same])) - 1
    start = np.flatnonzero(np.concatenate([[True], ~same]))
    found = rising[first[start][group]] if tied > 1 else rising[first]
    within = held[found] <= capacity_bytes
    return np.concatenate([found[within][-_FRONT * tied :], found[~within][: _FRONT * tied]])


def _without_twins(table: TrainingTable) -> Ints:
    """The first of rows that are alike in every part of a step and in what a rank holds."""
    step, ledger = table.step, table.ledger
    parts = (
        *(getattr(step, name) for name in step.__slots__ if name != "slowest"),
        *(getattr(ledger, name) for name in ("resident", "computed", "total")),
        *(table.layouts.degree(name) for name in _EXCHANGING),
    )
    keys = np.stack([np.asarray(values(part), dtype=np.float64) for part in parts])
    seen: dict[bytes, int] = {}
    rounded = np.char.mod("%.11e", keys.T)
    for row, key in enumerate(rounded):
        seen.setdefault(key.tobytes(), row)
    return np.array(list(seen.values()), dtype=np.int64)
