"""A model and a system go in; layouts a second on one core come out, and what that is in passes of numpy."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from meshwright import read_model, read_system
from meshwright.cost.estimate import Assumptions, estimate_step
from meshwright.cost.memory import serving_ledger
from meshwright.layout.layouts import Layouts, columns
from meshwright.workload.batches import decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.model.model import Model

ROWS = 100_000
_CONTEXT = 131_064
_PASSES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Medians of `estimate_step` and `serving_ledger` over one table of `ROWS` layouts.

    passes: their time over that of one numpy pass `a * b + c` over columns of the same length, taken in turns.
    """

    model: str
    step_s: float
    ledger_s: float
    passes: float

    @property
    def per_s(self) -> float:
        """Layouts a second, both together."""
        return ROWS / (self.step_s + self.ledger_s)


def measure(model_name: str, system_name: str, runs: int) -> Rate:
    """One model's rate. The table holds every tp x pp (x ep) that one meets, repeated to its full length."""
    model, system = read_model(model_name), read_system(system_name)
    table = _table(model)
    sessions = np.full(ROWS, 4, dtype=np.int64)
    left, right, more = np.random.default_rng(0).random((3, ROWS))
    batch = decode(_CONTEXT, 8)

    def step() -> None:
        estimate_step(model, system, table, batch, Assumptions())

    def ledger() -> None:
        serving_ledger(
            model, table, sessions=sessions, tokens=_CONTEXT, workspace_bytes=2**31, capacity_bytes=80 * 10**9
        )

    def one_pass() -> None:
        for _ in range(_PASSES):
            left * right + more

    parts: tuple[Callable[[], None], ...] = (step, ledger, one_pass)
    times = [[_seconds(part) for part in parts] for _ in range(runs + 1)][1:]
    return Rate(
        model=model_name,
        step_s=median(row[0] for row in times),
        ledger_s=median(row[1] for row in times),
        passes=median((row[0] + row[1]) / (row[2] / _PASSES) for row in times),
    )


def _table(model: Model) -> Layouts:
    degrees = [2**power for power in range(7)]
    stages = range(1, min(model.layers, 64) + 1)
    experts = degrees if any(hasattr(block.feed_forward, "experts") for block in model.kinds) else [1]
    rows = [(tp, pp, ep) for tp in degrees for pp in stages for ep in experts if tp % ep == 0]
    tp, pp, ep = np.resize(np.array(rows, dtype=np.int64), (ROWS, 3)).T
    etp = tp // ep if len(experts) > 1 else np.ones_like(tp)
    return columns({"tp": tp, "pp": pp, "ep": ep, "etp": etp})


def _seconds(work: Callable[[], None]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start
