"""Nothing goes in; the JSON Schema (2020-12) of every document that `--format json` prints comes out.

It is derived from the dataclasses of a result and from the typed bodies of the commands, so that it cannot say anything
else than they do. Objects are closed, and every key of them is required unless its type says otherwise. Two sets stay
open: the nouns under `inputs`, and what a study's function returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from meshwright.base.result import SCHEMA_VERSION, Basis, Candidate, Result
from meshwright.layout.layout import Layout
from meshwright.output import (
    bodies,
    bodies_catalog,
    bodies_collective,
    bodies_collective_check,
    bodies_experts,
    bodies_local,
    bodies_pool,
    bodies_rack,
    bodies_runs,
    bodies_timelines,
    bodies_topology,
    bodies_training,
    bodies_verify,
)
from meshwright.system.facts import Facts

Schema: TypeAlias = dict[str, Any]

_NOUNS: Final = ("model", "system", "job", "layout", "options")
_SERVING: Final = frozenset({"model", "system", "job", "layout"})
_SIMPLE: Final = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}
_BASIS: Final = f"^({'|'.join(Basis)})(: .+)?$|^as each .+$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command's document. given: nouns that are never null.   candidate: the definition of its candidates.

    discipline: of its job, where the document depends on it.   form: where it depends on an option.
    """

    name: str
    body: type
    given: frozenset[str] = frozenset()
    candidate: str | None = None
    discipline: str | None = None
    form: str | None = None

    @property
    def key(self) -> str:
        """Its name among the definitions."""
        return "_".join([*self.name.split(), *filter(None, (self.discipline, self.form))])


COMMANDS: Final = (
    Command(name="inspect", body=bodies.InspectBody, given=frozenset({"model"})),
    Command(name="fit", body=bodies.FitBody, given=frozenset({"model", "system", "layout"}), candidate="FitCandidate"),
    Command(name="plan serve", body=bodies.TurnBody, given=_SERVING, candidate="TurnCandidate", discipline="fifo"),
    Command(
        name="plan serve", body=bodies.BatchBody, given=_SERVING, candidate="BatchCandidate", discipline="continuous"
    ),
    Command(name="plan train", body=bodies_training.TrainBody, given=_SERVING, candidate="TrainCandidate"),
    Command(name="explain", body=bodies.ExplainBody),
    Command(name="experts", body=bodies_experts.ExpertsBody, given=_SERVING),
    Command(name="schedule", body=bodies_timelines.ScheduleBody),
    Command(name="rack", body=bodies_rack.RackBody, given=frozenset({"system"})),
    Command(name="pool", body=bodies_pool.PoolBody),
    Command(name="topology", body=bodies_topology.TopologyBody),
    Command(name="checkpoint interval", body=bodies_timelines.IntervalBody),
    Command(name="checkpoint timeline", body=bodies_timelines.SavesBody),
    Command(name="collective check", body=bodies_collective_check.CheckBody, given=frozenset({"system"})),
    Command(name="calibrate local", body=bodies_local.LocalBody),
    Command(name="run train", body=bodies_runs.RunTrainBody, given=frozenset({"model", "job", "layout"})),
    Command(name="verify parity", body=bodies_runs.VerifyParityBody, given=frozenset({"model", "job"})),
    Command(name="verify run", body=bodies_verify.VerifyRunBody, given=frozenset({"model", "layout"})),
    Command(name="verify run", body=bodies_verify.CallsBody, given=frozenset({"model", "layout"}), form="check"),
    Command(name="verify run", body=bodies_verify.BubblesBody, form="sleep"),
    Command(name="collective time", body=bodies_collective.CollectiveBody, candidate="CollectiveCandidate"),
    Command(name="compare", body=bodies.CompareBody),
    Command(name="list", body=bodies_catalog.CatalogBody),
    Command(name="study list", body=bodies_catalog.StudiesBody),
    Command(name="study run", body=bodies_catalog.StudyBody),
)


@dataclass(frozen=True, slots=True)
class _Definitions:
    """Types met so far, by name; no two have one."""

    found: Schema = field(default_factory=dict[str, Any])
    owners: dict[str, Any] = field(default_factory=dict[str, Any])

    def of(self, hint: Any) -> Schema:
        """The schema of a type: plain ones in place, records as a reference to their definition."""
        origin, arguments = get_origin(hint), get_args(hint)
        if hint is Any:
            return {}
        if origin is not None:
            return self._generic(origin, arguments)
        return {"type": _SIMPLE[hint]} if hint in _SIMPLE else self._named(hint)

    def _generic(self, origin: Any, arguments: tuple[Any, ...]) -> Schema:
        if origin is Annotated:
            return self.of(arguments[0]) | dict(arguments[1:])
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is Mapping:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if origin in {list, tuple}:
            return {"type": "array", "items": self.of(arguments[0])}
        assert origin in {Union, UnionType}, origin
        return _either([self.of(item) for item in arguments])

    def _named(self, hint: Any) -> Schema:
        name = str(hint.__name__)
        if hasattr(hint, "__supertype__"):  # a NewType of base/units
            return self.of(hint.__supertype__)
        if issubclass(hint, StrEnum):
            return {"enum": [str(item) for item in hint]}
        assert self.owners.setdefault(name, hint) is hint, f"two types of one name: {name}"
        if name not in self.found:
            self.found[name] = {}  # a type that holds itself refers to this entry
            self.found[name] = _told(hint) | self.record(hint)
        return _ref(name)

    def record(self, cls: Any) -> Schema:
        """A closed object with the fields of a dataclass or a TypedDict."""
        hints = get_type_hints(cls, include_extras=True)
        names = [item.name for item in fields(cls)] if is_dataclass(cls) else list(hints)
        optional = {name for name in names if get_origin(hints[name]) is NotRequired}
        inner = {name: get_args(hints[name])[0] if name in optional else hints[name] for name in names}
        return _closed({name: self.of(hint) for name, hint in inner.items()}, frozenset(optional))


def schema() -> Schema:
    """The whole schema; the same bytes for the same program."""
    known = _Definitions()
    commands = {command.key: _document(command, known) for command in COMMANDS}
    found = {"failure": _failure(known), **commands, **_candidates(known), **dict(sorted(known.found.items()))}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:meshwright:result:{SCHEMA_VERSION}",
        "title": "What meshwright prints under --format json",
        "oneOf": [_ref("failure"), *(_ref(command.key) for command in COMMANDS)],
        "$defs": found,
    }


def _failure(known: _Definitions) -> Schema:
    return _closed({"schema_version": {"const": SCHEMA_VERSION}, "error": known.of(bodies.Failure)})


def _document(command: Command, known: _Definitions) -> Schema:
    """One command's answer: the common fields of `Result`, its candidates, and the body beside them."""
    hints = get_type_hints(Result)
    common = {item.name: known.of(hints[item.name]) for item in fields(Result) if item.name not in _APART}
    body = known.record(command.body)
    candidate = [] if command.candidate is None else [_ref(command.candidate)]
    special: Schema = {
        "schema_version": {"const": SCHEMA_VERSION},
        "command": {"const": command.name},
        "inputs": _closed({noun: _noun(noun, command, known) for noun in _NOUNS}),
        "best": _either([*candidate, {"type": "null"}]),
        "candidates": {"type": "array", **({"items": candidate[0], "minItems": 1} if candidate else {"maxItems": 0})},
        "flips": {"type": "array", "items": known.of(bodies.Flip)},
        "basis": {"type": "object", "additionalProperties": {"type": "string", "pattern": _BASIS}},
    }
    optional = frozenset(body["properties"]) - frozenset(body["required"])
    return _closed({**special, **common, **body["properties"]}, optional)


_APART: Final = frozenset({"command", "inputs", "best", "candidates", "flips", "basis", "body"})


def _noun(noun: str, command: Command, known: _Definitions) -> Schema:
    """What is sure of a noun: that it is there, whose facts it holds, which discipline it has."""
    if noun not in {*command.given, "options"}:
        return {"type": ["object", "null"]}
    sure: Schema = {}
    if noun == "system":
        sure["facts"] = known.of(Facts)
    if noun == "system" and command.name == "plan train":
        return _either([_sure(sure), _closed({"systems": {"type": "array", "items": _sure(sure), "minItems": 1}})])
    if noun == "job" and command.discipline is not None:
        sure["discipline"] = {"const": command.discipline}
    return _sure(sure)


def _sure(properties: Schema) -> Schema:
    """An open object that has these."""
    return {"type": "object", **({"properties": properties, "required": list(properties)} if properties else {})}


def _candidates(known: _Definitions) -> Schema:
    """The candidates of fit and of plans: `Candidate` with its layout, its ledger and the measures beside them."""
    hints = get_type_hints(Candidate)
    base = {item.name: known.of(hints[item.name]) for item in fields(Candidate) if item.name != "measures"}
    base["layout"] = known.of(Layout)
    empty: Schema = {"type": "object", "maxProperties": 0}
    memory = _either([known.of(bodies.Memory), empty])
    measures = {"TurnCandidate": bodies.TurnMeasures, "BatchCandidate": bodies.BatchMeasures}
    serving = {
        name: _closed({**base, "memory": memory, **known.record(own)["properties"]}) for name, own in measures.items()
    }
    training = known.record(bodies_training.TrainMeasures)
    collective = known.record(bodies_collective.CollectiveMeasures)["properties"]
    return {
        "CollectiveCandidate": _closed({**base, "layout": empty, "memory": empty, **collective}),
        "FitCandidate": _closed({**base, "memory": known.of(bodies.FitMemory)}),
        **serving,
        "TrainCandidate": _closed(
            {**base, "memory": known.of(bodies_training.TrainMemory), **training["properties"]},
            frozenset(training["properties"]) - frozenset(training["required"]),
        ),
    }


def _closed(properties: Schema, optional: frozenset[str] = frozenset()) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _either(choices: list[Schema]) -> Schema:
    """One of several: null beside a single type as a list of types, the rest as anyOf."""
    kept = [choice for choice in choices if choice != {"type": "null"}]
    if len(kept) == len(choices) - 1 == 1 and isinstance(kept[0].get("type"), str):
        return kept[0] | {"type": [kept[0]["type"], "null"]}
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _told(cls: Any) -> Schema:
    """The first line of a type's docstring; a TypedDict without one has none."""
    text = cast("str", cls.__doc__ or "").partition("\n")[0]
    return {"description": text} if text and not text.startswith("dict(") else {}
