"""A plan of continuous batches goes in; every value at which another layout, or none, becomes its choice comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from meshwright.base.numbers import Floats, Ints
from meshwright.job.serve import MOST_SESSIONS, MOST_TOKENS, ServeJob
from meshwright.model.model import Model
from meshwright.scenarios._serving_batches import BatchTable, Prompt, capacity_of, decided, prompt_of
from meshwright.scenarios._serving_flips import (
    MOST_LAYOUTS,
    Nouns,
    Parameter,
    count_of,
    every_flip,
    number_of,
    of_hardware,
    possible,
)
from meshwright.scenarios._serving_table import ServeOptions
from meshwright.search.flips import Goal, Judged
from meshwright.system.system import System

MOST_SEARCHED: Final = 100
"""Layouts among which flips are looked for where every value of a parameter needs its own search for batches."""


def batch_flips(
    model: Model, system: System, job: ServeJob, options: ServeOptions, table: BatchTable
) -> tuple[Mapping[str, Any], ...]:
    """Every flip, as `_serving_flips` finds them; at each value every layout has the batch that it would have there."""

    def judge(parameter: Parameter, values: Floats, rows: Ints) -> Judged:
        def asked_on(places: Ints) -> Nouns:
            return parameter.put((system, job, options), values[places])

        blocks = table.space.layouts.take(rows)
        on, asked, chosen = asked_on(np.arange(len(values)))
        prompt = Prompt(ttft_s=table.prompt.ttft_s[rows], slowest_s=table.prompt.slowest_s[rows])
        if "service" in parameter.moves:
            prompt = prompt_of(model, on, job, chosen, blocks)
        capacity = table.capacity[rows]
        if parameter.moves & {"held", "room"}:
            capacity = capacity_of(model, on, asked, chosen, blocks)
        found = decided(model, asked_on, blocks, prompt, capacity, table.space.paid)
        goal = Goal(value=-found.tokens_per_gpu_s, over=found.running.turn_s, under=found.in_flight)
        if options.objective == "latency":
            goal = Goal(value=-found.in_flight, over=1, under=found.in_flight)
        tpot = Goal(value=found.running.tpot_s, over=found.running.tpot_s, under=1)
        return Judged(eligible=found.eligible, goals=(goal, tpot))

    parameters = possible(_parameters(system, job, options, table))
    most = MOST_SEARCHED if job.concurrency is None and job.tpot is not None else MOST_LAYOUTS
    return every_flip(parameters, table.space.layouts, table.space.rows, table.valid, judge, most)


def _parameters(system: System, job: ServeJob, options: ServeOptions, table: BatchTable) -> list[Parameter]:
    """Bounds, sessions, context and hardware; a context only where no time depends on the prompt of that length."""
    found = [number_of(name, "s", bound) for name, bound in (("tpot", job.tpot), ("ttft", job.ttft)) if bound]
    if job.concurrency is None:
        found.append(count_of("sessions", job.sessions, MOST_SESSIONS))
    else:
        found.append(count_of("concurrency", job.concurrency, job.sessions))
    if job.ttft is None and options.prefill == "cached":
        found.append(count_of("context", max(job.context, 1), MOST_TOKENS - job.new_tokens, "held"))
    return [*found, *of_hardware(system, options, table.running.step, table.valid)]
