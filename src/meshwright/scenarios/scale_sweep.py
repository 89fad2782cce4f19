"""How long do ever larger models train, on how many devices? Sizes and accelerators go in; a row of each comes out.

The rule of thumb 6ND over the accelerators' dense peak rates, at a flat efficiency: for comparing scales, not plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import JobError
from meshwright.base.numbers import divide_up
from meshwright.base.units import Bytes, Seconds, Share, TokenCount
from meshwright.cost.compute_budget import needed_count, training_flops, training_s
from meshwright.system.accelerator import Accelerator, read_accelerator

_FORMATS: Final = ("bf16",)
_MOST: Final = 4096
_LARGEST: Final = 10**18


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledModel:
    """One size, and what its training computes."""

    parameters: int
    tokens: int
    work_flops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The dense peak rate of one accelerator, from the catalog."""

    accelerator: str
    format: str
    peak_flops_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRow:
    """One size on one accelerator, where it takes run_s.

    late_s: past the deadline.   spare_s: left of it.   needed_devices: the fewest in time, whole.   boundary_devices:
    the same before it is rounded up.   state_devices: the fewest whose memory holds the state alone.
    """

    parameters: int
    accelerator: str
    run_s: float
    late_s: float
    spare_s: float
    needed_devices: int
    boundary_devices: float
    state_devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A larger model against a smaller one. times_parameters, times_flops: of the smaller one's.

    flops_per_parameter_squared: the work of the smaller over its parameters squared; the same of the larger where the
    tokens grow with the parameters.
    """

    work_flops: float
    more_work_flops: float
    times_parameters: float
    times_flops: float
    flops_per_parameter_squared: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSweep:
    """Every size on every accelerator, in the order given, on so many devices."""

    devices: int
    models: tuple[ScaledModel, ...]
    rates: tuple[Rate, ...]
    rows: tuple[ScaleRow, ...]
    not_modelled: str


def scale_sweep(
    *,
    parameters: tuple[TokenCount, ...],
    tokens: TokenCount,
    tokens_per_parameter: float,
    active: Share,
    state_per_parameter: Bytes,
    accelerators: tuple[str, ...],
    devices: int,
    efficiency: Share,
    deadline_s: Seconds,
) -> ScaleSweep:
    """Models of so many parameters, each trained on `tokens`, or on tokens_per_parameter where that is not 0.

    active: the share of the parameters that a token meets; below 1 for a mixture of experts, whose state is that of all
    of them.   efficiency: of the dense BF16 peak, the exchanges inside it. Raises JOB050, SYS002, SYS005 (accelerator).
    Source: chapter "Training systems", section 10.6.4.
    """
    if not parameters or not accelerators or len(parameters) * len(accelerators) > _MOST:
        cause = f"{len(parameters)} sizes on {len(accelerators)} accelerators"
        raise JobError(50, cause, f"give at least one of each, and no more than {_MOST} rows")
    if not 1 <= devices <= _LARGEST or not all((efficiency, active, deadline_s)) or tokens_per_parameter < 0:
        cause = f"{devices} devices at {efficiency:.0%}, {active:.0%} active, by {deadline_s} s"
        raise JobError(50, cause, "give devices, an efficiency, an active share and a deadline above zero")
    cards = [read_accelerator(name) for name in accelerators]
    rates = [card.peak_for(_FORMATS) for card in cards]
    models = [_scaled(count, _amount(count, tokens, tokens_per_parameter), active) for count in parameters]
    return ScaleSweep(
        devices=devices,
        models=tuple(models),
        rates=tuple(
            Rate(accelerator=card.id, format=name, peak_flops_per_s=rate)
            for card, (name, rate) in zip(cards, rates, strict=True)
        ),
        rows=tuple(
            _row(model, card, rate, (devices, efficiency, deadline_s, state_per_parameter))
            for model in models
            for card, (_, rate) in zip(cards, rates, strict=True)
        ),
        not_modelled="attention scores; waits beyond the efficiency; activations; whether a layout exists",
    )


def compute_growth(
    parameters: TokenCount, more_parameters: TokenCount, tokens: TokenCount, tokens_per_parameter: float
) -> Growth:
    """A dense model and a larger one, each trained on `tokens`, or on tokens_per_parameter where that is not 0.

    Raises JOB050. Source: chapter "Training systems", section 10.6.4.
    """
    few, many = (
        _amount(parameters, tokens, tokens_per_parameter),
        _amount(more_parameters, tokens, tokens_per_parameter),
    )
    work, more = training_flops(parameters, few), training_flops(more_parameters, many)
    return Growth(
        work_flops=float(work),
        more_work_flops=float(more),
        times_parameters=more_parameters / parameters,
        times_flops=more / work,
        flops_per_parameter_squared=work / parameters**2,
    )


def _amount(parameters: int, tokens: int, tokens_per_parameter: float) -> int:
    """The tokens of a model. Raises JOB050."""
    amount = round(parameters * tokens_per_parameter) if tokens_per_parameter else int(tokens)
    if not 1 <= parameters <= _LARGEST or not 1 <= amount <= _LARGEST:
        raise JobError(50, f"{parameters} parameters and {amount} tokens", f"give 1 to {_LARGEST} of each")
    return amount


def _scaled(parameters: int, tokens: int, active: float) -> ScaledModel:
    work = training_flops(parameters if active == 1 else parameters * active, tokens)
    return ScaledModel(parameters=parameters, tokens=tokens, work_flops=float(work))


def _row(model: ScaledModel, card: Accelerator, rate: float, job: tuple[int, float, float, int]) -> ScaleRow:
    devices, efficiency, deadline, state = job
    run = training_s(model.work_flops, devices, rate, efficiency)
    return ScaleRow(
        parameters=model.parameters,
        accelerator=card.id,
        run_s=run,
        late_s=max(0.0, run - deadline),
        spare_s=max(0.0, deadline - run),
        needed_devices=int(needed_count(model.work_flops, rate, efficiency, deadline)),
        boundary_devices=devices * run / deadline,
        state_devices=divide_up(model.parameters * state, card.memory),
    )
