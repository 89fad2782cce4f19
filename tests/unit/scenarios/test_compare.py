"""Two saved answers side by side: what differs, in what order, and which files are refused."""

from __future__ import annotations

import copy
import json

import pytest

import meshwright
from meshwright.base.errors import FileError
from meshwright.base.result import as_json
from meshwright.base.units import Seconds, Share, Tokens
from meshwright.scenarios.compare import compare, read_answer


def plan(**changes):
    """The document of a plan for four long sessions, some options otherwise."""
    model, system = meshwright.read_model("Qwen/Qwen3-32B"), meshwright.read_system("hgx-h100")
    given = {"deadline": Seconds(0.13), "all_reduce": "ring", "flips": "none"} | changes
    job = meshwright.ServeJob(
        sessions=4, context=Tokens(131064), new_tokens=Tokens(8), deadline=given.pop("deadline"), on_time=Share(0.75)
    )
    options = meshwright.ServeOptions(**given)
    return json.loads(json.dumps(as_json(meshwright.plan_serve(model, system, job, options))))


RING, AUTO, SHORT = plan(), plan(all_reduce="auto"), plan(all_reduce="auto", deadline=Seconds(0.11))


def test_an_answer_against_itself_differs_in_nothing():
    result = compare(RING, RING)
    assert result.verdict.answer == "yes"
    for name in ("inputs_changed", "changes", "words_changed", "only"):
        assert result.body[name] == []
    assert result.body["candidates_only"] == {"a": [], "b": []}


def test_numbers_may_move_under_an_unmoved_choice():
    result = compare(RING, AUTO)
    assert (result.verdict.answer, result.verdict.exit_code) == ("yes", 0)
    assert result.body["best_ids"] == {"a": "replicas=4,tp=2,pp=1", "b": "replicas=4,tp=2,pp=1"}
    assert [(item.path, item.a, item.b) for item in result.body["inputs_changed"]] == [
        ("options.all_reduce", "ring", "auto")
    ]
    assert result.body["changes"]


def test_a_choice_that_differs_is_a_no():
    result = compare(RING, SHORT)
    assert (result.verdict.answer, result.verdict.exit_code) == ("no", 1)
    assert "replicas=4,tp=2,pp=1 against replicas=1,tp=8,pp=1" in result.verdict.text
    assert {item.path for item in result.body["inputs_changed"]} == {"options.all_reduce", "job.deadline"}


def test_a_verdict_that_differs_is_a_no_even_with_the_same_best():
    other = copy.deepcopy(RING)
    other["verdict"]["answer"] = "no"
    result = compare(RING, other)
    assert result.verdict.answer == "no"
    assert "yes against no" in result.verdict.text


def test_every_number_of_a_matched_candidate_that_moved_is_listed_with_its_differences():
    found = {(item.of, item.path): item for item in compare(RING, AUTO).body["changes"]}
    others = {item["id"]: item for item in AUTO["candidates"]}
    for item in RING["candidates"]:
        other = others[item["id"]]
        for name in ("step_time_s", "exchange_time_s", "last_finish_s", "local_time_s"):
            moved = found.get((item["id"], name))
            if item[name] == other[name]:
                assert moved is None
                continue
            assert (moved.a, moved.b) == (item[name], other[name])
            assert moved.difference == other[name] - item[name]
            assert moved.relative == pytest.approx(other[name] / item[name] - 1)


def test_changes_stand_largest_first_and_those_from_zero_before_them():
    other = copy.deepcopy(AUTO)
    other["best"]["idle_devices"] = 3
    changes = compare(RING, other).body["changes"]
    assert (changes[0].of, changes[0].path, changes[0].relative) == ("best", "idle_devices", None)
    sizes = [abs(item.relative) for item in changes[1:]]
    assert sizes == sorted(sizes, reverse=True)
    assert compare(RING, other) == compare(RING, other)


def test_the_two_best_are_laid_side_by_side_whatever_their_ids():
    found = {item.path: item for item in compare(RING, SHORT).body["changes"] if item.of == "best"}
    assert (found["layout.tp"].a, found["layout.tp"].b) == (2, 8)
    assert found["step_time_s"].relative < 0


def test_numbers_and_candidates_of_one_side_are_listed():
    other = copy.deepcopy(RING)
    gone = other["candidates"].pop()
    other["candidates"][0]["step_time_s"] = None
    other["candidates"][0]["new_count"] = 7
    body = compare(RING, other).body
    assert body["candidates_only"] == {"a": [gone["id"]], "b": []}
    only = {(item.side, item.of, item.path, item.value) for item in body["only"]}
    first = RING["candidates"][0]
    assert ("a", first["id"], "step_time_s", first["step_time_s"]) in only
    assert ("b", first["id"], "new_count", 7) in only


def test_words_that_differ_are_listed_apart_from_numbers():
    words = {(item.of, item.path): (item.a, item.b) for item in compare(RING, AUTO).body["words_changed"]}
    assert words["replicas=1,tp=8,pp=1", "groups[0].algorithm"] == ("ring", "tree")
    assert all(isinstance(item, (str, bool, type(None))) for pair in words.values() for item in pair)


def test_the_answer_of_a_study_is_compared_too():
    model = meshwright.read_model("tiny-qwen3")
    one, two = (
        json.loads(json.dumps(as_json(meshwright.inspect(model, meshwright.InspectOptions(batch=batch)))))
        for batch in (1, 2)
    )
    found = {item.path: item.relative for item in compare(one, two).body["changes"] if item.of == "answer"}
    assert found["state_bytes_per_step"] == 1.0


@pytest.mark.parametrize(("a", "b"), [(1e-300, 1e150), (-1e150, 1e150), (0, 10**100), (5, 5.5)])
def test_differences_of_extreme_numbers_are_finite_or_null(a, b):
    one, other = copy.deepcopy(RING), copy.deepcopy(RING)
    one["best"]["idle_devices"], other["best"]["idle_devices"] = a, b
    document = as_json(compare(one, other))
    assert json.loads(json.dumps(document, allow_nan=False)) == document


# ------------------------------------------------------------------------------------------------------ what is read


def saved(folder, document):
    file = folder / "answer.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return file


def test_a_saved_answer_is_read_as_it_was(tmp_path):
    assert read_answer(saved(tmp_path, RING)) == RING


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ("", "IO012"),
        ("{", "IO012"),
        ("[" * 100 + "]" * 100, "IO012"),
        ("[]", "IO040"),
        ("3", "IO040"),
        ("{}", "IO040"),
        ({"schema_version": "1"}, "IO040"),
        ({**RING, "schema_version": "2"}, "IO041"),
        ({**RING, "schema_version": 1}, "IO041"),
        ({**RING, "schema_version": ["1"]}, "IO041"),
        ({"schema_version": "1", "error": {"code": "LAY003", "message": "error[LAY003]: no"}}, "IO042"),
        ({"schema_version": "1", "error": None}, "IO042"),
        ({**RING, "command": None}, "IO040"),
        ({**RING, "verdict": "yes"}, "IO040"),
        ({**RING, "verdict": {"answer": ["yes"], "text": ""}}, "IO040"),
        ({**RING, "verdict": {"answer": "maybe", "text": ""}}, "IO040"),
        ({**RING, "inputs": []}, "IO040"),
        ({**RING, "best": {"id": 3}}, "IO040"),
        ({**RING, "candidates": {}}, "IO040"),
        ({**RING, "candidates": [{}]}, "IO040"),
        ({**RING, "candidates": RING["candidates"][:1] * 2}, "IO040"),
        ({**RING, "best": {"id": "x", "step_time_s": float("nan")}}, "IO040"),
        ({**RING, "best": {"id": "x", "step_time_s": 10**200}}, "IO040"),
    ],
)
def test_what_is_no_answer_of_this_version_is_refused(tmp_path, document, code):
    with pytest.raises(FileError) as caught:
        read_answer(saved(tmp_path, document))
    assert caught.value.code == code
    assert caught.value.fix


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileError) as caught:
        read_answer(tmp_path / "gone.json")
    assert caught.value.code == "IO010"


def test_answers_of_different_commands_are_refused():
    with pytest.raises(FileError) as caught:
        compare(RING, {**RING, "command": "fit"})
    assert caught.value.code == "IO043"
    assert "'plan serve'" in caught.value.cause
    assert "'fit'" in caught.value.cause
