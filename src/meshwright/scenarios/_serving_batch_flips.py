"""A plan of continuous batches goes in; every value at which another layout, or none, becomes its choice comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from meshwright.base.numbers import Floats, Ints
from meshwright.job.serve import MOST_SESSIONS, MOST_TOKENS, ServeJob
from meshwright.layout.layouts import Layouts
from meshwright.model.model import Model
from meshwright.scenarios._serving_batches import BatchTable, Prompt, capacity_of, decided, prompt_of
from meshwright.scenarios._serving_flips import (
    MOST_LAYOUTS,
    Judged,
    Parameter,
    every_flip,
    of_bound,
    of_hardware,
    of_job,
    possible,
)
from meshwright.scenarios._serving_table import ServeOptions
from meshwright.system.system import System

MOST_SEARCHED: Final = 60
"""Layouts among which flips are looked for where every value of a parameter needs its own search for batches."""


def batch_flips(
    model: Model, system: System, job: ServeJob, options: ServeOptions, table: BatchTable
) -> tuple[Mapping[str, Any], ...]:
    """Every flip, as `_serving_flips` finds them; at each value every layout has the batch that it would have there."""
    rows = np.flatnonzero(table.valid)

    def judge(parameter: Parameter, values: Floats, blocks: Layouts) -> Judged:
        def asked_on(places: Ints) -> tuple[System, ServeJob, ServeOptions]:
            return parameter.put(system, job, options, values[places])

        on, asked, chosen = asked_on(np.arange(len(values)))
        times = len(values) // len(rows)
        kept = table.prompt
        prompt = Prompt(ttft_s=np.tile(kept.ttft_s[rows], times), slowest_s=np.tile(kept.slowest_s[rows], times))
        if "service" in parameter.moves:
            prompt = prompt_of(model, on, job, chosen, blocks)
        capacity = np.tile(table.capacity[rows], times)
        if parameter.moves & {"held", "room"}:
            capacity = capacity_of(model, on, asked, chosen, blocks)
        found = decided(model, asked_on, blocks, prompt, capacity, table.space.paid)
        goal = -found.in_flight if options.objective == "latency" else -found.tokens_per_gpu_s
        return Judged(eligible=found.eligible, goals=(goal, found.running.tpot_s))

    parameters = _parameters(system, job, options, table)
    most = MOST_SEARCHED if job.concurrency is None and job.tpot is not None else MOST_LAYOUTS
    return every_flip(parameters, table.space.layouts, table.space.rows, rows, judge, most)


def _parameters(system: System, job: ServeJob, options: ServeOptions, table: BatchTable) -> list[Parameter]:
    """Bounds, sessions, context and hardware; a context only where no time depends on the prompt of that length."""
    found = [of_bound(name, bound) for name, bound in (("tpot", job.tpot), ("ttft", job.ttft)) if bound is not None]
    if job.concurrency is None:
        found.append(of_job("sessions", job.sessions, MOST_SESSIONS, frozenset()))
    else:
        found.append(of_job("concurrency", job.concurrency, job.sessions, frozenset()))
    if job.ttft is None and options.prefill == "cached":
        moves = frozenset({"held"})
        found.append(of_job("context", max(job.context, 1), MOST_TOKENS - job.new_tokens, moves))
    return possible([*found, *of_hardware(system, options, table.running.step, table.valid)])
