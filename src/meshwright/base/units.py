"""Text with a unit goes in, SI base units come out; and back, for display.

Inside the program every number is in SI base units: bytes, seconds, FLOP, watts. Text carries its unit at every
boundary. GB is 1e9 bytes, GiB is 2^30 bytes, Gbit is an eighth of a GB; a bare number where a unit is needed is refused
with the right spelling. Lengths read K as 1024 and refuse M; job sizes read K, M, B, T as powers of 1000.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final, NewType

from meshwright.base.errors import FileError, suggest

Bytes = NewType("Bytes", int)
Seconds = NewType("Seconds", float)
Flops = NewType("Flops", float)
BytesPerSecond = NewType("BytesPerSecond", float)
FlopsPerSecond = NewType("FlopsPerSecond", float)
Watts = NewType("Watts", float)
Joules = NewType("Joules", float)
Metres = NewType("Metres", float)
Share = NewType("Share", float)
Tokens = NewType("Tokens", int)
TokenCount = NewType("TokenCount", int)

MULTIPLY_ADD_FLOPS: Final = 2
"""One multiply-add counts as two FLOPs, in every count and in every peak rate."""

_DECIMAL: Final = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}
_LARGEST: Final = 1e60
_MOST_EXPONENT: Final = 60
_MOST_DIGITS: Final = 100
_MANY: Final = 1000
_BEYOND_FLOPS: Final = 1e19
_BITS: Final = re.compile(r"^([kKMGTPE]?)b(?:ps|/s|its?/s|its?)?$")
_NUMBER: Final = re.compile(r"^\s*([+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")


def _byte_units() -> dict[str, Fraction]:
    table = {f"{prefix}B": Fraction(10) ** power for prefix, power in _DECIMAL.items()}
    table |= {f"{prefix}B": Fraction(2) ** power for prefix, power in _BINARY.items()}
    table |= {f"{prefix}bit": Fraction(10) ** power / 8 for prefix, power in _DECIMAL.items()}
    return table


_UNITS: Final[dict[str, dict[str, Fraction]]] = {
    "bytes": _byte_units(),
    "seconds": {
        "ns": Fraction(1, 10**9),
        "us": Fraction(1, 10**6),
        "ms": Fraction(1, 1000),
        "s": Fraction(1),
        "min": Fraction(60),
        "h": Fraction(3600),
        "d": Fraction(86400),
    },
    "flops": {f"{prefix}FLOP": Fraction(10) ** power for prefix, power in _DECIMAL.items()},
    "bytes_per_s": {f"{unit}/s": scale for unit, scale in _byte_units().items()},
    "flops_per_s": {f"{prefix}FLOP/s": Fraction(10) ** power for prefix, power in _DECIMAL.items()},
    "watts": {"W": Fraction(1), "kW": Fraction(1000), "MW": Fraction(10) ** 6},
    "metres": {"m": Fraction(1), "km": Fraction(1000)},
    "joules": {"J": Fraction(1), "kJ": Fraction(1000), "MJ": Fraction(10) ** 6, "kWh": Fraction(3_600_000)},
}
_EXAMPLE: Final = {
    "bytes": "2GiB",
    "seconds": "130ms",
    "flops": "2.5TFLOP",
    "bytes_per_s": "3.35TB/s",
    "flops_per_s": "989.4TFLOP/s",
    "watts": "10.2kW",
    "joules": "1.2kJ",
    "metres": "30m",
    "share": "75%",
    "length": "8K",
    "count": "100B",
}
DIMENSIONS: Final[dict[object, str]] = {
    Bytes: "bytes",
    Seconds: "seconds",
    Flops: "flops",
    BytesPerSecond: "bytes_per_s",
    FlopsPerSecond: "flops_per_s",
    Watts: "watts",
    Joules: "joules",
    Metres: "metres",
    Share: "share",
    Tokens: "length",
    TokenCount: "count",
}
EXACT: Final = frozenset({"bytes", "length", "count"})
SI_SUFFIX: Final = {
    "bytes": "B",
    "seconds": "s",
    "flops": "FLOP",
    "bytes_per_s": "B/s",
    "flops_per_s": "FLOP/s",
    "watts": "W",
    "joules": "J",
    "metres": "m",
}


def parse_quantity(text: str | float, dimension: str, what: str = "value") -> float | int:
    """Read `text` as a number of SI base units of `dimension` (a value of `DIMENSIONS`).

    Bytes, lengths and counts come back as exact ints; 79.11 GiB is its nearest byte. Raises
    IO001 (no number), IO002 (unit missing or of another dimension), IO003 (not finite, negative, or not a whole number
    where one is needed).
    """
    number, unit = _split(str(text), what, _EXAMPLE[dimension])
    if dimension == "share":
        return _share(number, unit, what)
    if dimension in {"length", "count"}:
        return _whole(number, _multiplier(number, unit, dimension, what), f"{text}", what)
    scale = _scale(str(text), number, unit, dimension, what)
    if dimension in EXACT:
        return _whole(number, scale, f"{text}", what, rounded=True)
    return float(Fraction(number) * scale)


def parse_exact(text: str, dimension: str, what: str = "value") -> Fraction:
    """Read `text` as `parse_quantity` does, exactly, for a dimension that has units. Raises IO001, IO002, IO003."""
    number, unit = _split(text, what, _EXAMPLE[dimension])
    return Fraction(number) * _scale(text, number, unit, dimension, what)


def parse_any(text: str, what: str = "value") -> float:
    """Read `text` by whatever unit it states, in SI base units; a bare number is itself. Raises IO001..IO003."""
    number, unit = _split(text, what)
    scale = next((table[unit] for table in _UNITS.values() if unit in table), Fraction(1) if not unit else None)
    if scale is None:
        raise FileError(2, f"{what}: {unit!r} is not a unit", "write a unit such as GB, ms or TB/s")
    return float(Fraction(number) * scale)


def _split(text: str, what: str, example: str = "130ms") -> tuple[str, str]:
    match = _NUMBER.match(text)
    if match is None:
        raise FileError(
            1, f"{what}: {text!r} does not start with a number", f"write a number and its unit, as in {example}"
        )
    number = match.group(1).replace("_", "")
    if len(number) > _MOST_DIGITS:
        raise FileError(3, f"{what}: {text[:_MOST_DIGITS]}... is out of range", f"write at most {_MOST_DIGITS} digits")
    if not math.isfinite(float(number)) or not 0 <= float(number) <= _LARGEST:
        raise FileError(3, f"{what}: {text!r} is out of range", "write a finite number that is not negative")
    exponent = re.search(r"[eE]([+-]?\d+)$", number)
    if exponent is not None and abs(int(exponent.group(1))) > _MOST_EXPONENT:
        cause = f"{what}: {text!r} is out of range"
        raise FileError(3, cause, f"write an exponent between -{_MOST_EXPONENT} and {_MOST_EXPONENT}")
    return number, match.group(2)


def _share(number: str, unit: str, what: str) -> float:
    value = Fraction(number) / 100 if unit == "%" else Fraction(number)
    if unit not in {"", "%"} or not 0 <= value <= 1:
        raise FileError(2, f"{what}: {number}{unit} is not a share", "write a share such as 75% or 0.75")
    return float(value)


def _multiplier(number: str, unit: str, dimension: str, what: str) -> Fraction:
    """Lengths read K as 1024 and refuse M; counts read K, M, B, T as powers of 1000."""
    word = unit.removesuffix("tokens").strip()
    if dimension == "length":
        if word in {"", "K", "Ki"}:
            return Fraction(1024 if word else 1)
        if word == "M":
            million = int(Fraction(number) * 10**6)
            binary = int(Fraction(number) * 2**20)
            cause = f"{what}: {number}M may mean {million} or {binary} tokens"
            raise FileError(2, cause, f"write {million} or {binary}")
        raise FileError(2, f"{what}: {unit!r} is not a unit of length", "write tokens, or K for 1024, as in 128K")
    scales = {"": 0, "K": 3, "M": 6, "B": 9, "T": 12}
    if word not in scales:
        cause = f"{what}: {unit!r} is not a unit of count"
        raise FileError(2, cause, "write K, M, B or T (powers of 1000), as in 100B")
    return Fraction(10) ** scales[word]


def _scale(text: str, number: str, unit: str, dimension: str, what: str) -> Fraction:
    units = _UNITS[dimension]
    if unit in units:
        return units[unit]
    if not unit:
        cause = f"{what}: {text} has no unit"
        raise FileError(2, cause, f"write the unit, as in {number}{_tail(_EXAMPLE[dimension])}")
    belongs = next((name for name, table in _UNITS.items() if unit in table), None)
    if belongs is not None:
        cause = f"{what}: {text} is in {unit}, a unit of {belongs}, where {dimension} is needed"
        raise FileError(2, cause, f"write it as in {_EXAMPLE[dimension]}")
    bits = _BITS.match(unit)  # GB/s for Gb/s would be eight times as much
    if bits is not None and (spelled := f"{bits[1]}bit{'/s' * (dimension == 'bytes_per_s')}") in units:
        cause = f"{what}: {unit!r} is not a unit of {dimension}"
        raise FileError(2, cause, f"write {number}{spelled} for bits, {spelled.replace('bit', 'B')} for bytes")
    raise FileError(2, f"{what}: {unit!r} is not a unit of {dimension}", suggest(unit, units))


def _tail(example: str) -> str:
    return example.lstrip("0123456789.")


def _whole(number: str, scale: Fraction, text: str, what: str, *, rounded: bool = False) -> int:
    """The number of its base unit. rounded: a part of one is to be expected where the unit is larger."""
    value = Fraction(number) * scale
    if value.denominator != 1 and rounded and scale > 1 and value >= 1:
        return round(value)
    if value.denominator != 1:
        raise FileError(3, f"{what}: {text} is not a whole number ({float(value):g})", f"write {round(value)}")
    return int(value)


def show_bytes(value: float) -> str:
    """Decimal bytes for reading: 102.03 GB, 10.2 KB, 512 B."""
    return _show(value, (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)), "B")


def show_seconds(value: float) -> str:
    """Seconds for reading: 119.1 ms, 11.55 us, 34.3 d."""
    steps = (("d", 172800.0), ("h", 7200.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
    return _show(value, steps, "s", by={"d": 86400.0, "h": 3600.0})


def show_short(value: float) -> str:
    """As `show_seconds`, and below a microsecond in nanoseconds: 200 ns."""
    return f"{value * 1e9:.4g} ns" if 0 < abs(value) < 1e-6 else show_seconds(value)  # noqa: PLR2004 - a microsecond


def show_rate(value: float) -> str:
    """Bytes per second for reading: 3.35 TB/s."""
    return f"{show_bytes(value)}/s"


def show_flops(value: float, suffix: str = "FLOP") -> str:
    """FLOP or FLOP/s for reading: 989.4 TFLOP/s; beyond the prefixes 1.2e+26 FLOP."""
    if value >= _BEYOND_FLOPS:
        return f"{value:.4g} {suffix}"
    return _show(value, tuple((f"{prefix}{suffix}", 10.0 ** _DECIMAL[prefix]) for prefix in "PTGM"), suffix)


def show_watts(value: float) -> str:
    """Watts for reading: 112.20 kW."""
    return _show(value, (("MW", 1e6), ("kW", 1e3)), "W")


def _show(value: float, steps: tuple[tuple[str, float], ...], base: str, by: dict[str, float] | None = None) -> str:
    for unit, start in steps:
        if abs(value) >= start:
            return f"{_digits(value / (by or {}).get(unit, start))} {unit}"
    return f"{value:g} {base}"


def _digits(value: float) -> str:
    return f"{value:,.1f}" if abs(value) >= _MANY else f"{value:.2f}"
