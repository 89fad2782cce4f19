"""`--format md` and `--format csv`: the same answer as JSON, as tables for a page and for a spreadsheet."""

from __future__ import annotations

import csv
import json
import math
import re
from functools import cache
from io import StringIO

import pytest

from meshwright.base.leaves import leaves
from meshwright.base.result import Result, Verdict
from meshwright.cli.options import FORMATS
from meshwright.cli.show import _FORMS
from meshwright.cost.overheads import retry_count
from meshwright.output.csv_rows import as_csv
from meshwright.scenarios._engine_pool import budget_bytes
from tests.ui.lines import LINES, arguments
from tests.ui.program import drawn, meshwright

_CANDIDATES = [name for name in LINES if name.startswith(("fit", "plan"))]
_IN_TURN = [name for name in LINES if name.startswith("plan") and "continuous" not in name]
_BATCHES = [name for name in LINES if name.startswith("plan, continuous")]
_TRAINING = [name for name in LINES if name.startswith("train")]
_EXPLAINED = [name for name in LINES if name.startswith("explain")]
_PIPE = re.compile(r"(?<!\\)\|")


@cache
def printed(name, style):
    return drawn(*arguments(name), form=("--format", style))


def document(name):
    return printed(name, "json").answer


def table(name):
    """The CSV as rows by header, read by the standard library."""
    return list(csv.DictReader(printed(name, "csv").out.splitlines(keepends=True), strict=True))


def sections(name):
    """The Markdown's sections by title."""
    first, *rest = re.split(r"^## ", printed(name, "md").out, flags=re.MULTILINE)
    return {"": first} | {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in rest}


def rows_of(section):
    """The rows of a Markdown table, its header first."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in _PIPE.split(line)[1:-1]] for line in lines if not set(line) <= set("|-: ")]


def at(value, path):
    """What stands at a dotted path of a mapping, "" for what is not there."""
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def as_cell(value):
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def rounded(value):
    """A number as a page shows it."""
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def test_every_format_that_can_be_asked_for_can_be_drawn():
    assert tuple(_FORMS) == FORMATS


@pytest.mark.parametrize("style", ["md", "csv"])
@pytest.mark.parametrize("name", LINES)
def test_exit_code_and_stderr_are_those_of_json(name, style):
    found = printed(name, style)
    assert (found.code, found.err) == (printed(name, "json").code, "")


# --------------------------------------------------------------------------------------------------------- markdown


@pytest.mark.parametrize("name", LINES)
def test_the_first_line_of_markdown_is_the_verdict(name):
    verdict = document(name)["verdict"]
    first = printed(name, "md").out.splitlines()[0]
    assert first == f"{verdict['answer']}: {verdict['text']}"
    assert drawn(*arguments(name), form=("--format", "md", "-q")).out == f"{first}\n"


@pytest.mark.parametrize("name", LINES)
def test_every_row_of_a_markdown_table_has_the_cells_of_its_header(name):
    for title, section in sections(name).items():
        rows = rows_of(section)
        assert {len(row) for row in rows} <= {len(rows[0])} if rows else True, title


@pytest.mark.parametrize("name", [*_IN_TURN, *_BATCHES])
def test_markdown_has_every_layout_in_the_columns_of_the_terminal_with_their_units(name):
    header, *rows = rows_of(sections(name)["Layouts"])
    assert [row[0] for row in rows] == [item["id"] for item in document(name)["candidates"]]
    shown = next(line for line in printed(name, "human").out.splitlines() if line.startswith("layout "))
    assert [cell.partition(" (")[0] for cell in header] == re.split(r" {2,}", shown)
    times = {"tpot (s)": "tpot_s", "ttft (s)": "ttft_s"}
    if name in _IN_TURN:
        times = {"step (s)": "step_time_s", "last finish (s)": "last_finish_s"}
    for row, item in zip(rows, document(name)["candidates"], strict=True):
        cells = dict(zip(header, row, strict=True))
        assert cells["fits"] == ("yes" if item["fits"] else "no")
        assert {title: cells[title] for title in times} == {title: rounded(item[key]) for title, key in times.items()}
        assert cells["memory (bytes)"].replace(",", "") == as_cell(item["memory"].get("per_rank_bytes"))
        assert cells["why not"].startswith(item["excluded"]["code"] if item["excluded"] else "")


@pytest.mark.parametrize("name", _TRAINING)
def test_markdown_of_training_has_every_layout_and_system_and_parts_that_add_up(name):
    answer, found = document(name), sections(name)
    header, *rows = rows_of(found["Layouts"])
    assert [row[0] for row in rows] == [item["id"] for item in answer["candidates"]]
    for row, item in zip(rows, answer["candidates"], strict=True):
        cells = dict(zip(header, row, strict=True))
        assert cells["step (s)"] == rounded(item["step"]["total_s"])
        assert cells["ends after (s)"] == rounded(item["finish_s"])
        assert cells["memory (bytes)"] == rounded(item["memory"]["per_rank_bytes"])
    systems = rows_of(found["Systems"])[1:]
    assert [row[0] for row in systems] == [row["id"] for row in answer["systems"]]
    memory = next(title for title in found if title.startswith("Memory of the fullest device"))
    sizes = [int(row[1].replace(",", "")) for row in rows_of(found[memory])[1:]]
    assert sum(sizes[:-2]) == sizes[-2]
    step = next(title for title in found if title.startswith("A step of"))
    for title in (step, "The calendar"):
        parts = [float(row[1].replace(",", "")) for row in rows_of(found[title])[1:]]
        assert sum(parts[:-1]) == pytest.approx(parts[-1], rel=1e-5)


@pytest.mark.parametrize("name", _BATCHES)
def test_markdown_of_batches_has_every_point_of_the_front_and_the_exchanges(name):
    answer, found = document(name), sections(name)
    header, *rows = (
        rows_of(found["Pareto front: tokens a second, per user against per GPU"]) if answer["pareto"] else ([],)
    )
    named = [dict(zip(header, row, strict=True)) for row in rows]
    assert [(row["layout"], row["batch"], row["tpot (s)"], row["breaks"]) for row in named] == [
        (point["id"], f"{point['batch']:,}", rounded(point["tpot_s"]), ", ".join(point["breaks"]))
        for point in answer["pareto"]
    ]
    exchanges = answer["best"]["groups"] if answer["best"] else []
    assert len(rows_of(found.get("Exchanges of one step", ""))) == len(exchanges) + bool(exchanges)


@pytest.mark.parametrize("name", ["fit", "fit, computed", "plan, deadline", "plan, continuous"])
def test_markdown_memory_adds_up_to_its_total(name):
    title = next(title for title in sections(name) if title.startswith("Memory of the fullest device"))
    sizes = {row[0]: int(row[1].replace(",", "")) for row in rows_of(sections(name)[title])[1:]}
    assert sizes["weights"] + sizes["KV cache"] + sizes["workspace"] == sizes["total"]
    assert sizes["total"] == document(name)["candidates"][0]["memory"]["per_rank_bytes"]
    items = rows_of(sections(name).get("Workspace is the sum of", ""))[1:]
    assert bool(items) == ("--workspace" in LINES[name])
    assert not items or sum(int(row[1].replace(",", "")) for row in items) == sizes["workspace"]


@pytest.mark.parametrize("name", LINES)
def test_markdown_lists_what_the_answer_rests_on_and_leaves_out(name):
    answer, found = document(name), sections(name)
    for key, title in (("warnings", "Warnings"), ("notes", "Notes"), ("not_modelled", "Not modelled")):
        said = re.sub(r"\\(.)", r"\1", found.get(title, ""))
        assert said.splitlines() == [f"- {line}" for line in answer[key]]
    assert found.get("Sources", "").count("\n- ") + ("Sources" in found) == len(answer["sources"])
    commands = [line[2:] for line in found.get("Next", "").splitlines() if line.startswith("$ ")]
    assert commands == answer["next_commands"]


@pytest.mark.parametrize("name", _EXPLAINED)
def test_markdown_of_a_number_has_its_formulas_and_its_inputs(name):
    answer, found = document(name), sections(name)
    header, first, *_ = rows_of(found["Formulas"])
    assert header == ["name", "formula", "values", "value", "source"]
    assert first[3] == rounded(answer["value"])
    leaves_of_it = {item["label"]: item for item in answer["expression"] if item["operation"] == "leaf"}
    shown = {row[0]: row[1:] for row in rows_of(found["Inputs"])[1:]}
    assert shown.keys() == leaves_of_it.keys()
    assert {path: row[:2] for path, row in shown.items()} == {
        path: [rounded(item["value"]), item["basis"]] for path, item in leaves_of_it.items()
    }


def test_signs_of_markdown_in_a_name_are_escaped_and_a_new_line_is_a_blank():
    line = ("fit", "tiny-qwen3", "--on", "hgx-h100", "--set", "model.name=a|b\n*c*<d>[e](f)")
    out = meshwright(*line, "--format", "md").out
    assert out.startswith(r"yes: a\|b \*c\*\<d>[e]\(f) at replicas=1")


# -------------------------------------------------------------------------------------------------------------- csv


@pytest.mark.parametrize("name", LINES)
def test_csv_is_one_table_whose_lines_end_as_the_standard_has_them(name):
    text = printed(name, "csv").out
    assert text.endswith("\r\n")
    assert text.count("\n") == text.count("\r\n")
    rows = list(csv.reader(text.splitlines(keepends=True), strict=True))
    assert len(rows) > 1
    assert {len(row) for row in rows} == {len(rows[0])}
    assert len(set(rows[0])) == len(rows[0])


@pytest.mark.parametrize("name", _CANDIDATES)
def test_csv_has_every_candidate_with_every_number_of_the_document(name):
    rows, candidates = table(name), document(name)["candidates"]
    assert len(rows) == len(candidates)
    for row, item in zip(rows, candidates, strict=True):
        assert row == {path: as_cell(at(item, path)) for path in row}
        assert {path.partition(".")[0] for path in row} == set(item)
        assert {path for path, value in leaves(item).items() if "[" not in path and value is not None} <= set(row)
    assert {f"excluded.{key}" for key in ("code", "reason", "nearest", "limit")} <= set(rows[0])


@pytest.mark.parametrize("name", [name for name in LINES if "list" in name.split()])
def test_csv_of_a_catalog_is_its_items(name):
    items = document(name)["items"]
    for row, item in zip(table(name), items, strict=True):
        assert row == {path: as_cell(at(item, path)) for path in row}
        assert row["id"]


def test_csv_of_a_model_is_its_fields_by_path():
    values = {row["field"]: row["value"] for row in table("inspect, mixture in FP8")}
    answer = document("inspect, mixture in FP8")
    assert values["parameters.total"] == str(answer["parameters"]["total"])
    assert values["flops_per_token"] == repr(answer["flops_per_token"])
    assert values["operators[0].name"] == answer["operators"][0]["name"]


def test_csv_of_a_study_is_its_rows_or_its_fields():
    rows = document("study run, rows")["answer"]
    assert [row["step_s"] for row in table("study run, rows")] == [repr(row["step_s"]) for row in rows]
    values = {row["field"]: row["value"] for row in table("study run, fields")}
    assert values == {f"answer.{key}": as_cell(item) for key, item in document("study run, fields")["answer"].items()}
    assert table("study run, number") == [{"field": "answer", "value": "67108864"}]


@pytest.mark.parametrize("name", _EXPLAINED)
def test_csv_of_a_number_is_its_formulas_with_every_digit_and_its_inputs(name):
    answer, rows = document(name), table(name)
    assert list(rows[0]) == ["kind", "name", "formula", "values", "value", "basis", "source"]
    assert [row["kind"] for row in rows] == sorted(row["kind"] for row in rows)
    assert rows[0]["value"] == json.dumps(answer["value"])
    given = {row["name"]: (row["value"], row["basis"], row["source"]) for row in rows if row["kind"] == "input"}
    assert given == {
        item["label"]: (json.dumps(item["value"]), item["basis"], item["source"])
        for item in answer["expression"]
        if item["operation"] == "leaf"
    }


@pytest.mark.parametrize("name", _EXPLAINED)
def test_the_values_of_a_formula_in_csv_give_its_value(name):
    """Signs as Python has them; beside its `max`, `min` and exponentials, what is no arithmetic."""
    known = {
        "__builtins__": {},
        "max": max,
        "min": min,
        "divide_up": lambda left, right: -(-left // right),
        "budget_bytes": budget_bytes,
        "exp": math.exp,
        "expm1": math.expm1,
        "retry_count": retry_count,
    }
    for row in table(name):
        if row["kind"] == "formula":
            value = eval(row["values"], known)  # noqa: S307 - what the program itself printed
            assert value == pytest.approx(json.loads(row["value"]), rel=1e-12), row


def test_commas_quotes_and_new_lines_survive_csv():
    odd = 'a,"b"\r\n|c; é'
    result = Result(
        command="study run", verdict=Verdict(answer="yes", text=""), inputs={}, body={"answer": [{"x": odd, "y": None}]}
    )
    assert list(csv.DictReader(StringIO(as_csv(result), newline=""), strict=True)) == [{"x": odd, "y": ""}]


def test_a_block_that_only_some_rows_have_is_columns_of_all():
    rows = [{"id": 1, "fault": None}, {"id": 2, "fault": {"at_s": 0.5, "part": {"card": 3}}}]
    result = Result(command="x", verdict=Verdict(answer="yes", text=""), inputs={}, body={"answer": rows})
    assert as_csv(result) == "id,fault.at_s,fault.part.card\r\n1,,\r\n2,0.5,3"
