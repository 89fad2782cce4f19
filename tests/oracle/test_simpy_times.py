"""The event engine against simpy models of the same problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.sim.engine import Resource, simulate
from tests.laws.problems import EXCLUSIVE, generic, problem, problems
from tests.oracle.simpy_model import Model

if TYPE_CHECKING:
    from collections.abc import Generator

    from meshwright.sim.engine import Problem


@settings(max_examples=400)
@given(problems(queues=EXCLUSIVE))
def test_exclusive_resources_with_ties_releases_and_failures_are_simpys(known):
    start, end = Model(known).run()
    times = simulate(known, compiled=False)
    assert times.start.tolist() == start.tolist()
    assert times.end.tolist() == end.tolist()


@settings(max_examples=300)
@given(generic())
def test_shared_and_exclusive_resources_with_failures_are_simpys(known):
    start, end = Model(known).run()
    times = simulate(known, compiled=False)
    np.testing.assert_allclose(times.start, start, rtol=1e-9)
    np.testing.assert_allclose(times.end, end, rtol=1e-9)


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_a_priority_resource_is_simpys_own(seed, count):
    """Where no two things happen at one time (a delay of its own is before each task), it needs no rule of ours."""
    random = np.random.default_rng(seed)
    pairs = np.sort(random.integers(0, count, (2 * count, 2)), axis=1)
    known = problem(
        random.exponential(1.0, 2 * count),
        np.concatenate([np.full(count, -1), random.integers(0, 3, count)]),
        (Resource(name="a"), Resource(name="b"), Resource(name="c")),
        edges=[*((count + a, b) for a, b in pairs.tolist() if a != b), *((n, count + n) for n in range(count))],
        tie=random.permutation(2 * count),
        release=random.uniform(0, 5, 2 * count),
    )
    np.testing.assert_allclose(simulate(known, compiled=False).end, _by_priority_resource(known), rtol=1e-12)


def _by_priority_resource(known: Problem) -> np.ndarray:
    env = simpy.Environment()
    resources = [simpy.PriorityResource(env) for _ in known.resources]
    ended = [env.event() for _ in known.duration]
    end = np.zeros(len(known.duration))

    def task(number: int) -> Generator[simpy.Event, object, None]:
        before = known.edges.before[known.edges.after == number]
        yield env.all_of([env.timeout(known.release[number]), *(ended[other] for other in before)])
        if known.resource[number] < 0:
            yield env.timeout(known.duration[number])
        else:
            with resources[known.resource[number]].request(priority=known.tie[number]) as turn:
                yield turn
                yield env.timeout(known.duration[number])
        end[number] = env.now
        ended[number].succeed()

    for number in range(len(end)):
        env.process(task(number))
    env.run()
    return end
