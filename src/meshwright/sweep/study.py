"""A packaged study's name goes in (a TOML naming public functions and their inputs); what they answer comes out.

Every mechanism that has no verb of its own is reached this way. A study is one function, or several named steps that
share inputs: a step takes every shared input that its function has, tables field by field, and its own stand above
them. Inputs are read by the function's own annotations: `Model` and `System` by their ids, dataclasses from tables, and
plain numbers by the unit in their name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from inspect import signature
from typing import Any, Final, TypeVar, cast, get_origin, get_type_hints

import numpy as np

from meshwright.base.errors import FileError, suggest
from meshwright.base.parse import build, read_toml, set_path
from meshwright.base.registry import Registry
from meshwright.base.result import Result, Source, Verdict, plain
from meshwright.base.units import parse_quantity
from meshwright.model.checks import checked_model
from meshwright.model.model import Model
from meshwright.model.reader import read_model
from meshwright.system.system import System, checked_system, read_system, read_systems

STUDIES: Final = Registry(
    kind="studies", package="meshwright.sweep", folder="studies", suffix=".toml", error=FileError, number=20
)
_PACKAGE: Final = "meshwright."
_LARGEST: Final = 10**18
_BY_SUFFIX: Final = (
    ("_flops_per_s", "flops_per_s"),
    ("_bytes_per_s", "bytes_per_s"),
    ("_bytes", "bytes"),
    ("_flops", "flops"),
    ("_gpu_s", "seconds"),
    ("_s", "seconds"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call. function: `package.module:name`.   inputs: text, numbers and tables by argument name."""

    name: str
    title: str
    function: str
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One packaged study: a function with its inputs, or steps with the inputs that they share.

    settings: fields of inputs by dotted path, as `--set` takes them, which stand above these settings.
    """

    name: str
    title: str
    function: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    shared: Mapping[str, Any] = field(default_factory=dict[str, Any])
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    steps: tuple[Step, ...] = ()
    source: Source | None = None

    @property
    def calls(self) -> tuple[Step, ...]:
        """Its steps; for one function that function alone."""
        return self.steps or (Step(name=self.name, title=self.title, function=self.function, inputs=self.inputs),)


def read_study(name: str) -> Study:
    """The study registered as `name`. Raises IO020 when unknown."""
    data = read_toml(STUDIES.text(name), name)
    source = data.pop("source", None)
    return build(Study, {"name": name, **data, "source": None if source is None else {"key": name, **source}}, name)


def study_list() -> tuple[Study, ...]:
    """Every packaged study, by name."""
    return tuple(read_study(name) for name in STUDIES.names())


def studies() -> Result:
    """Every packaged study as a catalog: name, title, functions, inputs and source."""
    found = study_list()
    items = [
        {
            "id": study.name,
            "title": study.title,
            "function": ", ".join(dict.fromkeys(step.function for step in study.calls)),
            "inputs": {**study.inputs, **study.shared, **{step.name: step.inputs for step in study.steps}},
            "sources": [] if study.source is None else [study.source],
        }
        for study in found
    ]
    return Result(
        command="study list",
        verdict=Verdict(answer="yes", text=f"{len(found)} studies"),
        inputs={"model": None, "system": None, "job": None, "layout": None, "options": {}},
        body={"items": items},
    )


def run_study(name: str, settings: Mapping[str, str], steps: tuple[str, ...] = ()) -> Result:
    """The study's answer with some inputs set otherwise: `{"system.scale_up.latency": "1us"}`.

    steps: the names of those to run, all when empty. A setting goes to every step that has the input; one that starts
    with a step's name goes to that step alone, as in `fault.options.fault.stall`.

    Raises IO020 (study), IO021 (input), IO023 (inputs that give no number), IO024 (step), and what a function raises.
    """
    study = read_study(name)
    calls = _chosen(study, steps)
    taken = {name for step in calls for name in step.inputs}
    own = {path: text for path, text in study.settings.items() if path.partition(".")[0] in taken}
    asked = _directed(study, calls, {**own, **settings})
    given: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    for step in calls:
        function = function_of(step)
        given[step.name] = _settled(step, asked[step.name], function)
        arguments = _arguments(function, given[step.name], asked[step.name], step.name)
        answers[step.name] = _answer(function, arguments, step.name)
    told = [{"id": step.name, "title": step.title, "function": step.function} for step in calls]
    first = answers[calls[0].name]
    text = f"{len(calls)} of {len(study.steps)} steps" if study.steps else _brief(first)
    return Result(
        command="study run",
        verdict=Verdict(answer="yes", text=f"{study.title}: {text}"),
        inputs={
            "model": None,
            "system": None,
            "job": None,
            "layout": None,
            "options": {"study": name, **(given if study.steps else given[name])},
        },
        warnings=_lifted(answers, "warnings"),
        not_modelled=_lifted(answers, "not_modelled"),
        sources=(*(() if study.source is None else (study.source,)), *_lifted(answers, "sources")),
        body={"answer": answers, "steps": told} if study.steps else {"answer": first},
    )


def _lifted(answers: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    """What the results among the answers say, each thing once."""
    results = [answer for answer in answers.values() if isinstance(answer, Result)]
    return tuple(dict.fromkeys(item for result in results for item in getattr(result, name)))


def _chosen(study: Study, names: tuple[str, ...]) -> tuple[Step, ...]:
    """The steps to run, in the study's order, each with the shared inputs that its function takes."""
    known = [step.name for step in study.steps]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise FileError(24, f"study {study.name} has no step {unknown[0]!r}", suggest(unknown[0], known))
    return tuple(replace(step, inputs=_shared(study, step)) for step in study.calls if not names or step.name in names)


def _shared(study: Study, step: Step) -> Mapping[str, Any]:
    taken = signature(function_of(step)).parameters
    return _merged({name: value for name, value in study.shared.items() if name in taken}, step.inputs)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both, tables field by field; where both have a value, that of `over`."""
    merged = {**under, **over}
    for name in under.keys() & over.keys():
        if isinstance(under[name], Mapping) and isinstance(over[name], Mapping):
            merged[name] = _merged(under[name], over[name])
    return merged


def _directed(study: Study, calls: tuple[Step, ...], settings: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The settings of each step. Raises IO021 for one that no step takes."""
    asked: dict[str, dict[str, str]] = {step.name: {} for step in calls}
    for path, text in settings.items():
        head, dot, rest = path.partition(".")
        takers = [step for step in calls if head in step.inputs or not study.steps]
        if study.steps and head in asked and dot:
            asked[head][rest] = text
            continue
        if not takers:
            known = [*asked, *dict.fromkeys(name for step in calls for name in step.inputs)]
            raise FileError(21, f"study {study.name} has no input {head!r}", suggest(head, known))
        for step in takers:
            asked[step.name][path] = text
    return asked


def _answer(function: Callable[..., Any], arguments: Mapping[str, Any], step: str) -> Any:
    """The answer, a result as it is and the rest as plain values.

    A study takes any inputs, so a division by zero or an overflow is theirs.
    """
    try:
        with np.errstate(all="raise", under="ignore"):
            answer = function(**arguments)
        json.dumps(plain(answer), allow_nan=False)
    except (ArithmeticError, ValueError) as problem:
        raise FileError(23, f"study {step} has no answer for these inputs: {problem}", "give other inputs") from problem
    return answer if isinstance(answer, Result) else plain(answer)


def function_of(study: Study | Step) -> Callable[..., Any]:
    """The public function that a study or a step names. Raises IO022 for one outside this package or private."""
    module, _, name = study.function.partition(":")
    if not module.startswith(_PACKAGE) or not name or name.startswith("_"):
        raise FileError(
            22, f"{study.name}: {study.function!r} is not a public function of meshwright", "see study list"
        )
    found = getattr(import_module(module), name, None)
    if not callable(found):
        raise FileError(22, f"{study.name}: {module} has no function {name!r}", "see study list")
    return cast("Callable[..., Any]", found)


def _settled(study: Step, settings: Mapping[str, str], function: Callable[..., Any]) -> dict[str, Any]:
    """The inputs, those replaced or added that a setting names whole or as an entry of a table."""
    known, hints = tuple(signature(function).parameters), get_type_hints(function)
    whole = {path: text for path, text in settings.items() if "." not in path}
    fields = [path.partition(".")[0] for path in settings if "." in path]
    unknown = sorted(name for name in (*study.inputs, *whole) if name not in known)
    unknown += sorted(name for name in fields if name not in {*study.inputs, *whole})
    if unknown:
        cause = f"study {study.name} has no input {unknown[0]!r}"
        raise FileError(21, cause, suggest(unknown[0], known))
    given = {**study.inputs, **whole}
    for path, text in settings.items():
        head, _, rest = path.partition(".")
        if rest and _is_table(hints.get(head)):
            given[head] = {**_listed(hints[head], given[head]), rest: text}
    return given


def _arguments(
    function: Callable[..., Any], given: Mapping[str, Any], settings: Mapping[str, str], study: str
) -> dict[str, Any]:
    hints = get_type_hints(function)
    found = {name: _read(name, hints.get(name, Any), value, f"{study}.{name}") for name, value in given.items()}
    for path, text in settings.items():
        head, _, rest = path.partition(".")
        if rest and not _is_table(hints.get(head)):
            found[head] = _changed(found[head], rest, text, head)
    return found


def _changed(value: Any, path: str, text: str, what: str) -> Any:
    """A noun, or each of several, with a field set."""
    if isinstance(value, tuple):
        return tuple(_changed(item, path, text, what) for item in cast("tuple[Any, ...]", value))
    return _checked(set_path(value, path, text), what)


def _checked(value: Any, what: str) -> Any:
    """A noun with a field set, once it makes sense as a whole."""
    if isinstance(value, Model):
        return checked_model(value, what)
    return checked_system(value, what) if isinstance(value, System) else value


def _read(name: str, hint: Any, value: Any, what: str) -> Any:
    """One input as its parameter wants it: by its type, or for a bare number by the unit at the end of its name."""
    if hint is Model:
        return read_model(str(value))
    if hint is System:
        return read_system(str(value))
    if hint == tuple[System, ...]:
        return read_systems(str(value))
    dimension = next((unit for suffix, unit in _BY_SUFFIX if name.endswith(suffix)), None)
    if dimension is not None:
        return parse_quantity(str(value), dimension, what)
    if isinstance(hint, TypeVar):
        return _amount(build(float if isinstance(value, str) else int, value, what), what)
    return _amount(build(hint, _listed(hint, value), what), what)


def _amount(value: Any, what: str) -> Any:
    """The value itself. Raises IO021 for a number, or one of a list, that no count or rate can be."""
    for item in _each(value):
        if isinstance(item, (int, float)) and not 0 <= item <= _LARGEST:
            raise FileError(21, f"{what} is {item}", f"give a number from 0 to {_LARGEST}")
    return value


def _each(value: object) -> Iterable[object]:
    return cast("Iterable[object]", value if isinstance(value, tuple) else (value,))


def _is_table(hint: Any) -> bool:
    """Whether an input is a table of any names, to which a setting may add one; a record has its fields."""
    return get_origin(hint) is dict


def _listed(hint: Any, value: Any) -> Any:
    """Text given for a number, a list or a table (from `--set`) as what it spells: `8`, `1,2,4` or `one=8,other=4`."""
    if not isinstance(value, str) or hint is str:
        return value
    parts = [part.strip() for part in value.split(",")]
    if _is_table(hint):
        return {name.strip(): text.strip() for name, _, text in (part.partition("=") for part in parts)}
    return parts if str(hint).startswith("tuple") else value


def _brief(answer: Any) -> str:
    """One line of an answer: a verdict, a number, or how many fields it has."""
    if isinstance(answer, Result):
        return answer.verdict.text
    if isinstance(answer, (int, float, str)):
        return f"{answer:,}" if isinstance(answer, int) else f"{answer}"
    return "see answer"
