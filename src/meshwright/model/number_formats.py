"""A number format's bits go in; what it can say comes out: its smallest and largest numbers and its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from meshwright.base.errors import ModelError, suggest

TopCodes: TypeAlias = Literal["infinities", "one_nan", "numbers"]
_MOST_BITS: Final = {"exponent_bits": 10, "mantissa_bits": 52}
_LEAST_BITS: Final = {"exponent_bits": 2, "mantissa_bits": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberFormat:
    """A sign, an exponent and a mantissa, with subnormal numbers. Numbers beside it are those above zero.

    top_codes: what the highest exponent means: `infinities` and NaNs alone (IEEE 754); `one_nan`, its last code, and
    numbers otherwise (E4M3); or `numbers` (E2M1).
    """

    exponent_bits: int
    mantissa_bits: int
    top_codes: TopCodes

    @property
    def bias(self) -> int:
        """What the stored exponent stands above the exponent."""
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def least_exponent(self) -> int:
        """Of the smallest normal number: stored as 1."""
        return 1 - self.bias

    @property
    def smallest_normal(self) -> float:
        """The smallest number with all its bits of precision."""
        return 2.0**self.least_exponent

    @property
    def smallest_subnormal(self) -> float:
        """One step above zero; what lies below half of it becomes zero."""
        return 2.0 ** (self.least_exponent - self.mantissa_bits)

    @property
    def largest(self) -> float:
        """The largest finite number: the last code that is a number."""
        codes = 2**self.mantissa_bits
        infinite = self.top_codes == "infinities"
        exponent = 2**self.exponent_bits - 1 - infinite - self.bias
        last = codes - 1 - (self.top_codes == "one_nan")
        return (1 + last / codes) * 2.0**exponent

    @property
    def relative_step(self) -> float:
        """From 1 to the next number; rounding is off by half of it at most."""
        return 2.0**-self.mantissa_bits


NUMBER_FORMATS: Final = {
    "fp32": NumberFormat(exponent_bits=8, mantissa_bits=23, top_codes="infinities"),
    "fp16": NumberFormat(exponent_bits=5, mantissa_bits=10, top_codes="infinities"),
    "bf16": NumberFormat(exponent_bits=8, mantissa_bits=7, top_codes="infinities"),
    "e5m2": NumberFormat(exponent_bits=5, mantissa_bits=2, top_codes="infinities"),
    "e4m3": NumberFormat(exponent_bits=4, mantissa_bits=3, top_codes="one_nan"),
    "e2m1": NumberFormat(exponent_bits=2, mantissa_bits=1, top_codes="numbers"),
}
"""By name. Source: IEEE 754-2019 (fp32, fp16); Micikevicius et al., "FP8 formats for deep learning" (arXiv 2209.05433),
table 1 (e5m2, e4m3); OCP Microscaling Formats 1.0, section 5.3 (e2m1)."""


def find_number_format(name: str) -> NumberFormat:
    """A format by name. Raises MOD024 for another word."""
    if name not in NUMBER_FORMATS:
        raise ModelError(24, f"{name!r} is no number format", suggest(name, NUMBER_FORMATS))
    return NUMBER_FORMATS[name]


def checked_number_format(number: NumberFormat) -> NumberFormat:
    """The format itself. Raises MOD025 for bits that no double can hold, or codes that leave no number."""
    for name, most in _MOST_BITS.items():
        bits, least = getattr(number, name), _LEAST_BITS[name]
        if not least <= bits <= most:
            raise ModelError(25, f"{name} is {bits}", f"give between {least} and {most}")
    if number.top_codes == "one_nan" and number.mantissa_bits == 0:
        raise ModelError(25, "the only code of the highest exponent is the NaN", "give mantissa_bits=1, or infinities")
    return number
