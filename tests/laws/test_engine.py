"""What holds for every problem of the event engine: exclusive resources, order, critical path, busy time, twins."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.sim import engine, loop
from meshwright.sim.engine import simulate
from meshwright.sim.memory import Buffers, memory
from meshwright.sim.timeline import busy_s, critical_path, timeline
from tests.laws.problems import EXCLUSIVE, generic, problems

COLUMNS = ("start", "end", "cause", "why", "never")
LOST = ("task", "start", "end", "cause", "why")
NEEDS_NUMBA = pytest.mark.skipif(find_spec("numba") is None, reason="the extra numba is not installed")


def ran(known):
    """Its times, and its timeline in seconds."""
    times = simulate(known, compiled=False)
    kind = np.zeros(len(known.duration), np.int64)
    return times, timeline(known, times, kind=kind, kinds=("work",), label=str, tick_s=Fraction(1))


def differing(left, right):
    """The columns of two runs that are not equal."""
    own = [name for name in COLUMNS if getattr(left, name).tolist() != getattr(right, name).tolist()]
    lost = [name for name in LOST if getattr(left.lost, name).tolist() != getattr(right.lost, name).tolist()]
    return [*own, *(f"lost.{name}" for name in lost)]


@given(problems())
def test_no_exclusive_resource_runs_two_things_at_once_nor_while_it_is_down(known):
    _, line = ran(known)
    for number, resource in enumerate(known.resources):
        rows = np.flatnonzero((line.resource == number) & ~np.isnan(line.end_s))
        for fault in known.failures:
            if fault.resource == number:
                longer = rows[line.end_s[rows] > line.start_s[rows]]
                assert ((line.end_s[longer] <= fault.at) | (line.start_s[longer] >= fault.back)).all()
                assert not ((line.start_s[rows] >= fault.at) & (line.start_s[rows] < fault.back)).any()
        if resource.queue != "shared":
            for before, after in pairwise(sorted(zip(line.start_s[rows], line.end_s[rows], strict=True))):
                assert before[1] <= after[0]


@given(problems())
def test_every_task_runs_whole_after_what_it_waits_for(known):
    times, line = ran(known)
    done = times.end >= 0
    assert (times.start[done] >= known.release[done]).all()
    owned = known.resource >= 0
    exclusive = ~owned | np.array([item.queue != "shared" for item in known.resources])[known.resource]
    lasted = done & exclusive  # a sum, as the loop makes it: the difference of two rounded times is another number
    assert times.end[lasted].tolist() == (times.start + known.duration)[lasted].tolist()
    first = np.fmin.reduceat(*by_task(line)) if len(done) else line.start_s
    for before, after, at_start in zip(known.edges.before, known.edges.after, known.edges.at_start, strict=True):
        if not np.isnan(first[after]):
            assert first[after] >= (first[before] if at_start else line.end_s[before])


def by_task(line):
    """Starts of all runs, task by task, and where each task's begin."""
    order = np.argsort(line.task, kind="stable")
    return line.start_s[order], np.searchsorted(line.task[order], np.arange(line.tasks))


@given(problems())
def test_the_critical_path_leads_from_the_last_end_to_a_time_that_no_task_moves(known):
    times, line = ran(known)
    path = critical_path(line)
    if len(path.row) == 0:
        assert len(times.never) == line.tasks
        assert not len(times.lost.task)
        return
    assert line.end_s[path.row[-1]] == line.makespan_s
    assert len(set(path.row.tolist())) == len(path.row)
    first = path.row[0]
    why, start = line.why[first], line.start_s[first]
    backs = {fault.back for fault in known.failures if fault.resource == line.resource[first]}
    if why == loop.FREE:
        assert start == 0
    elif why == loop.RELEASE:
        assert start == known.release[line.task[first]]
    else:
        assert why == loop.DOWN
        assert start in backs
    for before, after in pairwise(path.row.tolist()):
        assert line.cause[after] == line.task[before]
        moment = line.start_s[before] if line.why[after] == loop.START else line.end_s[before]
        assert line.start_s[after] == moment
        if line.why[after] == loop.BUSY:
            assert line.resource[after] == line.resource[before]
        else:
            edges = known.edges
            wanted = (edges.before == line.task[before]) & (edges.after == line.task[after])
            assert (edges.at_start[wanted] == (line.why[after] == loop.START)).any()
    assert path.length_s <= line.makespan_s
    assert sum(path.by_kind_s().values()) == pytest.approx(path.length_s)
    assert len(list(path.steps())) == len(path.row)


@given(problems())
def test_no_resource_is_busy_longer_than_the_makespan_nor_less_than_it_worked(known):
    _, line = ran(known)
    for number, busy in enumerate(busy_s(line)):
        rows = np.flatnonzero((line.resource == number) & ~np.isnan(line.end_s))
        moments = np.unique(np.concatenate([line.start_s[rows], line.end_s[rows]]))
        union = sum(
            later - sooner
            for sooner, later in pairwise(moments)
            if ((line.start_s[rows] <= sooner) & (line.end_s[rows] >= later)).any()
        )
        assert busy == pytest.approx(union)
        assert busy <= line.makespan_s + 1e-9


@given(problems(fails=False), st.data())
def test_memory_is_what_is_alive_and_returns_to_its_start(known, data):
    times, line = ran(known)
    count = data.draw(st.integers(0, 12))
    task = st.lists(st.tuples(st.integers(0, line.tasks - 1), st.booleans()), min_size=count, max_size=count)
    ends = [data.draw(task), data.draw(task)]
    when = [[float((times.end if at_end else times.start)[item]) for item, at_end in side] for side in ends]
    for row in range(count):  # a buffer is freed after it is allocated
        if when[0][row] > when[1][row]:
            for side in (ends, when):
                side[0][row], side[1][row] = side[1][row], side[0][row]
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    owner = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    kind = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    resident = np.array([5, 0, 3])
    used = memory(
        Buffers(
            rank=np.array(owner, np.int64),
            alloc=np.array(when[0], np.float64),
            free=np.array(when[1], np.float64),
            size_bytes=np.array(sizes, np.int64),
            kind=np.array(kind, np.int64),
            kinds=("saved", "gathered"),
            resident_bytes=resident,
        )
    )
    assert used.final_bytes().tolist() == resident.tolist()
    for rank in range(3):
        mine = [row for row in range(count) if owner[row] == rank]
        rows = slice(used.first[rank], used.first[rank + 1])
        assert used.time[rows][0] == 0
        assert (np.diff(used.time[rows]) > 0).all()
        for time, level in zip(used.time[rows], used.level_bytes[rows], strict=True):
            assert level == resident[rank] + sum(sizes[row] for row in mine if when[0][row] <= time < when[1][row])
        assert used.peak_bytes[rank] == used.level_bytes[rows].max()
        alive = used.alive(rank).tolist()
        assert alive == sorted(alive, key=lambda row: (-sizes[row], row))
        assert used.peak_bytes[rank] == resident[rank] + sum(sizes[row] for row in alive)
        of_kinds = [sum(sizes[row] for row in alive if kind[row] == number) for number in range(2)]
        assert used.alive_bytes()[rank].tolist() == of_kinds


@given(problems(distinct=True), st.randoms(use_true_random=False))
def test_numbers_decide_nothing_where_ties_are_distinct(known, random):
    tasks, resources = list(range(len(known.duration))), list(range(len(known.resources)))
    edges = list(range(len(known.edges.before)))
    for items in (tasks, resources, edges):
        random.shuffle(items)
    task = np.argsort(tasks)  # old number -> new number
    resource = np.append(np.argsort(resources), -1)
    moved = replace(
        known,
        duration=known.duration[tasks],
        resource=resource[known.resource[tasks]],
        tie=known.tie[tasks],
        release=known.release[tasks],
        edges=replace(
            known.edges,
            before=task[known.edges.before[edges]],
            after=task[known.edges.after[edges]],
            at_start=known.edges.at_start[edges],
        ),
        resources=tuple(known.resources[item] for item in resources),
        failures=tuple(replace(item, resource=int(resource[item.resource])) for item in known.failures[::-1]),
    )
    times, other = simulate(known, compiled=False), simulate(moved, compiled=False)
    for name in ("start", "end", "why"):
        assert getattr(times, name)[tasks].tolist() == getattr(other, name).tolist(), name
    causes = np.append(task, -1)[times.cause[tasks]]
    assert causes.tolist() == other.cause.tolist()
    assert sorted(zip(task[times.lost.task], times.lost.end, strict=True)) == sorted(
        zip(other.lost.task, other.lost.end, strict=True)
    )


@NEEDS_NUMBA
@settings(max_examples=300)
@given(st.one_of(problems(), generic()))
def test_the_compiled_loop_is_the_plain_one(known):
    assert not differing(simulate(known, compiled=True), simulate(known, compiled=False))


@NEEDS_NUMBA
@pytest.mark.parametrize("kind", ["i", "f"])
def test_the_compiled_loop_is_compiled(kind):
    assert engine._compiled(kind) is not engine._plain


@given(problems(queues=EXCLUSIVE))
def test_ticks_and_seconds_are_equal(known):
    seconds = replace(known, duration=known.duration.astype(np.float64), release=known.release.astype(np.float64))
    assert not differing(simulate(known, compiled=False), simulate(seconds, compiled=False))


@given(problems(queues=EXCLUSIVE))
def test_the_columns_of_a_problem_stay_as_they_are(known):
    columns = (known.duration, known.resource, known.tie, known.release, known.edges.before, known.edges.after)
    before = [column.copy() for column in columns]
    simulate(known, compiled=False)
    assert all((old == new).all() for old, new in zip(before, columns, strict=True))


@given(problems())
def test_only_a_failure_without_end_leaves_tasks_undone(known):
    times = simulate(known, compiled=False)
    assert not len(times.never) or any(fault.back == math.inf for fault in known.failures)
    assert times.never.tolist() == np.flatnonzero(times.end < 0).tolist() == np.flatnonzero(times.start < 0).tolist()
