"""Adapters hold no arithmetic and no literals, and call only what a command calls."""

from __future__ import annotations

import inspect as python_inspect
import json
from importlib import import_module

import click
import pytest

from meshwright.cli.main import meshwright, run
from meshwright.job.serve import ServeJob
from meshwright.scenarios.catalog import catalog
from meshwright.scenarios.checkpoint_interval import checkpoint_interval
from meshwright.scenarios.checkpointing import checkpoint_timeline
from meshwright.scenarios.experts import experts
from meshwright.scenarios.fit import fit
from meshwright.scenarios.inspect import inspect
from meshwright.scenarios.memory_pool import pool
from meshwright.scenarios.rack import rack
from meshwright.scenarios.schedule import schedule
from meshwright.scenarios.serving import plan_serve
from meshwright.scenarios.training import plan_train
from meshwright.sweep.study import function_of, read_study, run_study, study_list
from tests.golden.command_line import arguments
from tests.golden.context import HERE, Row
from tests.golden.registry import answer, answered, modules, routes, row_of
from tests.golden.trees import called, faults, read

VERBS = {
    "inspect": inspect,
    "fit": fit,
    "plan serve": plan_serve,
    "plan train": plan_train,
    "schedule": schedule,
    "checkpoint interval": checkpoint_interval,
    "checkpoint timeline": checkpoint_timeline,
    "experts": experts,
    "rack": rack,
    "pool": pool,
    "list": catalog,
    "study run": run_study,
}
"""The product functions an adapter may call, by the command that reaches them."""

ACCESSORS = {"row.model", "row.system", "row.record", "row.select"}
"""What an adapter may ask of its row: the nouns of the question, and the field of the answer."""

READ = {"job.last_position"}
"""What an adapter may read of a product's record; `plan serve` sizes the cache by it, and prints it in no field yet."""

STUDIES = sorted({row_of(fact).subject for fact in answered() if row_of(fact).command.startswith("study run ")})


def _text(module):
    return (HERE / "adapters" / f"{module}.py").read_text(encoding="utf-8")


def _verb(command):
    return next(verb for verb in VERBS if command == verb or command.startswith(f"{verb} "))


def _leaf(verb):
    """The click command of a verb, found as the program finds it."""
    found = meshwright
    for word in verb.split():
        found = found.get_command(click.Context(found), word)
    return found


@pytest.mark.parametrize("module", modules())
def test_adapters_hold_no_arithmetic_and_no_literals(module):
    assert not faults(_text(module))


@pytest.mark.parametrize(
    "body",
    [
        "return fit(row) * row",
        "return -fit(row)",
        "return fit(row) > row",
        "return fit(row) and row",
        "return 3",
        "return fit('tp=8')",
        "return [fit(row)]",
        "return {row: fit(row)}",
        "return fit(row)[row]",
        "return [fit(row) for row in row]",
        "return fit(row) if row else row",
        "return (lambda: row)()",
        "x = row; x += row; return x",
        "import math; return math.floor(row)",
        "if row: return row",
        "yield row",
    ],
)
def test_a_fault_in_an_adapter_is_found(body):
    assert not faults("@answers('fit', {'memory': 'G6-001'})\ndef adapter(row):\n    x = fit(row)\n    return x.memory")
    assert faults(f"@answers('fit', {{'memory': 'G6-001'}})\ndef adapter(row):\n    {body}")


@pytest.mark.parametrize(
    "text",
    [
        "def adapter(row): return fit(row)",
        "@answers('fit', {})\ndef adapter(row, factor=2): return fit(row)",
        "@cache\ndef adapter(row): return fit(row)",
        "SCALE: Final = 2",
        "table = {}",
        "for x in y: pass",
    ],
)
def test_a_fault_around_an_adapter_is_found(text):
    assert faults(text)


@pytest.mark.parametrize("module", modules())
def test_adapters_call_their_row_and_the_function_of_a_command(module):
    loaded = import_module(f"tests.golden.adapters.{module}")
    for names in called(_text(module)).values():
        assert {name for name in names if name.startswith("row.")} <= ACCESSORS
        functions = [getattr(loaded, name) for name in names if not name.startswith("row.")]
        assert all(function in VERBS.values() for function in functions)


def test_an_adapter_calls_the_function_that_its_command_calls():
    for fact in answered():
        route = routes()[fact.id]
        names = called(_text(route.function.__module__.rpartition(".")[2]))[route.function.__name__]
        own = [name for name in names if not name.startswith("row.")]
        expected = VERBS[_verb(route.command)]
        assert all(getattr(import_module(route.function.__module__), name) is expected for name in own), fact.id


@pytest.mark.parametrize("verb", VERBS)
def test_the_command_calls_the_function(verb):
    callback = python_inspect.unwrap(_leaf(verb).callback)
    name = VERBS[verb].__name__
    assert callback.__globals__[name] is VERBS[verb]
    assert name in callback.__code__.co_names


@pytest.mark.parametrize("command", sorted({route.command for route in routes().values()}))
def test_the_command_line_prints_the_answer(command, capsys):
    """What an adapter selects is what a user gets from the command, but for what only a record says."""
    for row in (row_of(fact) for fact in answered()):
        if row.command == command and row.path:
            assert run(arguments(row)) in {0, 1}, row.fact.id
            assert row.select(json.loads(capsys.readouterr().out)) == answer(row.fact), row.fact.id


@pytest.mark.parametrize("module", modules())
def test_adapters_read_only_what_is_allowed(module):
    assert read(_text(module)) <= READ


def test_what_adapters_may_read_is_used_by_a_command(monkeypatch, capsys):
    monkeypatch.setattr(ServeJob, "last_position", property(lambda job: job.nothing))
    job = ["--sessions", "1", "--context", "1K", "--new-tokens", "1"]
    assert run(["plan", "serve", "Qwen/Qwen3-32B", "--on", "hgx-h100", *job]) == 101
    assert "nothing" in capsys.readouterr().err


def test_row_accessors_are_methods_of_a_row():
    assert all(callable(getattr(Row, name.removeprefix("row."))) for name in ACCESSORS)


@pytest.mark.parametrize("study", STUDIES)
def test_the_study_of_an_adapter_is_packaged_and_names_a_public_function(study):
    assert study in {item.name for item in study_list()}
    function = function_of(read_study(study))
    assert function.__module__.startswith("meshwright.")
    assert not function.__name__.startswith("_")


def test_no_input_of_a_study_is_left_to_the_studys_own_example():
    for row in (row_of(fact) for fact in answered()):
        if row.command.startswith("study run "):
            given = {place.partition(".")[0] for place in row.places()}
            assert given == set(read_study(row.subject).inputs), row.fact.id
