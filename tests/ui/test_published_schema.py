"""The published JSON Schema: what the program has today, kept by every answer and error, and strict."""

from __future__ import annotations

import copy
import json
from functools import cache

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from meshwright.output.schema import COMMANDS
from tests.ui.lines import LINES, arguments
from tests.ui.program import drawn
from tests.ui.published_schema import FILE, generated

_ERRORS = {
    "MOD001": ("inspect", "gone"),
    "LAY003": ("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--tp", "12"),
    "IO030": ("fit", "--gone"),
}
_PLAN = "plan, curve and fault"
_BATCHES = "plan, continuous"
_OPTIONAL = {"curves", "engine", "reserve"}


@cache
def validator():
    return Draft202012Validator(json.loads(FILE.read_text(encoding="utf-8")))


@cache
def branches():
    """One validator for each kind of answer: that of the whole works out every complaint of each of them."""
    whole = json.loads(FILE.read_text(encoding="utf-8"))
    assert set(whole) == {"$schema", "$id", "title", "oneOf", "$defs"}
    return [
        Draft202012Validator({"$schema": whole["$schema"], **kind, "$defs": whole["$defs"]}) for kind in whole["oneOf"]
    ]


def kept(answer):
    """Whether the schema holds: the answer is of one kind, and of no other."""
    return sum(branch.is_valid(answer) for branch in branches()) == 1


@cache
def document(name):
    line = arguments(name) if name in LINES else _ERRORS[name]
    return drawn(*line, form=("--format", "json")).answer


def complaint(answer):
    if kept(answer):
        return None
    found = best_match(validator().iter_errors(answer))
    return f"{found.json_path}: {found.message[:300]}"


def test_the_published_file_is_what_the_program_has_today():
    assert FILE.read_text(encoding="utf-8") == generated(), "python -m tests.ui.published_schema"


def test_it_is_a_schema_of_the_draft_that_it_names():
    whole = json.loads(generated())
    assert whole["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(whole)


@pytest.mark.parametrize("name", ["inspect", "fit", "collective time", "list links", "IO030"])
def test_its_kinds_judge_as_the_whole_does(name):
    whole = shortened(document(name))
    assert kept(whole)
    assert validator().is_valid(whole)
    for path in objects(whole):
        at(whole, path)["foreign_key"] = 1
        assert kept(whole) == validator().is_valid(whole)
        del at(whole, path)["foreign_key"]


@pytest.mark.parametrize("name", LINES)
def test_every_answer_keeps_the_schema(name):
    assert complaint(document(name)) is None


@pytest.mark.parametrize("code", _ERRORS)
def test_every_error_keeps_the_schema(code):
    assert document(code)["error"]["code"] == code
    assert complaint(document(code)) is None


def test_every_command_of_the_schema_is_run_here_under_every_discipline():
    asked = [document(name) for name in LINES]
    run = {(answer["command"], (answer["inputs"]["job"] or {}).get("discipline")) for answer in asked}
    run.add(("verify run", None))  # tests/runtime asks it: ranks are started, and no two runs take the same time
    assert run == {(command.name, command.discipline) for command in COMMANDS}


# ----------------------------------------------------------------------------------------------------- how strict it is


def objects(value, path=()):
    """Every object of a document by its path."""
    if isinstance(value, dict):
        yield path
        for key, item in value.items():
            yield from objects(item, (*path, key))
    elif isinstance(value, list) and value:
        yield from objects(value[0], (*path, 0))


def shortened(value):
    """A document whose lists keep their first entry: as valid, and quick to judge."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    return [shortened(item) for item in value[:1]] if isinstance(value, list) else value


def refused(answer):
    return not kept(answer)


def at(value, path):
    for key in path:
        value = value[key]
    return value


def is_open(path):
    """Where a document holds what other types say: the nouns, maps by name, and a study's own answer."""
    amounts = {"bytes_by_format", "critical_path_s", "kv_bytes_per_token_by_kind", "parameters_by_part_bytes"}
    maps = {"axes", "basis", "choices", "peak_flops_per_s", *amounts}
    inner = {"mixer", "feed_forward"}
    return (path[:1] == ("inputs",) and len(path) > 1) or path[:1] == ("answer",) or {*maps, *inner} & set(path)


@pytest.mark.parametrize("name", LINES)
def test_a_foreign_key_is_refused_in_every_closed_object(name):
    whole = shortened(document(name))
    assert not refused(whole)
    closed = [path for path in objects(whole) if not is_open(path) and path[-1:] != ("inputs",)]
    assert closed
    for path in closed:
        changed = copy.deepcopy(whole)
        at(changed, path)["foreign_key"] = 1
        assert refused(changed), path


@pytest.mark.parametrize(
    "name",
    ["inspect", "fit", "fit, engine", _PLAN, _BATCHES, "explain", "list accelerators", "list engines", "study list"],
)
def test_a_missing_key_is_refused_in_every_closed_object(name):
    whole = shortened(document(name))
    for path in [path for path in objects(whole) if not is_open(path)]:
        # what a study takes is its own; some blocks are there when they are asked for
        for key in at(whole, path) if path[-1:] != ("inputs",) or len(path) == 1 else ():
            changed = copy.deepcopy(whole)
            del at(changed, path)[key]
            assert refused(changed) or key in _OPTIONAL, (*path, key)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), "2"),
        (("command",), "plan train"),
        (("verdict", "answer"), "maybe"),
        (("verdict", "text"), None),
        (("inputs", "model"), None),
        (("inputs", "options"), None),
        (("best",), {}),
        (("candidates",), []),
        (("candidates", 0, "fits"), "yes"),
        (("candidates", 0, "step_time_s"), "0.01"),
        (("candidates", 0, "step_time_s"), -0.01),
        (("candidates", 0, "layout", "tp"), 2.5),
        (("candidates", 0, "layout", "attention"), "none"),
        (("candidates", 0, "memory", "per_rank_bytes"), 1.5),
        (("candidates", 0, "memory", "per_rank_bytes"), None),
        (("candidates", 0, "groups", 0, "basis"), "guessed"),
        (("candidates", 0, "excluded"), {"code": "LAY020"}),
        (("flips", 0, "value"), "1s"),
        (("basis", "candidates[].memory"), "guessed"),
        (("warnings",), "a text"),
        (("sources", 0), "a title"),
    ],
)
def test_a_value_that_cannot_be_is_refused(path, value):
    changed = shortened(document(_PLAN))
    at(changed, path[:-1])[path[-1]] = value
    assert refused(changed)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        (_PLAN, ("inputs", "system", "facts", "facts", 0, "basis"), "guessed"),
        (_PLAN, ("inputs", "job", "discipline"), "continuous"),
        (_BATCHES, ("inputs", "job", "discipline"), "fifo"),
        (_BATCHES, ("candidates", 0, "limited_by"), "luck"),
        (_BATCHES, ("candidates", 0, "batch"), 1.5),
        (_BATCHES, ("pareto", 0, "breaks"), ["deadline"]),
        (_BATCHES, ("pareto", 0, "tpot_s"), None),
        (_BATCHES, ("best", "memory", "reserve", "padding_bytes"), -1),
        ("fit, engine", ("memory", "engine", "reserve_basis"), "guessed"),
        ("explain", ("expression",), []),
        ("explain", ("expression", 0, "operands", 0), {"node": 0, "value": 1}),
        ("explain", ("expression", 0, "basis"), "guessed"),
    ],
)
def test_a_value_that_cannot_be_in_a_block_of_one_verb_is_refused(name, path, value):
    changed = shortened(document(name))
    at(changed, path[:-1])[path[-1]] = value
    assert refused(changed)


def test_measures_are_of_one_discipline_or_the_other():
    changed = shortened(document(_BATCHES))
    changed["candidates"].append(document(_PLAN)["candidates"][0])
    assert refused(changed)


@pytest.mark.parametrize(("key", "value"), [("code", "LAY3"), ("code", "ABC001"), ("message", ""), ("fix", None)])
def test_an_error_that_cannot_be_is_refused(key, value):
    changed = copy.deepcopy(document("LAY003"))
    changed["error"][key] = value
    assert refused(changed)
