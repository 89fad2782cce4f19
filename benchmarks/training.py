"""A model, a system and a job go in; layouts of training a second on one core come out, and the whole search's time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np

from meshwright import read_model, read_system
from meshwright.job.train import TrainJob
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios._training_search import search_training
from meshwright.scenarios._training_space import ROWS, group_tables, layouts_of, training_space
from meshwright.scenarios._training_table import training_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.scenarios._training_search import Seen
    from meshwright.scenarios._training_space import Space

LAYOUTS_PER_S = 200_000
TABLES = 16
CASES = (
    ("gpt3-175b", "hgx-h100 x512", 1536, 2048),
    ("Qwen/Qwen3-235B-A22B", "hgx-h100 x128", 2048, 4096),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Seconds of one core; a pair is (wall, CPU).

    rows: layouts of `TABLES` tables spread over the space.   first: listing and evaluating them, all columns, with the
    slot orders that nobody knows yet.   again: the same, medians, with these known.   whole: the search of the space.
    """

    model: str
    system: str
    rows: int
    first: tuple[float, float]
    again: tuple[float, float]
    whole: tuple[float, float]
    seen: Seen

    @property
    def per_s(self) -> float:
        """Layouts a second, all columns of each, nothing known before."""
        return self.rows / min(self.first)

    @property
    def exceeded(self) -> bool:
        """Whether the budget is not kept, and not because the process had to wait for a core."""
        return self.per_s < LAYOUTS_PER_S


def measure(case: tuple[str, str, int, int], runs: int) -> Search:
    """One case of the issue: memory, step and finish of every row, then the search of the whole space."""
    name, on, batch, sequence = case
    model, system = read_model(name), read_system(on)
    job, options = TrainJob(tokens=10**11, sequence=sequence, global_batch=batch), TrainOptions()
    space = training_space(model, system, job, {}, options.context)
    times: list[tuple[float, float]] = []
    rows = 0
    for _ in range(runs + 1):
        start = perf_counter(), process_time()
        rows = sum(len(training_table(model, system, job, options, table)) for table in _spread(space, model))
        times.append((perf_counter() - start[0], process_time() - start[1]))
    start = perf_counter(), process_time()
    _, seen = search_training(model, system, job, options, space)
    whole = perf_counter() - start[0], process_time() - start[1]
    again = tuple(median(pair[kind] for pair in times[1:]) for kind in (0, 1))
    return Search(model=name, system=on, rows=rows, first=times[0], again=(again[0], again[1]), whole=whole, seen=seen)


def _spread(space: Space, model: Model) -> Iterator[Layouts]:
    """Tables of neighbours, from `TABLES` places of the space."""
    for start in np.linspace(0, len(space.meshes), TABLES, endpoint=False).astype(int).tolist():
        behind = replace(space, meshes=space.meshes.take(slice(start, None)), kind=space.kind[start:])
        yield next(layouts_of(behind, model, next(group_tables(behind, model, ROWS // 8)), ROWS))


def page(searches: list[Search]) -> list[str]:
    """Its lines of docs/benchmarks.md."""
    lines = [
        f"Layouts of training on one core, memory, step and finish of every row: {TABLES} tables of up to {ROWS:,}",
        f"neighbours, spread over the space; at least {LAYOUTS_PER_S:,} a second, the first time. The search looks at",
        "every layout of the space: a bound for all schedules of a group rules most of them out unevaluated.",
        "",
        "| case | layouts a second, first | again | search of | wall | CPU | evaluated |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for item in searches:
        broken = " **not kept**" if item.exceeded else ""
        rates = f"{item.per_s:,.0f}{broken} | {item.rows / min(item.again):,.0f}"
        whole = f"{item.seen.looked_at:,} | {item.whole[0]:.1f} s | {item.whole[1]:.1f} s | {item.seen.evaluated:,}"
        lines.append(f"| {item.model} over {item.system} | {rates} | {whole} |")
    return lines


if __name__ == "__main__":
    print("\n".join(page([measure(case, 3) for case in CASES])))
