"""A space of layouts goes in, table after table; the best of them come out, with what was seen of all.

A search that is interrupted keeps what it found. Rows are ranked by grade (on time, late, too large), then by the
objective, then without offload before with, without recompute before with, then by id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.traced import values
from meshwright.layout.layouts import Layouts
from meshwright.layout.rules import keeps_all
from meshwright.scenarios._training_space import chunks
from meshwright.scenarios._training_table import TrainingTable, training_table
from meshwright.search.rank import TIE, order

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.job.train import TrainJob
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.scenarios._training_space import Space
    from meshwright.system.system import System

Progress = Callable[[int, int], None]
Watch = Callable[["TrainingTable", "Bools"], None]
ON_TIME, LATE, TOO_LARGE = range(3)
NO_OFFLOAD: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Of all layouts looked at. complete: False where the search was interrupted."""

    looked_at: int
    fitting: int
    on_time: int
    complete: bool


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

    watch: is shown every table, and which of its rows keep the rules.
    """
    best: Layouts | None = None
    seen = Seen(looked_at=0, fitting=0, on_time=0, complete=True)
    done = 0
    try:
        for layouts in chunks(space, model, job):
            table = training_table(model, system, job, options, layouts)
            kept = keeps_all(model, layouts)
            own = layouts.take(_first(table, kept, options.keep))
            best = own if best is None else _joined(best, own)
            if len(best) > options.keep * 8:
                best = _ranked(model, system, job, options, best)
            seen = replace(
                seen,
                looked_at=seen.looked_at + int(kept.sum()),
                fitting=seen.fitting + int((table.fits & kept).sum()),
                on_time=seen.on_time + int((table.fits & table.on_time & kept).sum()),
            )
            done += len(layouts)
            if watch is not None:
                watch(table, kept)
            if progress is not None:
                progress(done, space.size)
    except KeyboardInterrupt:
        seen = replace(seen, complete=False)
    if best is None:
        best = space.meshes.take(np.zeros(0, dtype=np.int64))
    else:
        best = _ranked(model, system, job, options, best)
    return training_table(model, system, job, options, best), seen


def grades(table: TrainingTable) -> Ints:
    """On time, late, or too large, by row."""
    return np.where(~table.fits, TOO_LARGE, np.where(table.on_time, ON_TIME, LATE))


def goals(table: TrainingTable) -> Floats:
    """What ranks rows of one grade: the finish, and bytes where a rank does not hold it."""
    finish: Any = values(table.finish_s)
    return np.where(table.fits, finish, values(table.ledger.total) * 1.0)


def _first(table: TrainingTable, kept: Bools, count: int) -> Ints:
    """Rows that may be among the first `count`, in no order: all that do not stand behind the last of these."""
    rows = np.flatnonzero(kept)
    if len(rows) <= count:
        return rows
    grade, goal = grades(table)[rows], goals(table)[rows]
    scale = goal.max(initial=1.0) * 2.0
    score = grade * scale + goal
    bound = np.partition(score, count - 1)[count - 1]
    near = rows[score <= bound * (1 + TIE)]
    return near if len(near) <= count * 64 else near[_by_ties(table, near)[: count * 64]]


def _by_ties(table: TrainingTable, rows: Ints) -> Ints:
    """Order of rows that may all be equal, by what breaks ties and needs no id."""
    layouts = table.layouts
    spends = [np.not_equal(layouts.columns[name][rows], "none") for name in ("offload", "recompute")]
    return np.lexsort([spends[1], spends[0], goals(table)[rows], grades(table)[rows]])


def _ranked(model: Model, system: System, job: TrainJob, options: TrainOptions, layouts: Layouts) -> Layouts:
    """The first `options.keep` of a small table, in order."""
    table = training_table(model, system, job, options, layouts)
    spends = [np.not_equal(layouts.columns[name], "none") for name in ("offload", "recompute")]
    names = [layout.id for layout in layouts.rows()]
    return layouts.take(order([grades(table), goals(table), *spends], names)[: options.keep])


def _joined(left: Layouts, right: Layouts) -> Layouts:
    columns: Mapping[str, Any] = left.columns
    return left.changed({name: np.concatenate([columns[name], right.columns[name]]) for name in columns})
