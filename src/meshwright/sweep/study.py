"""A packaged study's name goes in (a TOML naming one public function and its inputs); that function's answer comes out.

Every mechanism that has no verb of its own is reached this way. Inputs are read by the function's own annotations:
`Model` and `System` by their ids, dataclasses from tables, and plain numbers by the unit in their name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import Any, Final, TypeVar, cast, get_type_hints

import numpy as np

from meshwright.base.errors import FileError, suggest
from meshwright.base.parse import build, read_toml, set_path
from meshwright.base.registry import Registry
from meshwright.base.result import Json, Result, Source, Verdict, as_json, plain
from meshwright.base.units import parse_quantity
from meshwright.model.checks import checked_model
from meshwright.model.model import Model
from meshwright.model.reader import read_model
from meshwright.system.system import System, checked_system, read_system

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
class Study:
    """One packaged study. function: `package.module:name`.   inputs: text by argument name."""

    name: str
    title: str
    function: str
    inputs: Mapping[str, Any]
    source: Source | None = None


def read_study(name: str) -> Study:
    """The study registered as `name`. Raises IO020 when unknown."""
    data = read_toml(STUDIES.text(name), name)
    source = data.pop("source", None)
    return build(Study, {"name": name, **data, "source": None if source is None else {"key": name, **source}}, name)


def study_list() -> tuple[Study, ...]:
    """Every packaged study, by name."""
    return tuple(read_study(name) for name in STUDIES.names())


def studies() -> Result:
    """Every packaged study as a catalog: name, title, function, inputs and source."""
    found = study_list()
    items = [
        {
            "id": study.name,
            "title": study.title,
            "function": study.function,
            "inputs": study.inputs,
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


def run_study(name: str, settings: Mapping[str, str]) -> Result:
    """The study's answer with some inputs set otherwise: `{"system.scale_up.latency": "1us"}`.

    Raises IO020 (study), IO021 (input), IO023 (inputs that give no number), and what the function raises.
    """
    study = read_study(name)
    function = function_of(study)
    given = _settled(study, settings, tuple(signature(function).parameters))
    arguments = _arguments(function, given, settings, study.name)
    answer, body = _answer(function, arguments, name)
    text = f"{study.title}: {_brief(answer)}"
    verdict = Verdict(answer="yes", text=text)
    return Result(
        command="study run",
        verdict=verdict,
        inputs={"model": None, "system": None, "job": None, "layout": None, "options": {"study": name, **given}},
        sources=() if study.source is None else (study.source,),
        body={"answer": body},
    )


def _answer(function: Callable[..., Any], arguments: Mapping[str, Any], study: str) -> tuple[Any, Json]:
    """The answer and its plain values. A study takes any inputs, so a division by zero or an overflow is theirs."""
    try:
        with np.errstate(all="raise", under="ignore"):
            answer = function(**arguments)
        body = as_json(answer) if isinstance(answer, Result) else plain(answer)
        json.dumps(body, allow_nan=False)
    except (ArithmeticError, ValueError) as problem:
        raise FileError(
            23, f"study {study} has no answer for these inputs: {problem}", "give other inputs"
        ) from problem
    return answer, body


def function_of(study: Study) -> Callable[..., Any]:
    """The public function a study names. Raises IO022 for one outside this package or private."""
    module, _, name = study.function.partition(":")
    if not module.startswith(_PACKAGE) or not name or name.startswith("_"):
        raise FileError(
            22, f"{study.name}: {study.function!r} is not a public function of meshwright", "see study list"
        )
    found = getattr(import_module(module), name, None)
    if not callable(found):
        raise FileError(22, f"{study.name}: {module} has no function {name!r}", "see study list")
    return cast("Callable[..., Any]", found)


def _settled(study: Study, settings: Mapping[str, str], known: tuple[str, ...]) -> dict[str, Any]:
    """The study's inputs, those replaced or added that a setting names whole."""
    whole = {path: text for path, text in settings.items() if "." not in path}
    fields = [path.partition(".")[0] for path in settings if "." in path]
    unknown = sorted(name for name in (*study.inputs, *whole) if name not in known)
    unknown += sorted(name for name in fields if name not in {*study.inputs, *whole})
    if unknown:
        cause = f"study {study.name} has no input {unknown[0]!r}"
        raise FileError(21, cause, suggest(unknown[0], known))
    return {**study.inputs, **whole}


def _arguments(
    function: Callable[..., Any], given: Mapping[str, Any], settings: Mapping[str, str], study: str
) -> dict[str, Any]:
    hints = get_type_hints(function)
    found = {name: _read(name, hints.get(name, Any), value, f"{study}.{name}") for name, value in given.items()}
    for path, text in settings.items():
        head, _, rest = path.partition(".")
        if rest:
            found[head] = _checked(set_path(found[head], rest, text), head)
    return found


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


def _listed(hint: Any, value: Any) -> Any:
    """Text given for a number or a list (from `--set`) as what it spells."""
    if not isinstance(value, str) or hint is str:
        return value
    return [part.strip() for part in value.split(",")] if str(hint).startswith("tuple") else value


def _brief(answer: Any) -> str:
    """One line of an answer: a verdict, a number, or how many fields it has."""
    if isinstance(answer, Result):
        return answer.verdict.text
    if isinstance(answer, (int, float, str)):
        return f"{answer:,}" if isinstance(answer, int) else f"{answer}"
    return "see answer"
