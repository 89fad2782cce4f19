"""Does a save starve the input? Storage that a writer and readers share goes in; waits and the save they hide come out.

Readers fill a queue of batches, each step takes one. While a save is uploaded the storage is shared by all that read or
write, and the queue runs down where the readers' part is less than the steps need.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import CheckpointError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds
from meshwright.scenarios._tasks import Span, Task, spans
from meshwright.sim.engine import Resource

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_STEPS: Final = 1024
_SLICES: Final = 64
_HALVINGS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStorage:
    """Storage, its readers and the steps behind them.

    bandwidth: of the storage, shared equally by the streams under way.   readers: streams of input.   queue: batches
    that are read ahead, those being read included.   save_at: when an upload begins.   write_cap: what the writer takes
    at most; None for its equal share.
    """

    bandwidth: BytesPerSecond
    batch: Bytes
    readers: int
    queue: int
    step: Seconds
    steps: int
    save: Bytes
    save_at: Seconds
    write_cap: BytesPerSecond | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveWait:
    """What the save does to the steps. wait_s: what it adds to their end.   lowest_queue: batches ready, at its lowest.

    hidden_save_bytes: the largest save that adds nothing, up to the one asked about.   waitless_cap_bytes_per_s: the
    highest cap on the writer at which this save adds nothing (at most the storage's rate), None where none does.
    """

    upload_s: float
    wait_s: float
    lowest_queue: int
    hidden_save_bytes: int
    waitless_cap_bytes_per_s: float | None


def save_and_input(storage: SharedStorage) -> SaveWait:
    """One save on storage that also feeds the steps.

    A capped writer is paced: the save in 64 slices, each due when the cap has let the ones before it through. Raises
    CKP005 (counts and rates out of range). Source: chapter "Training systems", sections 10.4.1 and 10.4.3. Leaves out
    how readers prepare batches, and queues within the storage.
    """
    _check(storage)
    ran = _ran(storage)
    alone = _end_s(storage, _ran(replace(storage, save=Bytes(0))))

    def waits(changed: SharedStorage) -> bool:
        return _end_s(changed, _ran(changed)) > alone

    last = ran[f"upload {_SLICES - 1}"].end_s
    taken = [ran[f"step {number}"].start_s for number in range(storage.steps)]
    ready = [ran[f"read {number}"].end_s for number in range(storage.steps)]
    levels = [
        sum(time <= start for time in ready) - number - 1
        for number, start in enumerate(taken)
        if storage.save_at <= start <= last
    ]
    hidden = _largest(float(storage.save), lambda size: not waits(replace(storage, save=Bytes(int(size)))))
    cap = _largest(storage.bandwidth, lambda rate: not waits(replace(storage, write_cap=BytesPerSecond(rate))))
    return SaveWait(
        upload_s=last - storage.save_at,
        wait_s=_end_s(storage, ran) - alone,
        lowest_queue=min(levels, default=storage.queue),
        hidden_save_bytes=int(hidden or 0),
        waitless_cap_bytes_per_s=cap,
    )


def _check(storage: SharedStorage) -> None:
    counts = (storage.readers, storage.queue, storage.steps)
    rates = (
        storage.bandwidth,
        storage.batch,
        storage.step,
        storage.save,
        1 if storage.write_cap is None else storage.write_cap,
    )
    if not all(1 <= count <= _MOST_STEPS for count in counts) or not all(rate > 0 for rate in rates):
        cause = (
            f"{storage.readers} readers, a queue of {storage.queue}, {storage.steps} steps, or a rate or size of zero"
        )
        raise CheckpointError(5, cause, f"give counts of 1 to {_MOST_STEPS}, and rates and sizes above zero")


def _ran(storage: SharedStorage) -> dict[str, Span]:
    tasks = [
        Task(
            name=f"upload {number}",
            duration_s=storage.save / _SLICES,
            on="storage",
            after=(f"upload {number - 1}",) if number else (),
            release_s=storage.save_at
            + (0.0 if storage.write_cap is None else number * storage.save / _SLICES / storage.write_cap),
        )
        for number in range(_SLICES)
    ]
    for number in range(storage.steps):
        stream, slot = number - storage.readers, number - storage.queue
        tasks += [
            Task(
                name=f"read {number}",
                duration_s=float(storage.batch),
                on="storage",
                after=(f"read {stream}",) if stream >= 0 else (),
                after_start=(f"step {slot}",) if slot >= 0 else (),
            ),
            Task(name=f"step {number}", duration_s=storage.step, on="compute", after=(f"read {number}",)),
        ]
    shared = Resource(name="storage", queue="shared", rate=storage.bandwidth)
    return spans(tasks, (shared, Resource(name="compute", queue="fifo")))


def _end_s(storage: SharedStorage, ran: dict[str, Span]) -> float:
    """When the steps end, to a nanosecond: the shares of a busy storage are sums of many parts."""
    return round(ran[f"step {storage.steps - 1}"].end_s, 9)


def _largest(most: float, holds: Callable[[float], bool]) -> float | None:
    """The largest amount up to `most` that holds, by halving; None where half of a millionth does not."""
    if holds(most):
        return most
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low or None
