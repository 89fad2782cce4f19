"""A verdict, its candidates and what is needed to recompute and to doubt them go in; one JSON document comes out.

A scenario returns a `Result`; `as_json` turns it into the document of the front door (one JSON object, keys end in
their unit), and the tables draw the same value. `basis` says for every column of numbers where it comes from: the basis
belongs to the column and so is written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias, cast

SCHEMA_VERSION: Final = "1"

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class Basis(StrEnum):
    """Where a number comes from, from the firmest to the weakest."""

    CONFIG = "config"
    DATASHEET = "datasheet"
    MEASURED = "measured"
    FORMULA = "formula"
    CALIBRATED = "calibrated"
    SIMULATED = "simulated"
    TRACED = "traced"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The first line of every answer."""

    answer: Literal["yes", "no", "unknown"]
    text: str

    @property
    def exit_code(self) -> int:
        """0 for yes, 1 for no and for unknown."""
        return 0 if self.answer == "yes" else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaulted:
    """A field nobody gave, with the value used and whose default it is."""

    field: str
    value: Any
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a fact was read."""

    key: str
    title: str
    place: str
    read: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """Why a candidate is out: the code and reason, the nearest value that is in, and the limit that came first."""

    code: str
    reason: str
    nearest: str | None
    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One layout that was looked at. measures: the scenario's own columns, which stand beside the rest in JSON."""

    id: str
    layout: Mapping[str, Any]
    fits: bool
    excluded: Excluded | None
    memory: Mapping[str, Any]
    measures: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """What one change of one parameter does: `saving_s` is positive when the change helps."""

    parameter: str
    change: str
    value: float
    unit: str
    saving_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One answer. `body` holds the blocks that belong to one verb only, such as the `memory` of fit."""

    command: str
    verdict: Verdict
    inputs: Mapping[str, Any]
    defaulted: tuple[Defaulted, ...] = ()
    best: Candidate | None = None
    candidates: tuple[Candidate, ...] = ()
    flips: tuple[Mapping[str, Any], ...] = ()
    sensitivity: tuple[Lever, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    basis: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    next_commands: tuple[str, ...] = ()


def as_json(result: Result) -> dict[str, Json]:
    """The whole result as one JSON object, in the order of the front door."""
    document: dict[str, Json] = {"schema_version": SCHEMA_VERSION, "command": result.command}
    document["verdict"] = plain(result.verdict)
    document |= cast("dict[str, Json]", plain(result.body))
    for name in ("inputs", "defaulted"):
        document[name] = plain(getattr(result, name))
    document["best"] = None if result.best is None else _candidate(result.best)
    document["candidates"] = [_candidate(item) for item in result.candidates]
    for name in ("flips", "sensitivity", "warnings", "notes", "not_modelled", "sources", "basis", "next_commands"):
        document[name] = plain(getattr(result, name))
    return document


def error_json(code: str, cause: str, fix: str) -> dict[str, Json]:
    """The document of a failure under `--format json`."""
    message = f"error[{code}]: {cause}"
    return {"schema_version": SCHEMA_VERSION, "error": {"code": code, "message": message, "cause": cause, "fix": fix}}


def plain(value: object) -> Json:
    """Dataclasses, tuples, enums and numpy scalars as plain JSON values; numbers keep every digit.

    A result within a value is its document.
    """
    if hasattr(value, "tolist"):  # numpy's: some of its scalars are Python's by inheritance too
        return plain(cast("Any", value).tolist())
    if value is None or isinstance(value, (bool, str, int, float)):
        return str(value) if isinstance(value, StrEnum) else value
    if isinstance(value, Result):
        return as_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in cast("Mapping[Any, object]", value).items()}
    return [plain(item) for item in cast("Any", value)]


def _candidate(candidate: Candidate) -> dict[str, Json]:
    document = cast("dict[str, Json]", plain(candidate))
    measures = cast("dict[str, Json]", document.pop("measures"))
    return document | measures
