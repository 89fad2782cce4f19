"""What does a number format hold, and which loss scale keeps gradients in it? Bits and sizes go in; ranges come out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import JobError
from meshwright.job.numerics import PublishedFigure, read_figure
from meshwright.job.serve import check_range
from meshwright.model.formats import Format
from meshwright.model.number_formats import (
    NumberFormat,
    TopCodes,
    checked_number_format,
    find_number_format,
)

_MOST_SIDE: Final = 2**20
_MOST_PARAMETERS: Final = 2**56
_MOST_STEPS: Final = 4096
_GROWTH: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatFacts:
    """What a format holds; `relative_step` is from 1 to the next number, and what lies below half the smallest is 0."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    smallest_normal: float
    smallest_normal_exponent: int
    smallest_subnormal: float
    largest: float
    relative_step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockScaled:
    """A copy with one scale a block. promotions: how often the partial sum of a product of `inner` is moved on.

    copy_bytes: elements and scales.   plain_bytes: of the same parameters in 16 bits.
    """

    block_elements: int
    blocks: int
    copy_bytes: int
    bytes_per_parameter: float
    plain_bytes: int
    promotions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LossScale:
    """Powers of two by which the loss is multiplied, and the gradients divided before the update.

    least_scale: the smallest with which no gradient above zero is lost.   most_scale: the largest with which none
    overflows.   exists: whether one does both.   published_least, published_most: the range of published networks.
    """

    lost_below: float
    overflows_above: float
    least_scale: float
    most_scale: float
    exists: bool
    published_least: float
    published_most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledSteps:
    """A run with dynamic loss scaling. scales: of each step.   skipped: the steps without an update."""

    scales: tuple[float, ...]
    skipped: tuple[int, ...]
    updates: int
    final_scale: float


def number_format(name: str) -> FormatFacts:
    """The facts of a format by name: fp32, fp16, bf16, e5m2, e4m3, e2m1. Raises MOD024. Source: `NUMBER_FORMATS`."""
    return _facts(find_number_format(name))


def bit_format(exponent_bits: int, mantissa_bits: int, top_codes: TopCodes) -> FormatFacts:
    """The facts of any format by its bits. Raises MOD025. Source: IEEE 754-2019, section 3."""
    found = NumberFormat(exponent_bits=exponent_bits, mantissa_bits=mantissa_bits, top_codes=top_codes)
    return _facts(checked_number_format(found))


def block_scaled(
    *, parameters: int, block_rows: int, block_columns: int, bits: int, scale_bytes: int, inner: int
) -> BlockScaled:
    """Operands of `bits` with one scale for block_rows x block_columns elements, of so many parameters in whole blocks.

    inner: length of a dot product. Raises JOB001 (sizes). Source: DeepSeek-AI, "DeepSeek-V3 technical report" (arXiv
    2412.19437), section 3.3.2: 1 x 128 for activations, 128 x 128 for weights. What a matrix of uneven sides adds is
    in the ledger of a model, which counts started blocks of every matrix.
    """
    for name, size in (("block_rows", block_rows), ("block_columns", block_columns), ("inner", inner)):
        check_range(name, size, 1, _MOST_SIDE)
    check_range("parameters", parameters, 1, _MOST_PARAMETERS)
    check_range("bits", bits, 1, 16)
    check_range("scale_bytes", scale_bytes, 0, 8)
    block = block_rows * block_columns
    stored = Format(name="scaled", bits=bits, compute="fp8", block=(1, block), scale_bytes=scale_bytes)
    copy = int(stored.stored_bytes((1, parameters)))
    plain = Format(name="plain", bits=16, compute="bf16")
    return BlockScaled(
        block_elements=block,
        blocks=-(-parameters // block),
        copy_bytes=copy,
        bytes_per_parameter=copy / parameters,
        plain_bytes=int(plain.stored_bytes((1, parameters))),
        promotions=math.ceil(inner / read_figure("fp8-promotion").value),
    )


def loss_scale(number: str, smallest_gradient: float, largest_gradient: float) -> LossScale:
    """Which loss scales keep gradients between two sizes in a format.

    Too small a scale leaves some at zero; too large a one makes some infinite. Raises MOD024 (format), JOB045 (sizes).
    Source: Micikevicius et al., "Mixed precision training" (arXiv 1710.03740), section 3.2. Takes a number below the
    smallest subnormal as lost; rounding to nearest saves those above half of it.
    """
    if not 0 < smallest_gradient <= largest_gradient:
        cause = f"gradients from {smallest_gradient:g} to {largest_gradient:g}"
        raise JobError(45, cause, "give two sizes above zero, the smaller first, as in 7.5e-9 and 2")
    found = find_number_format(number)
    least = 2.0 ** math.ceil(math.log2(found.smallest_subnormal / smallest_gradient))
    most = 2.0 ** math.floor(math.log2(found.largest / largest_gradient))
    return LossScale(
        lost_below=found.smallest_subnormal,
        overflows_above=found.largest,
        least_scale=least,
        most_scale=most,
        exists=least <= most,
        published_least=read_figure("least-loss-scale").value,
        published_most=read_figure("most-loss-scale").value,
    )


def dynamic_loss_scale(
    number: str, initial_scale: float, growth_steps: int, largest_gradients: tuple[float, ...]
) -> ScaledSteps:
    """Steps with these largest gradients: an overflow skips the update and halves the scale, clean steps double it.

    growth_steps: clean steps in a row that double it. Raises MOD024 (format), JOB001 (counts), JOB045 (a scale of 0).
    Source: the rule of `torch.amp.GradScaler` (growth 2, backoff 1/2); Micikevicius et al., section 3.2, for the skip.
    """
    check_range("the number of steps", len(largest_gradients), 1, _MOST_STEPS)
    check_range("growth_steps", growth_steps, 1, _MOST_SIDE)
    if initial_scale <= 0:
        raise JobError(45, f"initial_scale is {initial_scale:g}", "give a scale above zero, as in 65536")
    most = find_number_format(number).largest
    scale, clean = initial_scale, 0
    scales: list[float] = []
    skipped: list[int] = []
    for step, largest in enumerate(largest_gradients):
        scales.append(scale)
        if largest * scale > most:
            skipped.append(step)
            scale, clean = scale / _GROWTH, 0
            continue
        clean += 1
        if clean == growth_steps:
            scale, clean = scale * _GROWTH, 0
    updates = len(scales) - len(skipped)
    return ScaledSteps(scales=tuple(scales), skipped=tuple(skipped), updates=updates, final_scale=scale)


def published_figure(figure: str) -> PublishedFigure:
    """A published figure of training in low precision, by name. Raises JOB044."""
    return read_figure(figure)


def _facts(found: NumberFormat) -> FormatFacts:
    return FormatFacts(
        exponent_bits=found.exponent_bits,
        mantissa_bits=found.mantissa_bits,
        bias=found.bias,
        smallest_normal=found.smallest_normal,
        smallest_normal_exponent=found.least_exponent,
        smallest_subnormal=found.smallest_subnormal,
        largest=found.largest,
        relative_step=found.relative_step,
    )
