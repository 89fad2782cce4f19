"""A line of a golden table goes in; what it states and what it expects come out, as typed values.

Units are read here by a table of its own, so that an error in the product's units can not hide itself.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).parent / "data"
CHAPTERS: Final = {"Supernodes": "supernodes.csv", "Training systems": "training-systems.csv"}

_DECIMAL: Final = {"": 0, "K": 3, "M": 6, "G": 9, "T": 12}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30}
_COUNTS: Final = (
    "",
    "B/param",
    "CPUs",
    "G",
    "GPUs",
    "NPUs",
    "assignments",
    "batch",
    "batches",
    "bits",
    "blocks",
    "bool",
    "calls",
    "card",
    "cards",
    "cfm",
    "chips",
    "collectives",
    "connections",
    "coef",
    "columns",
    "copies",
    "crossings",
    "dL/dtheta",
    "dims",
    "dispatches",
    "elements",
    "expert",
    "experts",
    "factor",
    "forwards",
    "fraction",
    "heads",
    "hops",
    "jobs",
    "hosts",
    "layer",
    "layers",
    "links",
    "log2",
    "messages",
    "micro-batches",
    "mm2",
    "objects",
    "ops",
    "pairs",
    "params",
    "ports",
    "ratio",
    "reads",
    "req/s",
    "requests",
    "rounds",
    "rows",
    "seq/s",
    "servers",
    "sessions",
    "sets",
    "sigma",
    "steps",
    "systems",
    "theta",
    "tokens",
    "tokens/s",
    "token/s",
    "transactions",
    "value",
    "wafers",
    "x",
    "x M",
)
_BARE: Final = ("cards", "mm2")
_NUMBER: Final = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_PRODUCT: Final = re.compile(rf"\s*({_NUMBER}(?:\s*\*\s*{_NUMBER})*)\s*(.*?)\s*")
_LIST: Final = re.compile(rf"\[{_NUMBER}(,\s*{_NUMBER})*\]|{_NUMBER}(,\s*{_NUMBER})+")
_POWER: Final = re.compile(r"(\d+)\^(\d+)")
_LIST_OF: Final = re.compile(rf"{_NUMBER}(,\s*{_NUMBER})+ [A-Za-z]+")
_TUPLE: Final = re.compile(rf"\({_NUMBER}(,\s*{_NUMBER})+\)")
_REPEATED: Final = re.compile(r"\d+x\d{3}")
_ASIDE: Final = re.compile(r"\s*\([^()]*\)$")
_PARTS: Final = re.compile(r";(?![^()\[\]]*[)\]])")


def _units() -> dict[str, tuple[str, Fraction]]:
    """Unit -> the SI unit it is a multiple of, and the multiple."""
    table = {word: (word, Fraction(1)) for word in _COUNTS}
    table |= {
        "%": ("", Fraction(1, 100)),
        "1e6": ("", Fraction(10**6)),
        "million": ("", Fraction(10**6)),
        "1e9 tokens": ("tokens", Fraction(10**9)),
        "GPU*s": ("GPU*s", Fraction(1)),
        "bytes": ("B", Fraction(1)),
    }
    table |= {unit: ("s", Fraction(1, 10**power)) for unit, power in {"s": 0, "ms": 3, "us": 6, "ns": 9}.items()}
    table |= {f"{prefix}{unit}": (unit, Fraction(scale)) for unit in "WJ" for prefix, scale in (("", 1), ("k", 1000))}
    table |= {unit: ("s", Fraction(size)) for unit, size in {"min": 60, "h": 3600, "d": 86400, "days": 86400}.items()}
    table["pp"] = ("", Fraction(1, 100))
    scales = {prefix: Fraction(10) ** power for prefix, power in _DECIMAL.items()}
    scales |= {prefix: Fraction(2) ** power for prefix, power in _BINARY.items()}
    for prefix, scale in scales.items():
        table |= {f"{prefix}B{per}": (f"B{per}", scale) for per in ("", "/s", "/token")}
        table |= {f"{prefix}bit/s": ("B/s", scale / 8)}
        table |= {f"{prefix}FLOP{per}": (f"FLOP{per}", scale) for per in ("", "/s")}
    return table


UNITS: Final = _units()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number as printed, with its unit; `digits` is the printed number, or empty when it was computed."""

    number: Fraction
    unit: str
    digits: str

    @property
    def si(self) -> Fraction:
        """The number in SI units, exactly."""
        return self.number * UNITS[self.unit][1]

    @property
    def slack(self) -> Fraction:
        """Three units of the last printed decimal, in SI units, for the tables round and cut; 0 for whole numbers."""
        mantissa, _, exponent = self.digits.lower().partition("e")
        decimals = len(mantissa.partition(".")[2])
        return 3 * Fraction(10) ** (int(exponent or 0) - decimals) * UNITS[self.unit][1] if decimals else Fraction(0)

    def spelled(self) -> str | int:
        """As the command line takes it: a bare whole number as an int, everything else as text with its unit."""
        if not self.unit and self.number.denominator == 1:
            return int(self.number)
        unit = "" if self.unit in _BARE else self.unit.removesuffix("/token")  # the name of the place says the rest
        whole = self.number.denominator == 1
        number = self.digits or (str(int(self.number)) if whole else repr(float(self.number)))
        return f"{number} {unit}".strip()


Value = Quantity | tuple[Fraction, ...] | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One row of a table. `stated` is what its `inputs` name; a flag such as `untied` is True."""

    id: str
    chapter: str
    section: str
    capability: str
    question: str
    inputs: str
    expected: str
    unit: str
    rel_tol: Fraction
    status: str
    note: str

    @property
    def stated(self) -> dict[str, Value]:
        """The inputs as typed values by name; a later name overrides an earlier one, a bare formula is `formula`."""
        return read_inputs(self.inputs)

    @property
    def value(self) -> Fraction | tuple[Fraction, ...] | dict[str, int] | str:
        """The expected value in SI units; a layout such as TP2 by axis."""
        return self.read(self.expected)

    @property
    def correct(self) -> Fraction | None:
        """For a wrong value that the product must not give: the right one, when the note states it."""
        found = re.search(rf"correct answer is ({_NUMBER})", self.note)
        return Fraction(found.group(1)) * UNITS[self.unit][1] if found else None

    def read(self, text: str) -> Fraction | tuple[Fraction, ...] | dict[str, int] | str:
        """A value in the row's unit, as SI."""
        if self.unit == "layout":
            return {**dict.fromkeys(("cp", "pp", "ep", "etp", "dp_shard", "dp_replicate"), 1), "tp": int(text[2:])}
        if self.unit == "grid":
            return text
        if text.startswith("["):
            scale = UNITS[self.unit][1] if self.unit in UNITS else 1  # `block ids` are numbers of things
            return tuple(item * scale for item in _listed(text))
        if self.unit == "ratio" and ":" in text:
            return _listed(text.replace(":", ","))
        return Fraction(text) * UNITS[self.unit][1]


@cache
def facts() -> tuple[Fact, ...]:
    """Every row of both chapters, in order."""
    found: list[Fact] = []
    for chapter, name in CHAPTERS.items():
        with (DATA / name).open(encoding="utf-8", newline="") as lines:
            found += [
                Fact(**{**line, "chapter": chapter, "rel_tol": Fraction(line["rel_tol"])})
                for line in csv.DictReader(lines)
            ]
    return tuple(found)


@cache
def titles() -> dict[str, str]:
    """What each capability is called, in the order of the specification."""
    with (DATA / "capabilities.csv").open(encoding="utf-8", newline="") as lines:
        return {line["id"]: line["title"] for line in csv.DictReader(lines)}


def read_inputs(text: str) -> dict[str, Value]:
    """`model=Qwen3-32B;tp=8`, `Qwen3-32B: L=64;untied` or a bare formula as values by name."""
    found: dict[str, Value] = {}
    for part in filter(None, (part.strip() for part in _PARTS.split(text))):
        name, equals, value = part.partition("=")
        if not equals:
            made = read_value(part)
            found |= {"formula": made} if isinstance(made, Quantity) else {part: True}
            continue
        if not found and ": " in name:
            model, _, name = name.partition(": ")
            found["model"] = model
        found[name.strip()] = read_value(value)
    return found


def read_value(text: str) -> Value:
    """A number with its unit, a sum or product of numbers, a list, or words."""
    said = text.strip()
    while _ASIDE.search(said) and not _TUPLE.fullmatch(said):
        said = _ASIDE.sub("", said).strip()
    said = said.rpartition("=")[2].strip()
    power = _POWER.fullmatch(said)
    if power is not None:
        return Quantity(number=Fraction(int(power.group(1)) ** int(power.group(2))), unit="", digits="")
    if _LIST_OF.fullmatch(said) or _REPEATED.fullmatch(said):  # `100,60,40,40 GB` and `64x768` are no numbers
        return said
    if _LIST.fullmatch(said) or _TUPLE.fullmatch(said):
        return _listed(said)
    terms = [_product(term) for term in said.split(" + ")]
    made = [term for term in terms if term is not None]
    if len(made) < len(terms):
        return said
    if len(made) == 1:
        return made[0]
    base = {UNITS[term.unit][0] for term in made}
    assert len(base) == 1, f"{text}: a sum of different units"
    return Quantity(number=sum((term.si for term in made), Fraction(0)), unit=base.pop(), digits="")


def _product(text: str) -> Quantity | None:
    """`128*37748736 B`; words after the unit, such as `BF16 dense`, are remarks. None when it is no number."""
    match = _PRODUCT.fullmatch(text)
    if match is None:
        return None
    factors = [factor.strip() for factor in match.group(1).split("*")]
    number = Fraction(1)
    for factor in factors:
        number *= Fraction(factor)
    words = match.group(2).split()
    unit = words[0] if words and words[0] in UNITS else ""
    if words and not unit and match.group(2)[0] in "*+-/.":
        return None
    if unit == "x" and len(words) > 1:  # `2x HGX H100` is a platform
        return None
    return Quantity(number=number, unit=unit, digits=factors[0] if len(factors) == 1 else "")


def _listed(text: str) -> tuple[Fraction, ...]:
    return tuple(Fraction(item.strip()) for item in text.strip("[]()").split(","))


def agrees(found: object, expected: object, rel_tol: Fraction) -> bool:
    """Whether an answer is the expected value: exactly when `rel_tol` is 0, else within it; a list place
    by place, a layout by its axes."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(found.get(axis) == degree for axis, degree in expected.items())
    if isinstance(expected, str):
        return found == expected
    if isinstance(expected, tuple):
        listed = found if isinstance(found, (list, tuple)) else ()
        pairs = zip(listed, expected, strict=False)
        return len(listed) == len(expected) and all(agrees(one, other, rel_tol) for one, other in pairs)
    distance = relative_distance(found, expected)
    if distance and not rel_tol and isinstance(expected, Fraction):
        return found == float(expected)  # 0.106 s is exact, and no float is 106 thousandths
    return distance is not None and distance <= rel_tol


def relative_distance(found: object, expected: object) -> Fraction | None:
    """How far an answer is from a number, relative to it; None when either is no number."""
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not isinstance(expected, Fraction):
        return None
    if not math.isfinite(found):
        return None
    if isinstance(found, float) and found == float(expected):  # as near as a float can be: 1 ms has no exact one
        return Fraction(0)
    return abs(Fraction(found) - expected) / abs(expected) if expected else abs(Fraction(found))
