"""What share of the peak does a log line mean? Tokens a second (or FLOP/s) go in; MFU on the dense peak comes out.

Two things make the same run look different: which FLOPs a tool counts for a token, and which peak it divides by. Both
are said, and a printed share that only the sparse peak explains is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from meshwright.base.errors import JobError
from meshwright.base.result import Source
from meshwright.base.units import FlopsPerSecond, Share, Tokens
from meshwright.cost.model_flops import flops_per_token, mfu, read_convention
from meshwright.cost.published_mfu import Run, read_published
from meshwright.job.serve import MOST_TOKENS, check_range
from meshwright.model.model import Model
from meshwright.system.system import System

Claim: TypeAlias = Literal["none", "dense peak", "sparse peak", "neither peak"]
SPARSE_OVER_DENSE: Final = 2
"""Structured 2:4 sparsity doubles a datasheet's rate, and dense training does not use it.

Source: NVIDIA H100 datasheet, 989.4 and 1978.9 TFLOP/s in BF16 ("with sparsity").
"""
_CLOSE: Final = 0.02
_MOST_DEVICES: Final = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMfu:
    """One log line. rate: model FLOP/s of one device.   peak: dense, of one device, in the format.

    mfu: on the dense peak.   sparse_mfu: what dividing by the sparse peak would print.   claim: which of the two the
    printed share is, within 2 %.   convention: whose FLOPs of a token; empty where the log states FLOP/s.
    """

    convention: str
    flops_per_token: float | None
    rate_flops_per_s: float
    peak_flops_per_s: float
    mfu: float
    sparse_mfu: float
    claim: Claim
    verdict: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRuns:
    """Utilisations that a paper reports, on the dense peak."""

    model: str
    accelerator: str
    lowest: float
    highest: float
    runs: tuple[Run, ...]
    source: Source


def mfu_of_tokens(  # noqa: PLR0917 - a log line and its run
    model: Model,
    sequence: Tokens,
    convention: str,
    token_rate: float,
    devices: int,
    system: System,
    number_format: str,
    claimed: Share,
) -> LogMfu:
    """A line that prints tokens/s.

    token_rate: tokens a second of all devices together.   claimed: the printed share, 0 for none.   Raises JOB001
    (sizes), JOB060 (convention), JOB064 (a format without a peak). Source: chapter "Training systems",
    section 10.1.3.
    """
    check_range("sequence", sequence, 1, MOST_TOKENS)
    check_range("devices", devices, 1, _MOST_DEVICES)
    token = flops_per_token(model, sequence, convention)
    told = read_convention(convention)
    return _log_mfu(token_rate * token / devices, system, number_format, claimed, (convention, token, told.source))


def mfu_of_rate(rate_flops_per_s: FlopsPerSecond, system: System, number_format: str, claimed: Share) -> LogMfu:
    """A line that prints FLOP/s of one device, whatever it counts. Raises JOB064 (a format without a peak)."""
    return _log_mfu(rate_flops_per_s, system, number_format, claimed, None)


def published_mfu(name: str) -> PublishedRuns:
    """What a paper reports of its own runs. Raises JOB063 (a name)."""
    found = read_published(name)
    return PublishedRuns(
        model=found.model,
        accelerator=found.accelerator,
        lowest=found.lowest,
        highest=found.highest,
        runs=found.runs,
        source=found.source,
    )


def published_run(name: str, devices: int, sequence: Tokens) -> Run:
    """One run of a paper. Raises JOB063 (a name), JOB066 (a run that it does not report)."""
    runs = read_published(name).runs
    run = next((item for item in runs if (item.devices, item.sequence) == (devices, sequence)), None)
    if run is None:
        known = ", or ".join(f"devices={item.devices} and sequence={item.sequence}" for item in runs)
        raise JobError(66, f"{name} reports no run of {devices} devices at {sequence} tokens", f"give {known}")
    return run


def _log_mfu(
    rate: float, system: System, number_format: str, claimed: float, counted: tuple[str, float, Source] | None
) -> LogMfu:
    peak = dense_peak(system, number_format)
    share = mfu(1.0, rate, 1, peak)
    claim = _claim(claimed, share)
    return LogMfu(
        convention="" if counted is None else counted[0],
        flops_per_token=None if counted is None else counted[1],
        rate_flops_per_s=rate,
        peak_flops_per_s=peak,
        mfu=share,
        sparse_mfu=share / SPARSE_OVER_DENSE,
        claim=claim,
        verdict=_told(claim, claimed, share, peak),
        sources=() if counted is None else (counted[2],),
    )


def dense_peak(system: System, number_format: str) -> float:
    """Dense FLOP/s of one device in a format. Raises JOB064 for one that it has no rate in."""
    rates = system.accelerator.peak
    if number_format not in rates:
        cause = f"{system.accelerator.name} has no peak in {number_format!r}"
        raise JobError(64, cause, f"give one of {', '.join(rates)}")
    return rates[number_format]


def _claim(claimed: float, share: float) -> Claim:
    if not claimed:
        return "none"
    if abs(claimed - share) <= _CLOSE * share:
        return "dense peak"
    sparse = share / SPARSE_OVER_DENSE
    return "sparse peak" if abs(claimed - sparse) <= _CLOSE * sparse else "neither peak"


def _told(claim: Claim, claimed: float, share: float, peak: float) -> str:
    """What the printed share is, in words."""
    own = f"{share:.2%} of the dense peak of {peak / 1e12:g} TFLOP/s"
    if claim == "sparse peak":
        return f"{own}; the printed {claimed:.1%} divides by the sparse peak, which dense training cannot use: refused"
    if claim == "neither peak":
        return f"{own}; no peak explains the printed {claimed:.1%}: another rate, or FLOPs of a token counted otherwise"
    return own


def utilisation_of(model: Model, sequence: int, ranks: int) -> Callable[[float, float], float]:
    """MFU of a run, by its tokens a second over all ranks and the dense peak of one device in FLOP/s.

    sequence: positions of a sample.   FLOPs are those of the model's shapes, recompute left out.
    """
    check_range("sequence", sequence, 1, MOST_TOKENS)
    of_token = flops_per_token(model, sequence)
    return lambda tokens_per_s, peak_flops_per_s: mfu(tokens_per_s, of_token, ranks, peak_flops_per_s)
