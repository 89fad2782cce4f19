"""A serving job and its checks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.base.errors import JobError, MeshwrightError
from meshwright.base.parse import build
from meshwright.job.serve import ServeJob, checked

JOB = ServeJob(sessions=4, context=131064, new_tokens=8, deadline=0.13, on_time=0.75)


def test_a_job_reads_with_its_units():
    data = {"sessions": 4, "context": 131064, "new_tokens": 8, "deadline": "130ms", "on_time": "75%"}
    assert build(ServeJob, data, "job") == JOB
    assert checked(JOB) == replace(JOB, discipline="fifo")
    assert checked(checked(JOB)) == checked(JOB)


def test_memory_holds_the_last_position():
    assert JOB.last_position == 131072


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"sessions": 0}, "JOB001"),
        ({"sessions": -1}, "JOB001"),
        ({"sessions": 10**9}, "JOB001"),
        ({"context": -1}, "JOB001"),
        ({"new_tokens": 0}, "JOB001"),
        ({"new_tokens": 2**40}, "JOB001"),
        ({"deadline": 0.0}, "JOB002"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(change, code):
    with pytest.raises(JobError, match=code):
        checked(replace(JOB, **change))


@pytest.mark.parametrize("change", [{"discipline": "lifo"}, {"on_time": "150%"}, {"context": "1M"}, {"deadline": 130}])
def test_fields_of_the_wrong_kind_are_refused(change):
    data = {"sessions": 4, "context": 1024, "new_tokens": 8}
    with pytest.raises(MeshwrightError, match="IO0"):
        build(ServeJob, {**data, **change}, "job")


def test_a_job_without_context_or_deadline_is_a_job():
    assert checked(ServeJob(sessions=1, context=0, new_tokens=1)).deadline is None


BATCHED = ServeJob(sessions=4, context=8192, new_tokens=8)


@pytest.mark.parametrize("bound", [{"ttft": 1.0}, {"tpot": 0.03}, {"concurrency": 2}, {"discipline": "continuous"}])
def test_a_bound_on_tokens_makes_the_batch_continuous(bound):
    assert checked(replace(BATCHED, **bound)).discipline == "continuous"
    assert checked(BATCHED).discipline == "fifo"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"discipline": "fifo", "tpot": 0.03}, "JOB006"),
        ({"discipline": "fifo", "concurrency": 2}, "JOB006"),
        ({"tpot": 0.03, "deadline": 1.0}, "JOB006"),
        ({"discipline": "continuous", "on_time": 0.5}, "JOB006"),
        ({"tpot": 0.0}, "JOB002"),
        ({"ttft": 0.0}, "JOB002"),
        ({"concurrency": 0}, "JOB001"),
        ({"concurrency": 5}, "JOB001"),
    ],
)
def test_numbers_that_a_discipline_does_not_know_are_refused(change, code):
    with pytest.raises(MeshwrightError) as caught:
        checked(replace(BATCHED, **change))
    assert caught.value.code == code
    assert caught.value.fix
