"""A space of layouts goes in, table after table; the best of them come out, with what was seen of all.

Layouts that differ in nothing but their schedule are judged together first: where not even their bound is among the
best that are known, none of them is evaluated. Rows are ranked by grade (on time, late, too large), then by the
objective, then without offload before with, without recompute before with, then by id. An interrupted search keeps
what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.numbers import is_nan, where
from meshwright.base.traced import values
from meshwright.cost.training_offload import NONE
from meshwright.scenarios._training_bounds import ROUNDING, Goals, least_goals
from meshwright.scenarios._training_host import offloads
from meshwright.scenarios._training_none import none_found
from meshwright.scenarios._training_refusals import refused
from meshwright.scenarios._training_space import (
    Groups,
    chunks,
    firsts,
    group_tables,
    layouts_of,
    offloading,
    sizes,
    takes_offload,
    training_space,
)
from meshwright.scenarios._training_table import TrainingTable, training_table
from meshwright.search.rank import order

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.job.train import TrainJob
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.scenarios._training_space import Space
    from meshwright.system.system import System

Progress = Callable[[int, int], None]
Watch = Callable[[TrainingTable, "Bools"], None]
ON_TIME, LATE, TOO_LARGE, REFUSED = range(4)
_EARLY: Final = 64
"""Groups of each table that are evaluated at once: good ones, known early, spare the others."""
_AT_ONCE: Final = 4_096
_SLACK: Final = 8
"""How many times as many rows as are asked for are held before they are ranked."""
_NOTHING: Final = Goals(too_large=np.ones(1, dtype=np.bool_), goal=np.full(1, np.inf))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Of all layouts. evaluated: those that a bound did not rule out; fitting, on_time: of these.

    complete: False where the search was interrupted.
    """

    looked_at: int
    evaluated: int
    fitting: int
    on_time: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Best:
    """The best so far, in no order, with what ranks them; None before the first."""

    layouts: Layouts | None
    grade: Ints
    goals: Goals

    def bound(self, count: int) -> Goals:
        """What a row must be within to be among the first `count`."""
        if len(self.goals) < count:
            return _NOTHING
        place = np.lexsort([self.goals.goal, self.goals.too_large])[count - 1]
        return self.goals.take([place])


_NONE: Final = _Best(layouts=None, grade=np.zeros(0, dtype=np.int64), goals=_NOTHING.take(slice(0, 0)))
_UNSEEN: Final = Seen(looked_at=0, evaluated=0, fitting=0, on_time=0, complete=True)


def search_training(  # noqa: PLR0917 - the nouns, the space, and who is told
    model: Model,
    system: System,
    job: TrainJob,
    options: TrainOptions,
    space: Space,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> tuple[TrainingTable, Seen]:
    """The best `options.keep` layouts, best first, and what was seen. The same for any length of the tables.

    progress: told how many layouts are judged, of how many; may raise KeyboardInterrupt. Layouts that do not fit are
    tried with every offload, unless one is fixed. Where no layout keeps every rule beside the fixed fields, those that
    break one are listed, to be judged. watch: is shown every table that is evaluated, and which of its rows keep the
    rules. Raises the codes of `none_found` where there is not even one of these, and KeyboardInterrupt where the search
    was interrupted before the first.
    """
    best, seen = _NONE, _UNSEEN
    tried = offloads(system, options.layout)
    spaces = (space, *(offloading(space, name) for name in tried if takes_offload(space, model, name)))
    total = sum(item.size for item in spaces)
    ends: list[Floats] = []
    for item in spaces:
        if seen.complete:
            best, seen = _searched(model, system, job, options, item, (best, seen), (progress, total, watch), ends)
    if seen.complete and not seen.evaluated:
        asked = training_space(model, system, job, options.layout, options.context, "asked", space.engine)
        best, seen = _searched(model, system, job, options, asked, (_NONE, _UNSEEN), (progress, asked.size, watch), [])
    if best.layouts is None or not len(best.layouts):
        if not seen.complete:
            raise KeyboardInterrupt  # before a layout was judged: there is nothing to keep, and no rule to blame
        raise none_found(model, system, job, space, options.layout.get("micro_batch"))
    ranked = best.layouts.take(_ranked(best, options.keep))
    return training_table(model, system, job, options, ranked), seen


def _searched(  # noqa: PLR0917 - as above
    model: Model,
    system: System,
    job: TrainJob,
    options: TrainOptions,
    space: Space,
    before: tuple[_Best, Seen],
    told: tuple[Progress | None, int, Watch | None],
    ends: list[Floats],
) -> tuple[_Best, Seen]:
    """The best and what was seen, with one more space. told: who is told of how many layouts, and who watches."""
    (best, seen), (progress, total, watch) = before, told
    broken = np.zeros(0, dtype=np.bool_)

    def bound() -> Goals:
        return best.bound(options.keep)

    try:
        for layouts, ruled_out in _promising(model, system, job, options, space, bound, ends):
            seen = replace(seen, looked_at=seen.looked_at + ruled_out)
            if layouts is not None:
                table = training_table(model, system, job, options, layouts)
                broken = np.zeros(len(table), dtype=np.bool_)
                if space.scope == "asked":
                    broken = refused(model, job, options.context, layouts, space.engine)
                seen = _counted(seen, table, broken)
                if watch is not None:
                    watch(table, ~broken)
                if _is_tried(options, layouts):
                    needy = _in_need(model, system, job, options, table, bound())
                    best = best if needy is None else _with(best, needy, broken[: len(needy)], options.keep)
                else:
                    best = _with(best, table, broken, options.keep)
            if progress is not None:
                progress(seen.looked_at, total)
            if len(broken) and broken.all():
                break  # what contradicts itself does so in every table
    except KeyboardInterrupt:
        seen = replace(seen, complete=False)
    return best, seen


def _promising(  # noqa: PLR0917 - as above
    model: Model,
    system: System,
    job: TrainJob,
    options: TrainOptions,
    space: Space,
    bound: Callable[[], Goals],
    ends: list[Floats],
) -> Iterator[tuple[Layouts | None, int]]:
    """Tables to evaluate, and how many layouts a bound ruled out before each of them.

    bound: what layouts must be within by now. First some of each table of groups, then the others, the likeliest first.
    ends: how soon groups may end, table after table; added where it is empty, which spares groups of another offload.
    """
    if space.scope == "asked":
        yield from ((layouts, 0) for layouts in chunks(space, model))
        return
    left: list[tuple[Groups, Goals]] = []
    known = tuple(ends)
    for number, whole in enumerate(group_tables(space, model)):
        groups = whole.take(np.flatnonzero(bound().in_time(known[number]))) if known else whole
        if not len(groups):
            ends.extend([] if known else [np.zeros(0)])
            yield None, int(sizes(space, whole).sum())
            continue
        goals, soonest = least_goals(model, system, job, options, firsts(space, groups), space.lines)
        if not known:
            ends.append(soonest)
        early = goals.likeliest()[:_EARLY]
        early = early[goals.take(early).within(bound())]
        yield from ((layouts, 0) for layouts in layouts_of(space, model, groups.take(early)))
        open_ones = goals.within(bound())
        open_ones[early] = False
        rest = np.flatnonzero(open_ones)
        left.append((groups.take(rest), goals.take(rest)))
        yield None, int(sizes(space, whole).sum() - sizes(space, groups.take(np.union1d(early, rest))).sum())
    if left:
        yield from _likeliest_first(space, model, left, bound)


def _likeliest_first(
    space: Space, model: Model, left: list[tuple[Groups, Goals]], bound: Callable[[], Goals]
) -> Iterator[tuple[Layouts | None, int]]:
    groups = Groups(**{name: np.concatenate([getattr(one, name) for one, _ in left]) for name in ("mesh", "group")})
    goals = Goals(**{name: np.concatenate([getattr(one, name) for _, one in left]) for name in ("too_large", "goal")})
    rank = goals.likeliest()
    for start in range(0, len(rank), _AT_ONCE):
        part = rank[start : start + _AT_ONCE]
        near = part[goals.take(part).within(bound())]
        yield None, int(sizes(space, groups.take(part)).sum() - sizes(space, groups.take(near)).sum())
        yield from ((layouts, 0) for layouts in layouts_of(space, model, groups.take(near)))


def _is_tried(options: TrainOptions, layouts: Layouts) -> bool:
    """Whether the search itself, and nobody's wish, offloads these layouts."""
    return "offload" not in options.layout and layouts.columns["offload"][0] != NONE


def _in_need(  # noqa: PLR0917 - as above
    model: Model, system: System, job: TrainJob, options: TrainOptions, table: TrainingTable, bound: Goals
) -> TrainingTable | None:
    """Of offloaded layouts within a bound those that do not fit without; None where there are none.

    The others are no sooner for it, and ties go to no offload.
    """
    near = table.layouts.take(np.flatnonzero(goals_of(table).within(bound)))
    if not len(near):
        return None
    none = near.changed({"offload": np.full(len(near), NONE, dtype=object)})
    needy = near.take(np.flatnonzero(~training_table(model, system, job, options, none).fits))
    return training_table(model, system, job, options, needy) if len(needy) else None


def _counted(seen: Seen, table: TrainingTable, broken: Bools) -> Seen:
    fits = table.fits & ~broken
    return replace(
        seen,
        looked_at=seen.looked_at + len(table),
        evaluated=seen.evaluated + len(table),
        fitting=seen.fitting + int(fits.sum()),
        on_time=seen.on_time + int((fits & table.on_time).sum()),
    )


def grades(table: TrainingTable, broken: Bools) -> Ints:
    """On time, late, too large, or refused (also what has no finish), by row."""
    fitting = np.where(table.on_time, ON_TIME, LATE)
    return np.where(broken | is_nan(table.finish_s), REFUSED, np.where(table.fits, fitting, TOO_LARGE))


def goals_of(table: TrainingTable) -> Goals:
    """What ranks rows of one grade: the finish, and bytes where a rank does not hold it."""
    finish: Any = values(table.finish_s)
    held: Any = values(table.ledger.total)
    goal: Any = where(table.fits, finish, held * 1.0)
    return Goals(too_large=~table.fits, goal=where(is_nan(goal), np.full(1, np.inf), goal))


def _with(best: _Best, table: TrainingTable, broken: Bools, count: int) -> _Best:
    """The best, with those of a table that may be among the first `count`."""
    grade, goals = grades(table, broken), goals_of(table)
    rows = _first(grade, goals.goal, count)
    layouts, grade, goals = table.layouts.take(rows), grade[rows], goals.take(rows)
    if best.layouts is not None:
        names = ("too_large", "goal")
        goals = Goals(**{name: np.concatenate([getattr(best.goals, name), getattr(goals, name)]) for name in names})
        held: Mapping[str, Any] = best.layouts.columns
        layouts = layouts.changed({name: np.concatenate([held[name], layouts.columns[name]]) for name in held})
        grade = np.concatenate([best.grade, grade])
    found = _Best(layouts=layouts, grade=grade, goals=goals)
    if len(grade) <= count * _SLACK:
        return found
    first = _ranked(found, count)
    return _Best(layouts=layouts.take(first), grade=grade[first], goals=goals.take(first))


def _first(grade: Ints, goal: Floats, count: int) -> Ints:
    """Rows that may be among the first `count`, in no order: all that do not stand behind the last of these."""
    if len(goal) <= count:
        return np.arange(len(goal))
    before = np.cumsum(np.bincount(grade, minlength=REFUSED + 1))
    pivot = int(np.searchsorted(before, count))
    own = grade == pivot
    needed = count - (int(before[pivot - 1]) if pivot else 0)
    bound = np.partition(goal[own], needed - 1)[needed - 1]
    return np.flatnonzero((grade < pivot) | (own & (goal <= bound * (1 + ROUNDING))))


def _ranked(best: _Best, count: int) -> Ints:
    """Places of the first `count`, in order."""
    layouts = best.layouts
    assert layouts is not None
    spends = [np.not_equal(layouts.columns[name], "none") for name in ("offload", "recompute")]
    names = [layout.id for layout in layouts.rows()]
    return order([best.grade, best.goals.goal, *spends], names)[:count]
