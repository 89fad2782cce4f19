"""The rules of the event engine, each on a case counted by hand."""

from __future__ import annotations

import logging
import math
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import meshwright
from meshwright.base.errors import ScheduleError
from meshwright.sim import engine, loop
from meshwright.sim.engine import Failure, Resource, simulate
from tests.laws.problems import problem

FIFO = Resource(name="wire", queue="fifo")
PRIORITY = Resource(name="gpu")
SHARED = Resource(name="disk", queue="shared", rate=2.0)
NEEDS_NUMBA = pytest.mark.skipif(find_spec("numba") is None, reason="the extra numba is not installed")


def times(*args, **kwargs):
    return simulate(problem(*args, **kwargs), compiled=False)


def test_a_chain_runs_one_after_another():
    found = times([2, 3, 1], [-1, -1, -1], (), edges=[(0, 1), (1, 2)])
    assert found.start.tolist() == [0, 2, 5]
    assert found.end.tolist() == [2, 5, 6]
    assert found.cause.tolist() == [-1, 0, 1]
    assert found.why.tolist() == [loop.FREE, loop.END, loop.END]
    assert found.events == 3


def test_a_task_without_a_resource_waits_for_no_other():
    assert times([5, 5, 5], [-1, -1, -1], ()).start.tolist() == [0, 0, 0]


def test_fifo_takes_the_earliest_ready_and_priority_the_lowest_tie():
    asked = {"duration": [4, 1, 1], "resource": [0, 0, 0], "tie": [9, 8, 7], "release": [0, 1, 2]}
    assert times(**asked, resources=(FIFO,)).start.tolist() == [0, 4, 5]
    found = times(**asked, resources=(PRIORITY,))
    assert found.start.tolist() == [0, 5, 4]
    assert found.why.tolist() == [loop.FREE, loop.BUSY, loop.BUSY]
    assert found.cause.tolist() == [-1, 2, 0]


def test_of_those_ready_at_one_time_the_lowest_tie_goes_first_then_the_lowest_number():
    for queue in (FIFO, PRIORITY):
        assert times([1, 1, 1], [0, 0, 0], (queue,), tie=[5, 3, 3]).start.tolist() == [2, 0, 1]


def test_what_comes_at_the_moment_a_resource_is_free_can_still_go_first():
    found = times([2, 1, 1, 2], [0, 0, 0, -1], (PRIORITY,), edges=[(3, 2)], tie=[0, 2, 1, 0])
    assert found.start.tolist() == [0, 3, 2, 0]


def test_resources_that_are_free_start_together():
    """What the start on one opens on the other comes after it, whichever has the lower number."""
    for first, second in ((0, 1), (1, 0)):
        found = times([1, 1, 1], [first, second, second], (PRIORITY, PRIORITY), edges=[(0, 1, True)], tie=[0, 0, 1])
        assert found.start.tolist() == [0, 1, 0]
        assert found.why[1] == loop.BUSY


def test_a_task_of_no_length_ends_before_the_next_start():
    found = times([0, 1, 1], [0, 0, 0], (PRIORITY,), edges=[(0, 1)], tie=[0, 1, 2])
    assert found.start.tolist() == [0, 0, 1]


def test_an_edge_may_wait_for_a_start():
    found = times([5, 1], [-1, -1], (), edges=[(0, 1, True)], release=[3, 0])
    assert found.start.tolist() == [3, 3]
    assert found.why.tolist() == [loop.RELEASE, loop.START]
    assert found.cause.tolist() == [-1, 0]


def test_a_release_holds_a_task_whose_dependencies_have_ended():
    found = times([1, 1], [-1, -1], (), edges=[(0, 1)], release=[0, 4])
    assert found.start.tolist() == [0, 4]
    assert found.cause.tolist() == [-1, -1]
    assert found.why.tolist() == [loop.FREE, loop.RELEASE]


def test_the_cause_is_the_last_that_was_waited_for_and_of_several_the_lowest_tie():
    found = times([1, 3, 3, 1], [-1] * 4, (), edges=[(0, 3), (1, 3), (2, 3)], tie=[0, 2, 1, 0])
    assert found.cause[3] == 2


def test_a_shared_resource_is_shared_equally():
    """At rate 2, works 2 and 6: both at 1 a second until 2 s, then the other alone: 4 left, 2 s."""
    found = times([2.0, 6.0], [0, 0], (SHARED,))
    assert found.end.tolist() == [2.0, 4.0]


def test_who_comes_later_slows_down_those_who_share():
    """Works 4 and 4 at rate 2, the second a second later: 2 left to share, 2 s; then 2 left alone, 1 s."""
    found = times([4.0, 4.0], [0, 0], (SHARED,), release=[0, 1])
    assert found.start.tolist() == [0, 1]
    assert found.end.tolist() == [3, 4]


def test_equal_shares_end_together_and_no_work_ends_at_once():
    assert times([3.0, 3.0, 3.0, 0.0], [0] * 4, (SHARED,)).end.tolist() == [4.5, 4.5, 4.5, 0]


# ------------------------------------------------------------------------------------------------------------ failures


def test_a_failure_cancels_what_runs_and_it_runs_again_whole():
    found = times([5, 1], [0, 0], (FIFO,), failures=(Failure(resource=0, at=3, back=4),))
    assert found.start.tolist() == [4, 9]
    assert found.why.tolist() == [loop.DOWN, loop.BUSY]
    lost = found.lost
    assert [lost.task.tolist(), lost.start.tolist(), lost.end.tolist()] == [[0], [0], [3]]
    assert lost.why.tolist() == [loop.FREE]


def test_work_that_ends_as_the_failure_comes_has_ended():
    found = times([3, 1], [0, 0], (FIFO,), failures=(Failure(resource=0, at=3, back=5),))
    assert found.end.tolist() == [3, 6]
    assert len(found.lost.task) == 0
    shared = times([6.0], [0], (SHARED,), failures=(Failure(resource=0, at=3, back=5),))
    assert shared.end.tolist() == [3]


def test_nothing_starts_as_the_failure_comes():
    assert times([3], [0], (FIFO,), failures=(Failure(resource=0, at=0, back=2),)).start.tolist() == [2]
    assert times([3], [0], (FIFO,), release=[1], failures=(Failure(resource=0, at=1, back=2),)).start.tolist() == [2]


def test_a_failure_of_no_length_only_loses_what_ran():
    found = times([5], [0], (PRIORITY,), failures=(Failure(resource=0, at=3, back=3),))
    assert found.end.tolist() == [8]
    assert found.lost.end.tolist() == [3]


def test_a_resource_is_back_when_its_last_failure_is_over():
    two = (Failure(resource=0, at=1, back=6), Failure(resource=0, at=2, back=4))
    assert times([3], [0], (FIFO,), failures=two).start.tolist() == [6]
    meeting = (Failure(resource=0, at=1, back=4), Failure(resource=0, at=4, back=6))
    found = times([3], [0], (FIFO,), failures=meeting)
    assert found.start.tolist() == [6]
    assert found.lost.task.tolist() == [0]


def test_each_failure_loses_a_run_of_its_own():
    found = times([5], [0], (FIFO,), failures=tuple(Failure(resource=0, at=at, back=at + 1) for at in (2, 5, 13)))
    assert found.lost.start.tolist() == [0, 3]
    assert found.lost.end.tolist() == [2, 5]
    assert found.end.tolist() == [11]


def test_what_waited_for_the_start_of_a_cancelled_run_goes_on():
    found = times([5, 4], [0, -1], (FIFO,), edges=[(0, 1, True)], failures=(Failure(resource=0, at=3, back=9),))
    assert found.start.tolist() == [9, 0]
    assert found.end.tolist() == [14, 4]


def test_a_lower_tie_that_came_during_the_failure_goes_before_what_was_cancelled():
    failures = (Failure(resource=0, at=2, back=4),)
    found = times([3, 1], [0, 0], (PRIORITY,), tie=[1, 0], release=[0, 3], failures=failures)
    assert found.start.tolist() == [5, 4]


def test_a_failure_of_a_shared_resource_cancels_all_that_share():
    """Works 8 and 2 at rate 2, both lost at 1 s; from 3 s as from the start: 2 s for the second, 3 s for the first."""
    found = times([8.0, 2.0], [0, 0], (SHARED,), failures=(Failure(resource=0, at=1, back=3),))
    assert found.start.tolist() == [3, 3]
    assert found.end.tolist() == [8, 5]
    assert found.lost.task.tolist() == [0, 1]
    assert found.why.tolist() == [loop.DOWN, loop.DOWN]


def test_work_that_comes_to_a_shared_resource_which_is_down_waits():
    found = times([2.0], [0], (SHARED,), release=[2], failures=(Failure(resource=0, at=1, back=3),))
    assert found.start.tolist() == [3]
    assert found.lost.task.tolist() == []


def test_no_work_ends_as_the_shared_resource_is_back_though_another_end_was_due_then():
    """Work 4 at rate 2 was due at 2 s, when the resource is back; it takes 2 s from there, and no work takes none."""
    found = times([4.0, 0.0], [0, 0], (SHARED,), release=[0, 2], failures=(Failure(resource=0, at=1, back=2),))
    assert found.end.tolist() == [4, 2]


def test_after_a_failure_without_end_what_needs_the_resource_never_runs():
    failures = (Failure(resource=0, at=2, back=math.inf),)
    found = times([1, 3, 1, 1], [0, 0, 1, 1], (FIFO, FIFO), edges=[(1, 2)], failures=failures)
    assert found.never.tolist() == [1, 2]
    assert found.end.tolist() == [1, -1, -1, 1]
    assert found.start.tolist() == [0, -1, -1, 0]
    assert found.lost.task.tolist() == [1]
    seconds = times([1.0, 3.0], [0, 0], (SHARED,), failures=(Failure(resource=0, at=1.5, back=math.inf),))
    assert seconds.never.tolist() == [1]


def test_tasks_that_wait_for_each_other_are_refused_with_and_without_a_failure():
    circle = {"duration": [1, 1, 1], "resource": [0, 0, 0], "resources": (FIFO,), "edges": [(1, 2), (2, 1)]}
    for failures in ((), (Failure(resource=0, at=0, back=math.inf),)):
        with pytest.raises(ScheduleError, match=r"SCH002.*2 of 3 tasks.*number 1"):
            times(**circle, failures=failures)


def test_room_is_made_for_any_number_of_cancelled_runs():
    """Thirty that share are cancelled forty times."""
    failures = tuple(Failure(resource=0, at=at + 0.5, back=at + 1.0) for at in range(40))
    for compiled in (False, find_spec("numba") is not None):
        found = simulate(problem([5.0] * 30, [0] * 30, (SHARED,), failures=failures), compiled=compiled)
        assert len(found.lost.task) == 1200
        assert found.end.tolist() == [115.0] * 30


def test_no_tasks_take_no_time():
    found = times(np.zeros(0, np.int64), [], (FIFO,), failures=(Failure(resource=0, at=1, back=2),))
    assert len(found.start) == len(found.never) == 0


def test_many_that_wait_are_not_searched_one_by_one():
    """A hundred thousand on one resource, the last of them first: 5e9 steps if each were held against each."""
    count = 100_000
    found = times(np.ones(count, np.int64), np.zeros(count, np.int64), (PRIORITY,), tie=np.arange(count)[::-1])
    assert found.start.tolist() == list(range(count))[::-1]


# --------------------------------------------------------------------------------------------------------------- numba


@pytest.fixture
def fresh():
    engine._compiled.cache_clear()
    yield
    engine._compiled.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_a_numba_that_fails_is_logged_and_the_loop_runs_as_it_is(monkeypatch, caplog):
    def broken(*, keep):
        raise ImportError(f"no LLVM here, keep={keep}")

    monkeypatch.setattr(engine, "_jitted", broken)
    with caplog.at_level(logging.WARNING):
        found = [simulate(problem([2, 3], [0, 0], (FIFO,)), compiled=True) for _ in range(2)]
    assert [item.end.tolist() for item in found] == [[2, 5]] * 2
    assert ["no LLVM here" in record.message for record in caplog.records] == [True]


@pytest.mark.usefixtures("fresh")
def test_where_nothing_can_be_kept_on_disk_the_loop_is_compiled_all_the_same(monkeypatch, caplog):
    def homeless(*, keep):
        if keep:
            raise RuntimeError("cannot cache function: no locator available")
        return loop.run

    monkeypatch.setattr(engine, "_jitted", homeless)
    assert engine._compiled("i") is not engine._plain
    assert simulate(problem([2, 3], [0, 0], (FIFO,)), compiled=True).end.tolist() == [2, 5]
    assert caplog.records == []


@NEEDS_NUMBA
def test_a_package_folder_that_cannot_be_written_is_cached_for_the_user(tmp_path):
    """A file stands where the folder of the cache would be, which stops even the administrator."""
    shutil.copytree(
        Path(meshwright.__file__).parent, tmp_path / "src" / "meshwright", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "src" / "meshwright" / "sim" / "__pycache__").write_text("")
    code = "import numpy as np\nfrom meshwright.sim import engine\nassert engine._compiled('i') is not engine._plain\n"
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path / "src")}
    environment = {**{name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"}, **home}
    done = subprocess.run(
        (sys.executable, "-W", "error", "-c", code), env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list((tmp_path / "cache").rglob("*.nbc"))
