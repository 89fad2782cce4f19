"""Cases go in; of every case and round, the seconds of the slowest process come out.

The rounds of all cases run in one random order, which the seed decides, with a barrier before each.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import torch
import torch.distributed as dist

from meshwright.runtime.train import check_devices
from meshwright.verify.local.actions import Place, action_of, place_of
from meshwright.verify.local.probes import probe_of
from meshwright.verify.local.runs import run_of
from meshwright.verify.processes import in_processes

if TYPE_CHECKING:
    from meshwright.verify.local.actions import Action
    from meshwright.verify.local.cases import Case, LocalOptions
    from meshwright.verify.local.runs import RealRun

Rounds: TypeAlias = list[list[tuple[float, ...]]]
"""By case, by round, the seconds that it measured."""


def measured(options: LocalOptions, cases: Sequence[Case], runs: Sequence[RealRun] = ()) -> Rounds:
    """Of every case, then of every real run. Raises RUN002 (devices), RUN010 and RUN011 (a rank)."""
    check_devices(options.devices, options.nproc)
    work = partial(_on_rank, options=options, cases=cases, runs=runs)
    ranks = in_processes(work, options.nproc, options.timeout, options.devices)
    return [
        [tuple(max(parts) for parts in zip(*same, strict=True)) for same in zip(*case, strict=True)]
        for case in zip(*ranks, strict=True)
    ]


def _on_rank(rank: int, options: LocalOptions, cases: Sequence[Case], runs: Sequence[RealRun]) -> Rounds:
    device = torch.device(f"cuda:{rank}" if options.devices == "cuda" else "cpu")
    place = place_of(rank, options.nproc, options.sizes, device)
    actions = [_action(case, place) for case in cases] + [run_of(run, place) for run in runs]
    for action in actions:
        action()
    order = [number for number in range(len(actions)) for _ in range(options.repeats)]
    random.Random(options.seed).shuffle(order)  # noqa: S311 - an order, not a secret
    found: Rounds = [[] for _ in actions]
    ready = torch.zeros(1, device=device)
    for number in order:
        dist.all_reduce(ready)
        place.settle()
        found[number].append(actions[number]())
    return found


def _action(case: Case, place: Place) -> Action:
    return probe_of(case, place) if case.operation == "step" else action_of(case, place)
