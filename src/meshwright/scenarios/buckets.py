"""How long does a step wait for its gradients? Buckets, a channel and a backward pass go in; exposed waits come out.

A bucket is sent when its last gradient is ready and the channel is free; the step waits for what is still under way
when its independent computation ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from meshwright.base.errors import ScheduleError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds
from meshwright.cost.collectives import send_s
from meshwright.scenarios._tasks import Span, Task, spans
from meshwright.scenarios.collective import collective_time
from meshwright.sim.engine import Resource

Order: TypeAlias = Literal["inputs_first", "weights_first"]
_COMPUTE: Final = Resource(name="compute", queue="fifo")
_CHANNEL: Final = Resource(name="channel", queue="fifo")
_MOST_LAYERS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketWait:
    """One bucket on its channel. overlapped_s: of its run, what lies within the window; the rest is exposed."""

    start_s: float
    end_s: float
    channel_wait_s: float
    overlapped_s: float
    exposed_wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSize:
    """A backward pass with buckets of one size. exposed_wait_s: from its end to the end of the last reduction.

    ready_wait_s: what first gradients of buckets wait for their last, the longest of them.
    upstream_ready_s: when the stage before may start, which waits for the gradient of this one's input.
    """

    layers_per_bucket: int
    order: Order
    buckets: int
    bucket_bytes: int
    service_s: float
    backward_s: float
    end_s: float
    exposed_wait_s: float
    ready_wait_s: float
    upstream_ready_s: float


def bucket(ready_s: Seconds, busy_s: Seconds, duration_s: Seconds, window_s: Seconds) -> BucketWait:
    """One reduction whose gradients are ready at `ready_s`, on a channel that another exchange holds until `busy_s`.

    window_s: independent computation from time 0.   Source: chapter "Training systems", section 10.3.3. Leaves out that
    both slow each other down (`overlap` has measured pairs).
    """
    found = spans(
        (
            Task(name="window", duration_s=window_s, on="compute"),
            Task(name="exchange", duration_s=busy_s, on="channel"),
            Task(name="reduction", duration_s=duration_s, on="channel", release_s=ready_s),
        ),
        (_COMPUTE, _CHANNEL),
    )
    run, window = found["reduction"], found["window"].end_s
    return BucketWait(
        start_s=run.start_s,
        end_s=run.end_s,
        channel_wait_s=run.start_s - ready_s,
        overlapped_s=min(run.end_s, window) - min(run.start_s, window),
        exposed_wait_s=max(run.end_s, window) - window,
    )


def bucket_sizes(
    *,
    layers: int,
    gradient_bytes: Bytes,
    input_gradient_s: Seconds,
    weight_gradient_s: Seconds,
    ranks: int,
    start_s: Seconds,
    bandwidth_bytes_per_s: BytesPerSecond,
    layers_per_bucket: tuple[int, ...],
    orders: tuple[Order, ...],
    algorithm: str,
) -> tuple[BucketSize, ...]:
    """Every bucket size in every order of a layer's two gradients; gradient_bytes and times are of one layer.

    A larger bucket waits longer for its last gradient, a smaller one pays more starts; weights first lets the reduction
    start earlier, inputs first the stage before. Raises SCH021 (layers), COL001, COL002 (algorithm). Source: chapter
    "Training systems", section 10.3.3.
    """
    if not 1 <= layers <= _MOST_LAYERS or not all(1 <= size <= layers for size in layers_per_bucket):
        cause = f"buckets of {', '.join(map(str, layers_per_bucket))} layers out of {layers}"
        raise ScheduleError(21, cause, f"give 1 to {_MOST_LAYERS} layers, and buckets of 1 to all of them")
    found: list[BucketSize] = []
    for order in orders:
        for size in layers_per_bucket:
            groups = [range(first, min(first + size, layers)) for first in range(0, layers, size)]
            tasks = _backward(layers, input_gradient_s, weight_gradient_s, order)
            for number, group in enumerate(groups):
                whole = Bytes(gradient_bytes * len(group))
                sent = collective_time(algorithm, ranks, whole, Seconds(0), bandwidth_bytes_per_s).sent_bytes
                seconds = send_s(sent, start_s, bandwidth_bytes_per_s)
                after = tuple(f"weights {layer}" for layer in group)
                tasks.append(Task(name=f"bucket {number}", duration_s=seconds, on="channel", after=after))
            ran = spans(tasks, (_COMPUTE, _CHANNEL))
            found.append(_size(ran, groups, order, gradient_bytes))
    return tuple(found)


def _backward(layers: int, inputs_s: float, weights_s: float, order: Order) -> list[Task]:
    """The backward pass in its order on one stream; layer 0 is the first whose gradients come, the model's last."""
    pair = (("inputs", inputs_s), ("weights", weights_s))
    steps = pair if order == "inputs_first" else pair[::-1]
    tasks: list[Task] = []
    for layer in range(layers):
        for name, seconds in steps:
            before = (tasks[-1].name,) if tasks else ()
            tasks.append(Task(name=f"{name} {layer}", duration_s=seconds, on="compute", after=before))
    return tasks


def _size(ran: dict[str, Span], groups: list[range], order: Order, gradient_bytes: int) -> BucketSize:
    sent = [ran[f"bucket {number}"] for number in range(len(groups))]
    last = groups[-1][-1]
    backward = max(ran[f"weights {last}"].end_s, ran[f"inputs {last}"].end_s)
    waits = [ran[f"weights {group[-1]}"].end_s - ran[f"weights {group[0]}"].end_s for group in groups]
    end = max(item.end_s for item in sent)
    return BucketSize(
        layers_per_bucket=len(groups[0]),
        order=order,
        buckets=len(groups),
        bucket_bytes=gradient_bytes * len(groups[0]),
        service_s=sum(item.end_s - item.start_s for item in sent),
        backward_s=backward,
        end_s=max(end, backward),
        exposed_wait_s=max(end, backward) - backward,
        ready_wait_s=max(waits),
        upstream_ready_s=ran[f"inputs {last}"].end_s,
    )
