"""Where does this number come from? A saved result and a path go in; the formula with its values and sources comes out.

The inputs that the result states are read back with every number traced, and the same scenario runs again for the one
layout that the path names: what it computes for that path is the number, with every step that led to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Final, TypeAlias, cast

from meshwright.base.errors import FileError, suggest
from meshwright.base.parse import rebuild
from meshwright.base.result import Basis, Candidate, Result, Source, Verdict
from meshwright.base.traced import expression, held
from meshwright.job.serve import ServeJob
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout
from meshwright.model.model import Model
from meshwright.scenarios._interval import IntervalOptions
from meshwright.scenarios._traced_nouns import given, of_model, of_system, traced_noun
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.checkpoint_interval import checkpoint_interval
from meshwright.scenarios.experts import ExpertsOptions, answer_on
from meshwright.scenarios.fit import FitOptions, fit
from meshwright.scenarios.inspect import InspectOptions, inspect
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.scenarios.training import plan_of_layout
from meshwright.system.system import System

Document: TypeAlias = Mapping[str, Any]
Step: TypeAlias = str | int
NOT_MODELLED: Final = (
    "conditions: the expression is that of the branch taken (the fastest algorithm, the fullest stage), not its choice",
    "counts: the layers of a rank, and the micro-batches that a schedule keeps in flight, stand as numbers",
)
_SEARCHED: Final = ("replicas", "tp", "cp", "pp", "ep", "etp", "attention")
_OF_COPIES: Final = ("dp_replicate",)
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_CLOSE: Final = 1e-9
_WITHOUT_FORMULA: Final = {
    "flips": (
        "a flip is found by search, and no formula gives it",
        "explain the goals there: plan again with its parameter set to the flip's value",
    ),
    "simulated": (
        "it comes out of a simulation, and no formula gives it",
        "explain the closed form that stands beside it: retry_overhead_fraction of an interval, step of a candidate",
    ),
    "flat": (
        "an edge is found by search, and no formula gives it",
        "explain the retry_overhead_fraction of an interval there, given in --intervals",
    ),
    "searched": (
        "a count of what the search looked at, and no formula gives it",
        "explain the numbers of the candidates that it kept",
    ),
    "least_boxes": (
        "found by planning on more and more boxes, and no formula gives it",
        "plan again on so many boxes and explain its per_rank_bytes",
    ),
    "peak_alive": (
        "what a simulated step holds at its peak, and no formula gives it",
        "explain the same candidate's memory, which bounds it",
    ),
    "peak_rank": (
        "the rank that holds most in the simulated step, and no formula gives it",
        "explain fullest_stage of the same candidate's memory: the rank that holds most by the bound",
    ),
    "experts": (
        "expected of how tokens choose experts, added up over distributions, and no formula gives it",
        "explain best.step.compute_s, which holds the rows that the busiest rank runs",
    ),
    "drawn": (
        "runs are drawn from a seed, and no formula gives what comes of them",
        "explain the overhead_fraction that decides, or the retry_overhead_fraction beside it",
    ),
    "defaulted": (
        "a field that the config leaves out, with the value of its class",
        "explain what follows from it, under inputs.model",
    ),
}
_ANYWHERE: Final = frozenset({"searched", "least_boxes", "peak_alive", "peak_rank", "simulated", "drawn"})
"""Those of them that stand inside candidates and rows as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """path: of the number, as in `best.step_time_s`.   depth: how many levels of formulas are shown as text."""

    path: str
    depth: int = 3


def explain(document: Document, options: ExplainOptions) -> Result:
    """The number at the path of a saved result (a document of `read_answer`), as an expression over its inputs.

    The verdict is `no` when the inputs now give another number than the saved one. Raises IO046 (of a verb that
    has no expressions), IO044 (no number at that path), IO045 (a number that no formula gives), IO013 and
    IO015 (inputs that cannot be read back).
    """
    run, path = _runner(document), options.path
    steps = _steps(document, path)
    saved = _at(document, steps, path)
    if isinstance(saved, bool) or not isinstance(saved, (int, float)):
        raise FileError(44, f"{path} is not a number", _numbers_below(path, saved))
    without = [step for step in steps if step in _WITHOUT_FORMULA and (step in _ANYWHERE or step == steps[0])]
    if without:
        cause, fix = _WITHOUT_FORMULA[str(without[0])]
        raise FileError(45, f"{path}: {cause}", fix)
    found = _matching(run(document, _layout_of(document, steps)), document, steps, path)
    value = held(found)
    same = abs(value - saved) <= _CLOSE * max(abs(saved), abs(value))
    text = f"{path} = {saved}" if same else f"{path} is saved as {saved}, and its inputs now give {value}"
    return Result(
        command="explain",
        verdict=Verdict(answer="yes" if same else "no", text=text),
        inputs={"model": None, "system": None, "job": None, "layout": None, "options": options},
        not_modelled=NOT_MODELLED,
        basis={"expression": f"{Basis.FORMULA.value}: of the inputs, each with its own basis"},
        body={"path": path, "value": value, "saved_value": saved, "expression": expression(found, path)},
    )


def _inspect(document: Document, _layout: Document | None) -> Result:
    inputs = document["inputs"]
    options = rebuild(InspectOptions, inputs["options"], "inputs.options")
    return inspect(_model(document), traced_noun(options, "options", given))


def _fit(document: Document, _layout: Document | None) -> Result:
    inputs = document["inputs"]
    layout = traced_noun(rebuild(Layout, inputs["layout"], "inputs.layout"), "layout", given)
    options = traced_noun(rebuild(FitOptions, inputs["options"], "inputs.options"), "options", given)
    return fit(_model(document), _system(document), layout, options)


def _plan_serve(document: Document, layout: Document | None) -> Result:
    """The plan of one layout only; flips, which are found by search, are left out."""
    inputs = document["inputs"]
    fixed = inputs["layout"]
    if layout is not None:
        names = _SEARCHED if layout["dp_replicate"] == 1 else (*_SEARCHED, *_OF_COPIES)
        fixed = {name: layout[name] for name in names}
    stated: dict[str, Any] = {**inputs["options"], "flips": "none", "layout": {}}
    options = traced_noun(rebuild(ServeOptions, stated, "inputs.options"), "options", given)
    object.__setattr__(options, "layout", traced_noun(fixed, "layout", given))
    job = traced_noun(rebuild(ServeJob, inputs["job"], "inputs.job"), "job", given)
    return plan_serve(_model(document), _system(document), job, options)


def _checkpoint_interval(document: Document, _layout: Document | None) -> Result:
    """Without the simulation, whose numbers have no formula."""
    inputs = document["inputs"]
    options = traced_noun(rebuild(IntervalOptions, inputs["options"], "inputs.options"), "options", given)
    model = None if inputs["model"] is None else _model(document)
    result = checkpoint_interval(replace(options, runs=0), model)
    return replace(result, inputs={**result.inputs, "options": options})


def _plan_train(document: Document, layout: Document | None) -> Result:
    """The plan of one layout only, without what is searched or simulated."""
    inputs = document["inputs"]
    options = rebuild(TrainOptions, {**inputs["options"], "layout": {}}, "inputs.options")
    options = traced_noun(options, "options", given)
    object.__setattr__(options, "layout", traced_noun(inputs["layout"], "layout", given))
    job = traced_noun(rebuild(TrainJob, inputs["job"], "inputs.job"), "job", given)
    assert layout is not None
    return plan_of_layout(_model(document), _system(document), job, options, rebuild(Layout, layout, "layout"))


def _experts(document: Document, _layout: Document | None) -> Result:
    """Choices are drawn or dealt again; paths of a network are walked without traces."""
    inputs = document["inputs"]
    options = rebuild(ExpertsOptions, inputs["options"], "inputs.options")
    plain = rebuild(System, inputs["system"], "inputs.system")
    return answer_on(_model(document), _system(document), traced_noun(options, "options", given), plain)


_RUNS: Final[Mapping[str, Callable[[Document, Document | None], Result]]] = {
    "inspect": _inspect,
    "experts": _experts,
    "fit": _fit,
    "plan serve": _plan_serve,
    "plan train": _plan_train,
    "checkpoint interval": _checkpoint_interval,
}


def _runner(document: Document) -> Callable[[Document, Document | None], Result]:
    command = document["command"]
    if command not in _RUNS:
        cause = f"a result of `{command}` has no expressions"
        raise FileError(46, cause, f"explain a result of {', '.join(_RUNS)}")
    return _RUNS[command]


def _model(document: Document) -> Model:
    model = rebuild(Model, document["inputs"]["model"], "inputs.model")
    return traced_noun(model, "model", of_model(model))


def _system(document: Document) -> System:
    system = rebuild(System, document["inputs"]["system"], "inputs.system")
    sources = rebuild(tuple[Source, ...], document.get("sources", []), "sources")
    return traced_noun(system, "system", of_system(system, {item.key: item for item in sources}))


def _layout_of(document: Document, steps: Sequence[Step]) -> Document | None:
    """The layout that a path is about: that of its candidate or of the item with its id, else that of the best."""
    candidates = cast("list[Document]", document.get("candidates", []))
    for end in range(1, len(steps) + 1):
        about: Any = _at(document, steps[:end], "")
        if isinstance(about, Mapping):
            found = [item for item in candidates if item["id"] == cast("Document", about).get("id")]
            if found:
                return found[0]["layout"]
    best = cast("Document | None", document.get("best")) or (candidates[0] if candidates else None)
    return None if best is None else best["layout"]


def _steps(document: Document, path: str) -> list[Step]:
    """`candidates[id=...].memory.per_rank_bytes` as keys and places. Raises IO044 for a malformed path."""
    steps: list[Step] = []
    end = 0
    for match in _STEP.finditer(path):
        if match.start() != end:
            break
        end = match.end()
        key, place = match.groups()
        steps.append(_place(document, steps, place, path) if key is None else key)
    if end != len(path) or not steps:
        raise FileError(44, f"{path!r} is no path", "write as in best.step_time_s or candidates[3].memory.total_bytes")
    return steps


def _place(document: Document, steps: Sequence[Step], text: str, path: str) -> int:
    name, equals, wanted = text.partition("=")
    if not equals:
        if text.isdecimal():
            return int(text)
        raise FileError(44, f"{path}: [{text}] is no place", "write [0], or [id=...]")
    items: Any = _at(document, steps, path)
    records = cast("list[Any]", items) if isinstance(items, list) else []
    known = [str(cast("Document", item).get(name)) for item in records if isinstance(item, Mapping)]
    if wanted not in known:
        raise FileError(44, f"{path}: nothing has {name}={wanted}", suggest(wanted, known))
    return known.index(wanted)


def _at(document: Document, steps: Sequence[Step], path: str) -> Any:
    """What stands at a path of plain JSON. Raises IO044."""
    value: Any = document
    for step in steps:
        if isinstance(value, Mapping):
            inside = cast("Document", value)
            if step not in inside:
                raise FileError(44, f"{path}: there is no {step!r}", suggest(str(step), list(inside)))
            value = inside[cast("str", step)]
        elif isinstance(value, list) and isinstance(step, int):
            items = cast("list[Any]", value)
            if step >= len(items):
                fix = f"give a place below {len(items)}" if items else "nothing stands there in this answer"
                raise FileError(44, f"{path}: there are {len(items)} items", fix)
            value = items[step]
        else:
            raise FileError(44, f"{path}: there is nothing inside {step!r}", "end the path before it")
    return value


def _matching(result: Result, document: Document, steps: Sequence[Step], path: str) -> Any:
    """What the traced result holds where the saved one holds the number; `best` is its one candidate."""
    traced: Any = result
    saved: Any = document
    for step in steps:
        inside = saved[step]
        if traced is result and step == "best":
            traced = result.candidates[0]
        elif isinstance(step, int):
            traced = _same_item(traced, saved, step)
        else:
            traced = _child(traced, step)
        if traced is None:
            raise FileError(45, f"{path}: the inputs give no such number any more", "save the result again")
        saved = inside
    return traced


def _same_item(traced: Sequence[Any], saved: Sequence[Any], place: int) -> Any:
    """The item with the saved one's id, or, where several have it or none, with its words and whole numbers.

    Of those that have them the one at the same place, or else the first. Of plain values that at the same place.
    """
    if not isinstance(saved[place], Mapping):
        return traced[place]
    if "id" in saved[place]:
        named = [item for item in traced if _child(item, "id") == saved[place]["id"]]
        if len(named) <= 1 and [item.get("id") for item in saved].count(saved[place]["id"]) == 1:
            return named[0] if named else None
    wanted = {name: item for name, item in saved[place].items() if isinstance(item, (str, int))}
    own = traced[place : place + 1]
    fitting = (
        item for item in (*own, *traced) if all(held(_child(item, name)) == value for name, value in wanted.items())
    )
    return next(fitting, None)


def _child(value: Any, name: str) -> Any:
    """A field as the JSON document names it: of a body, of a candidate's measures, of any record."""
    if isinstance(value, Result) and name in value.body:
        return value.body[name]
    if isinstance(value, Candidate) and name in value.measures:
        return value.measures[name]
    if is_dataclass(value):
        return getattr(value, name, None)
    return cast("Document", value).get(name) if isinstance(value, Mapping) else None


def _numbers_below(path: str, value: Any) -> str:
    """A fix that names the numbers inside what is no number."""
    if not isinstance(value, Mapping):
        return "give the path of a number"
    inside = cast("Document", value)
    numbers = [name for name, item in inside.items() if isinstance(item, (int, float)) and not isinstance(item, bool)]
    return f"give one of: {', '.join(f'{path}.{name}' for name in numbers[:8])}" if numbers else "give a number's path"
