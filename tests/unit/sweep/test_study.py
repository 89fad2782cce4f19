from inspect import signature

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.base.result import as_json
from meshwright.sweep.study import STUDIES, function_of, read_study, run_study, studies, study_list


@pytest.mark.parametrize("name", STUDIES.names())
def test_every_packaged_study_runs_and_has_a_source(name):
    document = as_json(run_study(name, {}))
    assert document["verdict"]["answer"] == "yes"
    assert document["answer"] is not None
    assert document["sources"]


def test_a_setting_replaces_an_input_by_its_unit_and_a_dotted_one_a_field():
    slow = run_study("collective-time", {"latency_s": "1.644us"}).body["answer"]
    fast = run_study("collective-time", {}).body["answer"]
    assert slow["start_up_s"] == pytest.approx(2 * fast["start_up_s"])
    doubled = run_study("tp-scaling", {"system.scale_up.latency": "1.644us", "degrees": "8"}).body["answer"]
    plain = run_study("tp-scaling", {"degrees": "8"}).body["answer"]
    assert doubled[0]["exchange_s"] > 1.9 * plain[0]["exchange_s"]


def test_a_table_is_set_entry_by_entry_or_as_text_and_is_told_as_it_was_run():
    lives = {"buffers": "activations 0s..1s,bucket 0s..1s", "resident": "1B"}
    found = run_study("memory-peak", {"sizes.bucket": "3B", "sizes.activations": "4B", **lives})
    assert found.body["answer"]["peak_bytes"] == 8
    assert found.inputs["options"]["sizes"] == {"activations": "4B", "gather": "4 GiB", "bucket": "3B"}
    text = run_study("memory-peak", {"sizes": "activations=4B, bucket=2B", "sizes.bucket": "3B", **lives})
    assert text.body["answer"] == found.body["answer"]


@pytest.mark.parametrize(
    ("name", "settings", "code"),
    [
        ("no-such-study", {}, "IO020"),
        ("collective-time", {"rank": "8"}, "IO021"),
        ("collective-time", {"latency_s": "3"}, "IO002"),
        ("collective-time", {"latency_s": "3 GB"}, "IO002"),
        ("collective-time", {"ranks": "eight"}, "IO013"),
        ("tp-scaling", {"system.scale_up.speed": "1us"}, "IO014"),
        ("tp-scaling", {"model": "nope"}, "MOD001"),
        ("memory-peak", {"sizes.gather.x": "3"}, "IO002"),
        ("memory-peak", {"sizes": "gather"}, "IO001"),
    ],
)
def test_a_faulty_setting_is_a_coded_error(name, settings, code):
    with pytest.raises(MeshwrightError) as caught:
        run_study(name, settings)
    assert caught.value.code == code


def test_every_study_names_a_public_function_with_the_inputs_that_it_takes():
    for study in study_list():
        for step in study.calls:
            assert callable(function_of(step))
    assert len(studies().body["items"]) == len(STUDIES.names())


def test_a_study_outside_the_package_is_refused():
    study = read_study("read-time")
    for function in ("os:system", "meshwright.cost.roofline:_private", "meshwright.cost.roofline:nothing"):
        with pytest.raises(MeshwrightError) as caught:
            function_of(type(study)(name="x", title="x", function=function, inputs={}))
        assert caught.value.code == "IO022"


# ------------------------------------------------------------------------------------------------------------ steps

_STEPS = "supernode-choice"


def answers(settings, *steps):
    return run_study(_STEPS, settings, steps).body["answer"]


def test_steps_run_in_the_order_of_the_study_and_can_be_chosen():
    result = run_study(_STEPS, {}, ("throughput", "scaling"))
    assert list(result.body["answer"]) == ["scaling", "throughput"]
    assert [step["id"] for step in result.body["steps"]] == ["scaling", "throughput"]
    assert "2 of 10 steps" in result.verdict.text


def test_a_step_takes_the_shared_inputs_that_its_function_has_and_its_own_stand_above_them():
    given = run_study(_STEPS, {}, ("short-context", "scaling")).inputs["options"]
    assert given["short-context"]["job"] == {
        "sessions": 4, "context": 32760, "new_tokens": 8, "deadline": "130ms", "on_time": "75%"
    }  # fmt: skip
    assert set(given["scaling"]) == {"model", "system", "context", "degrees", "all_reduce"}


def test_a_step_answers_what_its_function_answers():
    alone = run_study("tp-scaling", {}).body["answer"]
    assert answers({}, "scaling")["scaling"] == alone
    document = as_json(run_study(_STEPS, {}, ("one-session",)))["answer"]["one-session"]
    assert document["command"] == "plan serve"
    assert document["best"]["id"] == "replicas=1,tp=8,pp=1"


def test_a_setting_goes_to_every_step_that_has_the_input_or_to_the_one_that_it_names():
    both = answers({"job.deadline": "1us"}, "choice", "fours")
    assert [item.verdict.answer for item in both.values()] == ["no", "no"]
    one = answers({"choice.job.deadline": "1us"}, "choice", "fours")
    assert [item.verdict.answer for item in one.values()] == ["no", "yes"]
    slow = answers({"system": "hgx-a100", "options.all_reduce": "tree"}, "choice", "scaling")
    assert slow["choice"].inputs["options"]["all_reduce"] == "tree"
    assert slow["scaling"][0]["step_s"] > answers({}, "scaling")["scaling"][0]["step_s"]


def test_a_study_says_what_its_results_leave_out_and_rest_on_once():
    result = run_study(_STEPS, {}, ("choice", "fours"))
    assert result.not_modelled == result.body["answer"]["choice"].not_modelled
    assert len(set(result.sources)) == len(result.sources)
    assert any("rope scaling" in line for line in result.warnings)


@pytest.mark.parametrize(
    ("settings", "steps", "code"),
    [
        ({}, ("gone",), "IO024"),
        ({"gone": "1"}, (), "IO021"),
        ({"fault.gone": "1"}, ("fault",), "IO021"),
        ({"fault.options.gone": "1"}, ("fault",), "IO014"),
        ({"job.gone": "1"}, ("fault",), "IO014"),
        ({"model": "nope"}, ("scaling",), "MOD001"),
    ],
)
def test_a_faulty_step_or_setting_of_one_is_a_coded_error(settings, steps, code):
    with pytest.raises(MeshwrightError) as caught:
        run_study(_STEPS, settings, steps)
    assert caught.value.code == code


@pytest.mark.parametrize("study", [item for item in study_list() if item.steps], ids=lambda item: item.name)
def test_steps_have_names_of_their_own_that_no_input_has(study):
    names = [step.name for step in study.steps]
    inputs = {name for step in study.steps for name in signature(function_of(step)).parameters}
    assert len(set(names)) == len(names)
    assert not set(names) & inputs
    assert not study.inputs
    assert not study.function
    assert set(study.shared) <= inputs


def test_settings_of_a_study_stand_above_its_inputs_and_a_users_above_them():
    def latency(settings):
        answer = as_json(run_study("rtx4090-training", settings, ("late",)))["answer"]["late"]
        return answer["inputs"]["system"]["scale_up"]["latency"]

    assert latency({}) == 0.0
    assert latency({"system.scale_up.latency": "1us"}) == 1e-6


def test_a_setting_of_several_systems_goes_to_each():
    found = as_json(run_study("rtx4090-training", {"systems.accelerator.memory": "25 GB"}, ("choice",)))
    systems = found["answer"]["choice"]["inputs"]["system"]["systems"]
    assert [system["accelerator"]["memory"] for system in systems] == [25_000_000_000] * 2
