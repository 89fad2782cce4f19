"""Random problems of the event engine: small, full of ties, zero lengths, releases and failures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from meshwright.sim.engine import Edges, Failure, Problem, Resource

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

EXCLUSIVE = ("fifo", "priority")
ALL = ("fifo", "priority", "shared")


def problem(
    duration: Any,
    resource: Any,
    resources: tuple[Resource, ...],
    *,
    edges: Any = (),
    tie: Any = None,
    release: Any = None,
    failures: tuple[Failure, ...] = (),
) -> Problem:
    """From lists. edges: (before, after) or (before, after, at start)."""
    length = np.array(duration)
    count = len(length)
    rows = [(*edge, False)[:3] for edge in edges]
    before, after, at_start = zip(*rows, strict=True) if rows else ((), (), ())
    return Problem(
        duration=length,
        resource=np.array(resource, np.int64),
        edges=Edges(
            before=np.array(before, np.int64), after=np.array(after, np.int64), at_start=np.array(at_start, np.bool_)
        ),
        resources=resources,
        tie=np.arange(count) if tie is None else np.array(tie, np.int64),
        release=np.zeros(count, length.dtype) if release is None else np.array(release, length.dtype),
        failures=failures,
    )


@st.composite
def problems(draw: DrawFn, *, queues: tuple[str, ...] = ALL, distinct: bool = False, fails: bool = True) -> Problem:
    """Whole numbers of ticks, or of seconds where a resource is shared. distinct: no two ties are equal."""
    kinds = draw(st.lists(st.sampled_from(queues), min_size=1, max_size=3))
    count = draw(st.integers(min_value=1, max_value=14))
    number = {"min_size": count, "max_size": count}
    order = draw(st.permutations(range(count)))
    pairs = draw(st.lists(st.tuples(*[st.integers(0, count - 1)] * 2, st.booleans()), max_size=2 * count))
    shared = "shared" in kinds
    failures: list[Failure] = []
    if fails:
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, 12))
            back = draw(st.one_of(st.integers(at, at + 5), st.just(math.inf)))
            failures.append(Failure(resource=draw(st.integers(0, len(kinds) - 1)), at=at, back=back))
    duration = draw(st.lists(st.integers(0, 4), **number))
    return problem(
        np.array(duration, np.float64 if shared else np.int64),
        draw(st.lists(st.integers(-1, len(kinds) - 1), **number)),
        tuple(
            Resource(name=f"R{place}", queue=kind, rate=2.0 if kind == "shared" else 0.0)
            for place, kind in enumerate(kinds)
        ),
        edges=[(order[min(a, b)], order[max(a, b)], at_start) for a, b, at_start in pairs if a != b],
        tie=draw(st.permutations(range(count)) if distinct else st.lists(st.integers(0, 3), **number)),
        release=draw(st.lists(st.sampled_from([0, 0, 0, 1, 3, 7]), **number)),
        failures=tuple(failures),
    )


@st.composite
def generic(draw: DrawFn, *, queues: tuple[str, ...] = ALL) -> Problem:
    """Seconds without any coincidence in time, so that rounding decides no order: the numbers come from a seed."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = draw(st.lists(st.sampled_from(queues), min_size=1, max_size=4))
    count = draw(st.integers(min_value=1, max_value=40))
    pairs = np.sort(random.integers(0, count, (2 * count, 2)), axis=1)
    order = random.permutation(count)
    failures: list[Failure] = []
    for _ in range(draw(st.integers(0, 4))):
        at = float(random.uniform(0, 10))
        failures.append(
            Failure(resource=int(random.integers(len(kinds))), at=at, back=at + float(random.exponential(2)))
        )
    return problem(
        random.exponential(1.0, count),
        random.integers(-1, len(kinds), count),
        tuple(Resource(name=f"R{place}", queue=kind, rate=1.5) for place, kind in enumerate(kinds)),
        edges=[(order[a], order[b], bool(random.integers(2))) for a, b in pairs.tolist() if a != b],
        tie=random.integers(0, 5, count),
        release=np.where(random.random(count) < 0.3, random.uniform(0, 8, count), 0.0),
        failures=tuple(failures),
    )
