"""Closed forms of offloading against the event engine, and what each must do when bytes, rates or windows change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.base.traced import leaf
from meshwright.cost.offload import (
    activation_offload,
    break_even_bytes_per_s,
    cast_on_device_s,
    cast_on_host_s,
    optimizer_offload,
    parameter_offload,
    prefetch_wait_s,
    round_trip_wait_s,
    transfer_wait_s,
)
from meshwright.scenarios._tasks import Task, spans
from meshwright.sim.engine import Resource

TIMES = st.floats(0.01, 50.0)
PIECES = st.integers(1, 12)
BYTES = st.integers(10**6, 10**12)
RATES = st.floats(1e9, 1e12)


def finished(stages: dict[str, float], pieces: int) -> float:
    """The engine: equal pieces run through the stages in order, each stage one piece at a time; the last end."""
    tasks = []
    names = list(stages)
    for piece in range(pieces):
        for place, name in enumerate(names):
            after = [f"{names[place - 1]} {piece}"] if place else []
            after += [f"{name} {piece - 1}"] if piece else []
            tasks.append(Task(name=f"{name} {piece}", duration_s=stages[name] / pieces, on=name, after=tuple(after)))
    ran = spans(tasks, [Resource(name=name, queue="fifo") for name in names])
    return max(span.end_s for span in ran.values())


@given(window=TIMES, down=TIMES, update=TIMES, up=TIMES, pieces=PIECES)
def test_the_round_trip_ends_when_the_engine_ends(window, down, update, up, pieces):
    stages = {"backward": window, "down": down, "update": update, "up": up}
    end = finished(stages, pieces)
    assert window + round_trip_wait_s(window, down, update, up, pieces) == pytest.approx(end, rel=1e-9)


@given(load=TIMES, window=TIMES, pieces=PIECES)
def test_a_prefetched_computation_ends_when_the_engine_ends(load, window, pieces):
    end = finished({"load": load, "compute": window}, pieces)
    assert window + prefetch_wait_s(load, window, pieces) == pytest.approx(end, rel=1e-9)


@given(narrow=BYTES, factor=st.integers(2, 4), host=RATES, device=RATES)
def test_both_casts_take_as_long_at_the_break_even_link_and_the_host_is_sooner_below_it(narrow, factor, host, device):
    wide = narrow * factor
    even = float(break_even_bytes_per_s(narrow, wide, host, device))
    if device <= host:
        assert even == np.inf
        assert cast_on_host_s(narrow, wide, 1e9, host) <= cast_on_device_s(narrow, wide, 1e9, device)
        return
    on_device = cast_on_device_s(narrow, wide, even, device)
    assert cast_on_host_s(narrow, wide, even, host) == pytest.approx(on_device, rel=1e-6)
    assert cast_on_host_s(narrow, wide, even / 2, host) < cast_on_device_s(narrow, wide, even / 2, device)
    assert cast_on_host_s(narrow, wide, even * 2, host) > cast_on_device_s(narrow, wide, even * 2, device)


@given(sent=BYTES, rate=RATES, window=TIMES)
def test_a_wait_is_never_negative_and_falls_with_the_window(sent, rate, window):
    alone = transfer_wait_s(sent, rate, 0.0)
    assert 0 <= transfer_wait_s(sent, rate, 2 * window) <= transfer_wait_s(sent, rate, window) <= alone


COLUMNS = {
    "optimizer": lambda size, link: optimizer_offload(
        2 * size, 2 * size, 12 * size, 4 * size, 0 * size, link, 76.8e9, 1.0 + 0 * size, 36
    ),
    "parameters": lambda size, link: parameter_offload(2 * size, 2 * size, link, 0.3, 0.6, 36, 8),
    "activations": lambda size, link: activation_offload(size, 4 * size, link, 0.3 + 0 * size, 0.6 + 0 * size, 36, 8),
}
FIELDS = ("exposed_wait_s", "host_bytes", "device_bytes", "sent_bytes", "received_bytes", "update_s")


@pytest.mark.parametrize("what", COLUMNS)
def test_a_column_is_its_rows_and_traced_numbers_are_the_same_recorded(what):
    sizes = np.array([10**6, 10**9, 3 * 10**10])
    column = COLUMNS[what](sizes, 32e9)
    for place, size in enumerate(sizes.tolist()):
        one, traced = COLUMNS[what](size, 32e9), COLUMNS[what](leaf(size, "size", basis="assumed"), 32e9)
        for name in FIELDS:
            assert getattr(column, name)[place] == pytest.approx(getattr(one, name), rel=1e-12), name
            assert float(getattr(traced, name)) == pytest.approx(getattr(one, name), rel=1e-12), name


@pytest.mark.parametrize("what", COLUMNS)
@given(size=st.integers(10**6, 10**11), rate=RATES)
def test_a_faster_link_never_waits_longer_and_more_bytes_never_less(what, size, rate):
    slow, fast, more = COLUMNS[what](size, rate), COLUMNS[what](size, 2 * rate), COLUMNS[what](2 * size, rate)
    slack = 1 + 1e-12
    assert 0 <= fast.exposed_wait_s <= slow.exposed_wait_s * slack
    assert slow.exposed_wait_s <= more.exposed_wait_s * slack
    assert more.host_bytes == 2 * slow.host_bytes > 0
