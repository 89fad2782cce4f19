"""Ranks as processes: answers by rank, and failures, hangs and coded errors that end in time."""

from __future__ import annotations

import os
import time

import pytest
import torch
import torch.distributed as dist

from meshwright.base.errors import LayoutError, RunError
from meshwright.runtime.launch.supervisor import launch


def adds(rank, given):
    value = torch.tensor([rank + given])
    dist.all_reduce(value)
    return rank, int(value)


def fails(rank, _given):
    if rank == 1:
        raise ValueError("a planted failure")
    time.sleep(30)


def refuses(_rank, _given):
    raise LayoutError(3, "a planted refusal", "another layout")


def hangs(rank, _given):
    if rank == 1:
        time.sleep(30)


def vanishes(rank, _given):
    if rank == 1:
        os._exit(0)
    time.sleep(30)


def test_every_rank_answers_in_order():
    assert launch(adds, 10, 2, timeout_s=30) == [(0, 21), (1, 21)]


@pytest.mark.parametrize(
    ("function", "branch", "code", "word"),
    [
        (fails, RunError, "RUN020", "rank 1: ValueError: a planted failure"),
        (vanishes, RunError, "RUN020", "rank 1 ended without an answer"),
        (hangs, RunError, "RUN021", "rank 1"),
        (refuses, LayoutError, "LAY003", "a planted refusal"),
    ],
)
def test_a_rank_that_does_not_answer_ends_the_job_in_time(function, branch, code, word):
    began = time.monotonic()
    with pytest.raises(branch) as problem:
        launch(function, None, 2, timeout_s=15 if function is not hangs else 5)
    assert problem.value.code == code
    assert word in problem.value.cause
    assert time.monotonic() - began < 25
