"""`meshwright compare A B`, from saved files to what is printed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.ui.lines import LINES, arguments
from tests.ui.program import answer_of, drawn, meshwright

_PLAN = LINES["plan, deadline"]
_OTHER = (*_PLAN[:-1], "110ms", "--all-reduce", "auto")


def save(folder, name, line):
    """The answer of a line in a file of its own."""
    file = folder / f"{name}.json"
    assert drawn(*line, form=("--format", "json", "-q", "-o", str(file))).code in {0, 1}
    return str(file)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    return save(folder, "a", _PLAN), save(folder, "b", _OTHER)


@pytest.mark.parametrize("name", LINES)
def test_every_answer_can_be_compared_with_itself(name, tmp_path):
    file = save(tmp_path, "a", arguments(name))
    answer = answer_of("compare", file, file)
    assert answer["compared"] == json.loads(Path(file).read_text(encoding="utf-8"))["command"]
    assert answer["changes"] == []
    assert meshwright("compare", file, file, "--format", "csv").out.strip() == ""


def test_another_choice_is_a_no_and_the_first_line_says_which(pair):
    found = meshwright("compare", *pair)
    assert found.code == 1
    first, *rest = found.out.splitlines()
    assert first.startswith("no: the choice differs, replicas=4,tp=2,pp=1 against replicas=1,tp=8,pp=1; 2 inputs and ")
    assert "  job.deadline: 0.13 to 0.11" in rest
    assert "  options.all_reduce: ring to auto" in rest
    assert "  best memory.max_sessions: 2 to 16 (+700.00%)" in rest


def test_csv_and_markdown_have_the_changes_of_the_document(pair):
    changes = answer_of("compare", *pair, code=1)["changes"]
    printed = meshwright("compare", *pair, "--format", "csv").out
    rows = list(csv.DictReader(printed.splitlines(keepends=True), strict=True))
    assert [(row["of"], row["path"], float(row["difference"])) for row in rows] == [
        (item["of"], item["path"], item["difference"]) for item in changes
    ]
    page = meshwright("compare", *pair, "--format", "md").out
    assert page.startswith("no: the choice differs")
    assert sum(line.startswith("| best | ") for line in page.splitlines()) >= 10


def test_a_result_holds_no_path_and_names_its_inputs_by_their_contents(pair, tmp_path):
    answer = answer_of("compare", *pair, code=1)
    assert pair[0] not in json.dumps(answer)
    moved = save(tmp_path, "elsewhere", _PLAN)
    assert answer_of("compare", moved, pair[1], code=1) == answer


@pytest.mark.parametrize(
    ("document", "code"),
    [(None, "IO010"), ("no json", "IO012"), ("{}", "IO040"), ('{"schema_version": "0"}', "IO041")],
)
def test_a_file_that_cannot_be_compared_is_a_coded_error(pair, tmp_path, document, code):
    file = tmp_path / "other.json"
    if document is not None:
        file.write_text(document, encoding="utf-8")
    for line in (("compare", pair[0], str(file)), ("compare", str(file), pair[0])):
        found = meshwright(*line)
        assert (found.code, found.out) == (2, "")
        assert found.err.startswith(f"error[{code}]: ")
        assert "\nfix: " in found.err


def test_a_saved_error_and_another_command_are_coded_errors(pair, tmp_path):
    file = tmp_path / "error.json"
    file.write_text(meshwright("inspect", "gone", "--format", "json").out, encoding="utf-8")
    assert meshwright("compare", str(file), pair[0]).err.startswith("error[IO042]: ")
    other = save(tmp_path, "inspect", LINES["inspect"])
    assert meshwright("compare", pair[0], other).err.startswith("error[IO043]: A answers 'plan serve' and B answers ")
