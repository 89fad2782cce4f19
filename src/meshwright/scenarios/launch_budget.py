"""What would fusing, or starting faster, save of a step's exchanges? A model and a group go in; the budget comes out.

And why a norm can not move before the exchange that it follows: both orders are run on numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds
from meshwright.job.serve import check_range
from meshwright.model.model import Model
from meshwright.scenarios.collective import collective_time
from meshwright.scenarios.tensor_parallel import exchanges_per_step
from meshwright.workload.messages import row_bytes

_MOST_TOKENS: Final = 2**24
_MOST_KERNELS: Final = 100
_LONGEST_S: Final = 1.0
_ELEMENT: Final = 2
_MOST_WIDTH: Final = 2**20
LEFT_OUT: Final = (
    "a reduction of its own for small messages (one shot, in the switch), which libraries choose below some size",
    "multiprocessors that an exchange takes from the computation beside it: freeing them helps only where it is slower",
    "bytes: fusing and starting elsewhere send the same ones over the same links",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One exchange of so many tokens. start_up_share: of its time."""

    tokens: int
    message_bytes: int
    exchange_s: float
    start_up_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchBudget:
    """A step's exchanges. start_up_s: of all of them.   fused_saving_s: launches that one kernel for all saves."""

    reductions: int
    rounds: int
    start_up_s: float
    launches: int
    launch_s: float
    fused_saving_s: float
    messages: tuple[Message, ...]
    not_modelled: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NormOrders:
    """RMSNorm after the sum of partial results, and before it. equal: whether it makes no difference here."""

    norm_of_sum: tuple[float, ...]
    sum_of_norms: tuple[float, ...]
    largest_difference: float
    equal: bool


def launch_budget(
    *,
    model: Model,
    ranks: int,
    algorithm: str,
    latency_s: Seconds,
    bandwidth_bytes_per_s: BytesPerSecond,
    tokens: tuple[int, ...],
    kernels: int,
    launch_s: Seconds,
) -> LaunchBudget:
    """One decode step over `ranks` ranks; tokens: batches whose messages are told apart.

    kernels: launched after each other for one exchange and what follows it, as in all_reduce, residual add and norm;
    fused they are one.   Raises COL001, COL002 (algorithm, ranks), JOB001 (counts), JOB116 (times). Source: chapter
    "Supernodes", section 6.4.4.
    """
    check_range("kernels", kernels, 1, _MOST_KERNELS)
    if not tokens or not 0 <= launch_s <= _LONGEST_S or not 0 <= latency_s <= _LONGEST_S or bandwidth_bytes_per_s <= 0:
        raise JobError(116, "no tokens, or times that cannot be", f"give tokens, and times up to {_LONGEST_S} s")
    for count in tokens:
        check_range("tokens", count, 1, _MOST_TOKENS)
    reductions = exchanges_per_step(model)
    sizes = [Bytes(row_bytes(count, model.hidden, _ELEMENT)) for count in tokens]
    times = [collective_time(algorithm, ranks, size, latency_s, bandwidth_bytes_per_s) for size in sizes]
    return LaunchBudget(
        reductions=reductions,
        rounds=times[0].rounds,
        start_up_s=times[0].start_up_s * reductions,
        launches=reductions * kernels,
        launch_s=reductions * kernels * launch_s,
        fused_saving_s=reductions * (kernels - 1) * launch_s,
        messages=tuple(
            Message(
                tokens=count,
                message_bytes=size,
                exchange_s=time.total_s,
                start_up_share=time.start_up_s / time.total_s if time.total_s else 0.0,
            )
            for count, size, time in zip(tokens, sizes, times, strict=True)
        ),
        not_modelled=LEFT_OUT,
    )


def norm_orders(left: tuple[float, ...], right: tuple[float, ...], eps: float, gain: float) -> NormOrders:
    """Partial results of two ranks, summed and then normed, or normed and then summed.

    Raises JOB117 (lengths, eps). Source: chapter "Supernodes", section 6.4.4: only the first is the model's.
    """
    if not 1 <= len(left) == len(right) <= _MOST_WIDTH or eps < 0:
        raise JobError(117, f"parts of {len(left)} and {len(right)} numbers", "give two of the same length")
    parts = np.array([left, right], dtype=np.float64)
    after = _rms_norm(parts.sum(axis=0), eps, gain)
    before = _rms_norm(parts[0], eps, gain) + _rms_norm(parts[1], eps, gain)
    apart = float(np.abs(after - before).max())
    return NormOrders(
        norm_of_sum=tuple(after.tolist()),
        sum_of_norms=tuple(before.tolist()),
        largest_difference=apart,
        equal=apart <= 1e-12 * float(np.abs(after).max()),
    )


def _rms_norm(values: np.ndarray, eps: float, gain: float) -> np.ndarray:
    return gain * values / np.sqrt(np.mean(values * values) + eps)
