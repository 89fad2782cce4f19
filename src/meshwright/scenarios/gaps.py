"""Does a gradient fit between other exchanges, whole or in pieces? Sizes and gaps go in; placements and waits come out.

A buffer runs whole in one gap (a collective is not interrupted): it must be ready when the gap begins, and end in it.
Splitting adds service and may still remove the wait: total service is the wrong thing to minimise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import ScheduleError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds
from meshwright.cost.collectives import send_s
from meshwright.scenarios._tasks import Task, spans
from meshwright.scenarios.collective import collective_time
from meshwright.sim.engine import Resource

_CHANNEL: Final = Resource(name="channel", queue="fifo")
_MOST: Final = 4096
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One buffer's run. gap: the number of the gap that holds it whole; None where none does."""

    gap: int | None
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """A gradient in so many buffers. sent_bytes, call_s: of one of them, as a rank sends it.   placed: those in gaps.

    exposed_wait_s: from the end of the last gap, when the computation ends, to the end of the last buffer.
    """

    buffers: int
    buffer_bytes: float
    sent_bytes: float
    call_s: float
    service_s: float
    placed: int
    exposed_wait_s: float
    runs: tuple[Placed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """The gradient whole and split. extra_service_s: what splitting adds.   saved_wait_s: what it removes."""

    window_s: float
    whole: Buffers
    split: Buffers
    extra_service_s: float
    saved_wait_s: float


def gaps(
    *,
    message_bytes: Bytes,
    pieces: int,
    ranks: int,
    start_s: Seconds,
    bandwidth_bytes_per_s: BytesPerSecond,
    gap_s: Seconds,
    gap_count: int,
    busy_s: Seconds,
    ready_s: Seconds,
    algorithm: str,
) -> Gaps:
    """One collective, whole and in equal `pieces`, on a channel that other exchanges leave free for `gap_count` gaps.

    Each gap follows an exchange of busy_s, and the computation ends with the last gap. start_s: what a call costs
    before its first byte, once a call.   ready_s: when the gradient is there.   What no gap holds follows the last
    exchange, once the buffers of the last gap have ended. Raises SCH020 (pieces or gaps), COL001, COL002 (algorithm).
    Source: chapter "Training systems", section 10.3.4. Leaves out that an exchange and a computation slow each other.
    """
    if not 1 <= pieces <= _MOST or not 1 <= gap_count <= _MOST:
        cause = f"{pieces} pieces and {gap_count} gaps"
        raise ScheduleError(20, cause, f"give 1 to {_MOST} of each")
    sent = collective_time(algorithm, ranks, message_bytes, Seconds(0), bandwidth_bytes_per_s).sent_bytes
    window = _Window(gap_s=gap_s, count=gap_count, busy_s=busy_s)
    whole, split = (
        _buffers(window, message_bytes / count, count, sent / count, ready_s, (start_s, bandwidth_bytes_per_s))
        for count in (1, pieces)
    )
    return Gaps(
        window_s=window.end_s,
        whole=whole,
        split=split,
        extra_service_s=split.service_s - whole.service_s,
        saved_wait_s=whole.exposed_wait_s - split.exposed_wait_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """Exchanges of busy_s, each followed by a gap."""

    gap_s: float
    count: int
    busy_s: float

    @property
    def end_s(self) -> float:
        """When the last gap ends."""
        return self.begin_s(self.count)

    def begin_s(self, gap: int) -> float:
        """When the exchange before a gap begins."""
        return gap * (self.busy_s + self.gap_s)


def _buffers(  # noqa: PLR0917 - one of two ways to cut a gradient
    window: _Window,
    buffer_bytes: float,
    count: int,
    sent_bytes: float,
    ready_s: float,
    rate: tuple[Seconds, BytesPerSecond],
) -> Buffers:
    call = send_s(sent_bytes, *rate)
    chosen = _chosen(window, call, count, ready_s)
    tasks: list[Task] = []

    def run(name: str, seconds: float, release: float) -> None:
        """On the channel behind what stands before it: the placement decides the order, the engine the times."""
        after = (tasks[-1].name,) if tasks else ()
        tasks.append(Task(name=name, duration_s=seconds, on="channel", after=after, release_s=release))

    for gap in range(window.count):
        run(f"exchange {gap}", window.busy_s, window.begin_s(gap))
        for number in [number for number, place in enumerate(chosen) if place == gap]:
            run(f"buffer {number}", call, ready_s)
    for number in [number for number, place in enumerate(chosen) if place is None]:
        run(f"buffer {number}", call, ready_s)
    ran = spans(tasks, (_CHANNEL,))
    sent = [ran[f"buffer {number}"] for number in range(count)]
    return Buffers(
        buffers=count,
        buffer_bytes=buffer_bytes,
        sent_bytes=sent_bytes,
        call_s=call,
        service_s=call * count,
        placed=sum(place is not None for place in chosen),
        exposed_wait_s=max(window.end_s, *(item.end_s for item in sent)) - window.end_s if None in chosen else 0.0,
        runs=tuple(
            Placed(gap=place, start_s=item.start_s, end_s=item.end_s) for place, item in zip(chosen, sent, strict=True)
        ),
    )


def _chosen(window: _Window, call_s: float, count: int, ready_s: float) -> list[int | None]:
    """The first gap with room for each buffer in turn; None where no gap is left. As many as fill a gap exactly fit."""
    chosen: list[int | None] = []
    for gap in range(window.count):
        room = window.gap_s * (1 + _ROUNDING) if ready_s <= window.begin_s(gap) + window.busy_s else 0.0
        held = 1
        while len(chosen) < count and 0 < held * call_s <= room:
            held += 1
            chosen.append(gap)
    return chosen + [None] * (count - len(chosen))
