"""Local ranks: what they return comes back in order; one that fails or hangs ends all, and is named."""

from __future__ import annotations

import importlib.util
import os
from time import monotonic, sleep

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("needs the extra torch", allow_module_level=True)

from meshwright.base.errors import RunError
from meshwright.verify import processes
from meshwright.verify.processes import in_processes


def test_answers_stand_by_rank():
    found = in_processes(lambda rank: (rank, os.getpid()), 3, 60.0)
    assert [rank for rank, _ in found] == [0, 1, 2]
    assert len({process for _, process in found} | {os.getpid()}) == 4


def failing(rank):
    if rank == 1:
        raise ValueError("no")
    sleep(60)


def dying(rank):
    if rank == 1:
        os._exit(3)
    sleep(60)


@pytest.mark.parametrize(("work", "told"), [(failing, "ValueError: no"), (dying, "it ended without an answer")])
def test_a_rank_that_fails_is_named_and_ends_the_others(work, told):
    begun = monotonic()
    with pytest.raises(RunError) as refused:
        in_processes(work, 2, 60.0)
    assert refused.value.code == "RUN040"
    assert refused.value.cause == f"rank 1 of 2 failed: {told}"
    assert monotonic() - begun < 50


def test_a_rank_that_hangs_is_named(monkeypatch):
    monkeypatch.setattr(processes, "_GRACE_S", 0.0)
    with pytest.raises(RunError, match="rank 0 of 1 has not answered in time"):
        in_processes(lambda rank: sleep(60), 1, 1.0)
