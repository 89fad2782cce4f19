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
    ],
)
def test_a_faulty_setting_is_a_coded_error(name, settings, code):
    with pytest.raises(MeshwrightError) as caught:
        run_study(name, settings)
    assert caught.value.code == code


def test_every_study_names_a_public_function_with_the_inputs_that_it_takes():
    for study in study_list():
        assert callable(function_of(study))
    assert len(studies().body["items"]) == len(STUDIES.names())


def test_a_study_outside_the_package_is_refused():
    study = read_study("read-time")
    for function in ("os:system", "meshwright.cost.roofline:_private", "meshwright.cost.roofline:nothing"):
        with pytest.raises(MeshwrightError) as caught:
            function_of(type(study)(name="x", title="x", function=function, inputs={}))
        assert caught.value.code == "IO022"
