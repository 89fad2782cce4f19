"""Timelines counted by hand: reasons, lost runs and busy time."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from meshwright.sim.engine import Failure, Resource, simulate
from meshwright.sim.timeline import busy_s, critical_path, timeline
from tests.laws.problems import problem

GPU, WIRE = Resource(name="gpu"), Resource(name="wire", queue="fifo")


def line(duration, resource, resources, *, kind=None, tick_s=Fraction(1), **kwargs):
    known = problem(duration, resource, resources, **kwargs)
    codes = np.zeros(len(duration), np.int64) if kind is None else np.array(kind)
    return timeline(
        known,
        simulate(known, compiled=False),
        kind=codes,
        kinds=("forward", "backward"),
        label=lambda task: "ABCDEFG"[task],
        tick_s=tick_s,
    )


def reasons(known):
    return [(step.label, step.start_s, step.end_s, step.reason) for step in critical_path(known).steps()]


def test_the_critical_path_says_why_each_step_waited():
    """A, released at 1, waits for B too, but nothing waits for A."""
    known = line(
        [2, 3, 1, 4], [0, 0, 1, 1], (GPU, WIRE), kind=[0, 0, 1, 1], edges=[(1, 2), (2, 3)], release=[1, 0, 0, 0]
    )
    assert reasons(known) == [
        ("B", 0, 3, "waits for nothing"),
        ("C", 3, 4, "waits for B"),
        ("D", 4, 8, "waits for C"),
    ]
    assert known.makespan_s == critical_path(known).length_s == 8
    assert critical_path(known).by_kind_s() == {"forward": 3, "backward": 5, "lost": 0}


def test_a_busy_resource_is_a_reason_and_a_release_ends_the_path():
    known = line([2, 3], [0, 0], (GPU,), release=[1, 2], tick_s=Fraction(1, 2))
    assert reasons(known) == [("A", 0.5, 1.5, "released at 0.5 s"), ("B", 1.5, 3.0, "gpu busy with A")]
    assert critical_path(known).length_s == 2.5


def test_a_start_that_was_waited_for_counts_up_to_there():
    known = line([5, 6], [-1, -1], (), kind=[0, 1], edges=[(0, 1, True)], release=[0, 0])
    assert reasons(known) == [("A", 0, 5, "waits for nothing"), ("B", 0, 6, "waits for A to start")]
    assert critical_path(known).by_kind_s() == {"forward": 0, "backward": 6, "lost": 0}


def test_a_lost_run_is_a_row_of_its_own_and_a_failure_ends_the_path():
    known = line([4, 1], [0, -1], (GPU,), edges=[(0, 1)], failures=(Failure(resource=0, at=3, back=5),))
    assert known.tasks == 2
    assert known.task.tolist() == [0, 1, 0]
    assert [known.kinds[code] for code in known.kind] == ["forward", "forward", "lost"]
    assert (known.start_s[2], known.end_s[2], known.resource[2]) == (0, 3, 0)
    assert reasons(known) == [("A", 5, 9, "gpu down until 5 s"), ("B", 9, 10, "waits for A")]
    assert busy_s(known).tolist() == [7]


def test_what_waited_for_the_start_of_a_lost_run_leads_to_that_run():
    """A is lost and B goes on, which its start let go; C, which B opens, comes before A runs again. No circle."""
    failures = (Failure(resource=0, at=3, back=5),)
    known = line(
        [4, 7, 2, 2],
        [0, -1, 0, 0],
        (GPU,),
        edges=[(0, 1, True), (1, 2)],
        tie=[2, 0, 1, 0],
        release=[0, 0, 0, 4],
        failures=failures,
    )
    assert reasons(known) == [
        ("A", 0, 3, "waits for nothing"),
        ("B", 0, 7, "waits for A to start"),
        ("C", 7, 9, "waits for B"),
        ("A", 9, 13, "gpu busy with C"),
    ]


def test_what_never_ran_is_not_a_number_and_the_path_ends_in_what_did():
    known = line([4, 1, 2], [0, 0, -1], (GPU,), failures=(Failure(resource=0, at=3, back=math.inf),))
    assert np.isnan(known.end_s).tolist() == [True, True, False, False]
    assert known.makespan_s == 3
    assert reasons(known) == [("A", 0, 3, "waits for nothing")]
    assert busy_s(known).tolist() == [3]


def test_several_at_once_on_a_shared_resource_keep_it_busy_once():
    disk = Resource(name="disk", queue="shared", rate=1.0)
    assert busy_s(line([1.0, 2.0, 1.0], [0, 0, 0], (disk,), release=[0, 0, 9])).tolist() == [4.0]


def test_nothing_has_no_path():
    known = line([], [], (GPU,))
    assert known.makespan_s == critical_path(known).length_s == 0
    assert list(critical_path(known).steps()) == []
    assert busy_s(known).tolist() == [0]
