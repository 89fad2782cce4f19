"""What does a capacity drop and fill up? Rows of each expert and a factor go in; drops and padding come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from meshwright.base.errors import JobError
from meshwright.job.routing import checked_routing, read_routing
from meshwright.scenarios._experts_options import MOST_FACTOR, exact_factor
from meshwright.search.assign import assign
from meshwright.workload.expert_batches import Slots, capacity_rows, executed, least_factor, skipping
from meshwright.workload.routing import batch

NONE: Final = "none"
_MOST_ROWS: Final = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertCapacity:
    """One layer. dropped: of each expert.   executed_rows: kept ones and padding.   skipped_tokens: without any expert.

    balanced_saving_fraction: of the experts' time, were the busiest group's rows those of the mean.
    """

    tokens: int
    experts: int
    dispatches: int
    mean_group_rows: float
    busiest_group_rows: int
    balanced_saving_fraction: float
    capacity_rows: int
    least_capacity_factor: float
    dropped: tuple[int, ...]
    dropped_rows: int
    dropped_fraction: float
    padding: int
    executed_rows: int
    padding_fraction: float
    skipped_tokens: int


def expert_capacity(loads: str, beside: str, top_k: int, groups: int, capacity_factor: float) -> ExpertCapacity:
    """Whole rows of each expert, as in `64x768,64x256`, in tokens that choose `top_k` each; groups hold them in order.

    beside: more of them, or `none`. The rows are dealt to tokens: where a capacity is used up, later ones are dropped.
    Raises JOB007 (rows that tokens cannot choose), JOB120 (no rows), JOB129 (sizes). Source: chapter "Training
    systems", section 10.3.4.
    """
    routing = read_routing(f"counts:{loads}" if beside == NONE else f"counts:{loads},{beside}")
    rows = np.array(routing.counts[0])
    counted = bool((np.isfinite(rows) & (rows == np.floor(rows))).all())
    total, experts = int(rows.sum()) if counted else 0, len(rows)
    whole = counted and total % max(top_k, 1) == 0
    if not (whole and 1 <= top_k <= experts and 1 <= total <= _MOST_ROWS and 1 <= groups <= experts):
        cause = f"rows {loads}, {beside} of tokens that choose {top_k} of {experts}, on {groups} groups"
        raise JobError(129, cause, "give whole rows that are those of a number of tokens, and groups of whole experts")
    if not 0 < capacity_factor <= MOST_FACTOR:
        raise JobError(129, f"a capacity factor of {capacity_factor:g}", f"give more than 0, at most {MOST_FACTOR:g}")
    routing, tokens = checked_routing(routing, {0: (experts, top_k)}), total // top_k
    placed = assign(rows.astype(np.int64), groups, "contiguous")
    run = executed(
        batch(routing, 0, experts, top_k, tokens, seed=0),
        Slots(expert=np.arange(experts), group=placed.bin),
        capacity_rows(exact_factor(capacity_factor), tokens, top_k, experts),
    )
    executed_rows = int(run.rows.sum())
    return ExpertCapacity(
        tokens=tokens,
        experts=experts,
        dispatches=total,
        mean_group_rows=total / groups,
        busiest_group_rows=placed.most,
        balanced_saving_fraction=1.0 - total / groups / placed.most,
        capacity_rows=run.capacity or 0,
        least_capacity_factor=least_factor(int(run.asked.max()), tokens, top_k, experts),
        dropped=tuple((run.asked - run.kept).tolist()),
        dropped_rows=run.dropped,
        dropped_fraction=run.dropped / total,
        padding=run.padding,
        executed_rows=executed_rows,
        padding_fraction=run.padding / max(1, executed_rows),
        skipped_tokens=int(np.count_nonzero(skipping(run.slot))),
    )
