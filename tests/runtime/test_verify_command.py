"""`meshwright verify run`: an answer in every form, refusals with codes, and no torch before a layout is run."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator

from tests.ui.program import answer_of, meshwright
from tests.ui.published_schema import FILE

LINE = ("verify", "run", "--model", "tiny-qwen3", "--layout", "pp=2", "--global-batch", "4", "--sequence", "16")


@pytest.fixture(scope="module")
def answer():
    return answer_of(*LINE, "--schedule", "zero_bubble_h1", "--steps", "1")


def test_its_answer_keeps_the_published_schema(answer):
    found = next(Draft202012Validator(json.loads(FILE.read_text(encoding="utf-8"))).iter_errors(answer), None)
    assert found is None, found


def test_both_stages_are_compared_and_all_terms_add_up(answer):
    assert {row["rank"] for row in answer["rows"]} == {0, 1}
    assert all(sum(term["value"] for term in row["terms"]) == row["predicted"] for row in answer["rows"])
    assert {row["quantity"] for row in answer["rows"]} == {"resident", "peak", "traffic", "flops"}
    assert answer["inputs"]["layout"]["schedule"] == "zero_bubble_h1"


def test_what_nobody_said_is_told(answer):
    assert {item["field"]: item["value"] for item in answer["defaulted"]} == {"layout.attention": "data_parallel"}


def test_every_difference_from_the_plan_has_a_reason(answer):
    terms = [term for row in answer["rows"] if row["quantity"] != "peak" for term in row["terms"]]
    assert all(term["reason"] for term in terms if term["name"] != "planned")


def test_times_are_told_and_not_predicted(answer):
    times = answer["times"]
    assert times["step_s"] > 0
    assert times["predicted_step_s"] is None
    assert times["reason"]
    assert len(times["idle_fraction"]) == 2


def test_a_pipeline_sends_rows_one_way_and_gradients_the_other(answer):
    sent = {(item["rank"], item["phase"]): item for item in answer["traffic"] if item["collective"] == "send_recv"}
    assert sorted(sent) == [(0, "forward"), (1, "backward_input")]
    assert {item["axis"] for item in sent.values()} == {"pp"}
    assert {item["message_bytes"] for item in sent.values()} == {4 * 16 * 64 * 4}


@pytest.mark.parametrize("form", ["human", "md", "csv"])
def test_it_is_drawn_in_every_form(form):
    found = meshwright(*LINE, "--layout", "pp=1", "--steps", "1", "--format", form)
    assert found.code == 0, found.err
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(found.out)))
        assert {row["quantity"] for row in rows} == {"resident", "peak", "flops"}
    else:
        assert found.out.startswith("yes: ")
        assert "resident" in found.out
        assert "rotary" in found.out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--layout", "cp=2"), "RUN005"),
        (("--layout", "dp_shard=3"), "RUN007"),
        (("--steps", "0"), "RUN012"),
        (("--recipe", "bf16-adamw"), "RUN009"),
        (("--layout", "tp=5"), "LAY003"),
        (("--schedule", "nothing"), "SCH003"),
    ],
)
def test_bad_input_is_one_coded_message(words, code):
    found = meshwright(*LINE, *words)
    assert found.code == 2
    assert f"error[{code}]" in found.err
    assert "fix: " in found.err


def test_help_loads_no_torch():
    steps = ("import sys", "from meshwright.cli.main import run", "run(['verify', 'run', '--help'])")
    script = "; ".join([*steps, "print('torch' in sys.modules)"])
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout
    assert out.rstrip().endswith("False")


def faults_of_schema(found):
    return list(Draft202012Validator(json.loads(FILE.read_text(encoding="utf-8"))).iter_errors(found))


def test_the_calls_of_a_run_are_compared():
    found = answer_of(*LINE, "--schedule", "zero_bubble_h1", "--steps", "1", "--check")
    assert found["verdict"]["answer"] == "yes", found["verdict"]
    assert found["faults"] == []
    assert found["calls"] > 0
    assert not faults_of_schema(found)


@pytest.mark.parametrize("beside", [("--check",), ("--layout", "pp=2")])
def test_stages_that_sleep_have_no_layout_and_no_calls(beside):
    found = meshwright("verify", "run", "--sleep", "forward=1ms,backward=2ms,weight=1ms", *beside)
    assert found.code == 2
    assert found.err.startswith("error[RUN012]")


def test_stages_that_sleep_are_held_to_the_engine():
    sleep = "forward=10ms,backward=20ms,weight=10ms"
    given = ("--stages", "2", "--micro-batches", "4", "--schedule", "one_f_one_b,dualpipe_declared")
    ran = meshwright("verify", "run", "--sleep", sleep, *given, "--format", "json")
    assert ran.code in {0, 1}, ran.err  # a loaded machine may be beyond the bound, which test_bubbles judges
    found = json.loads(ran.out)
    assert {row["schedule"] for row in found["bubbles"]} == {"one_f_one_b", "dualpipe_declared"}
    assert all(row["measured_s"] >= row["simulated_s"] for row in found["bubbles"])
    assert not faults_of_schema(found)
