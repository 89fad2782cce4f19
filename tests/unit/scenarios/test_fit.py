import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.cost.reserve import ReserveRule
from meshwright.model.reader import read_model
from meshwright.scenarios.fit import FitOptions, fit, replica_layout
from meshwright.system.system import read_system


def _fit(model="Qwen/Qwen3-235B-A22B", on="hgx-h100", tp=8, pp=1, ep=1, **options):
    read = read_model(model)
    return fit(read, read_system(on), replica_layout(read, tp, pp, ep), FitOptions(**options))


def test_the_ledger_of_the_fullest_rank_is_exact_to_the_byte():
    memory = _fit(context=8192, sessions=1).body["memory"]
    assert memory["parameters_bytes"] == 58_959_617_024
    assert memory["kv_cache_bytes"] == 394_264_576
    assert memory["max_sessions"] == 47
    assert memory["per_rank_bytes"] == 58_959_617_024 + 394_264_576 + 2 * 2**30


def test_parts_add_up_to_the_parameters():
    for pp in (1, 2, 3, 4):
        memory = _fit(tp=2, pp=pp, on="hgx-h100 x4").body["memory"]
        assert sum(memory["parameters_by_part_bytes"].values()) == memory["parameters_bytes"]


def test_one_more_session_than_max_sessions_does_not_fit_and_max_sessions_does():
    most = _fit(context=8192).body["memory"]["max_sessions"]
    assert _fit(context=8192, sessions=most).verdict.answer == "yes"
    over = _fit(context=8192, sessions=most + 1)
    assert over.verdict.answer == "no"
    assert over.verdict.exit_code == 1
    assert over.best is None
    assert over.candidates[0].excluded.limit == "capacity"


@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize("context", [5, 17, 100, 1000])
def test_with_pages_that_sessions_leave_partly_empty_one_more_than_max_sessions_does_not_fit_either(context, tp):
    def held(sessions):
        found = _fit("Qwen/Qwen3-8B", tp=tp, context=context, sessions=sessions, reserve=ReserveRule())
        return found.body["memory"]

    most = held(1)["max_sessions"]
    full, over = held(most), held(most + 1)
    assert full["per_rank_bytes"] <= full["capacity_bytes"] < over["per_rank_bytes"]
    assert full["max_sessions"] == most


def test_a_tied_head_is_stored_again_only_on_another_stage():
    one, two = (_fit("Qwen/Qwen2.5-0.5B", tp=1, pp=pp).body["memory"] for pp in (1, 2))
    assert one["parameters_by_part_bytes"]["head"] == 0
    assert one["parameters_bytes"] == 988_065_536
    layers, embedding, norm = 24, 151936 * 896 * 2, 896 * 2
    block = (988_065_536 - embedding - norm) // layers
    assert two["parameters_bytes"] == layers // 2 * block + embedding + norm


def test_without_a_context_no_session_is_counted_and_max_sessions_is_null():
    memory = _fit().body["memory"]
    assert memory["kv_cache_bytes"] == 0
    assert memory["max_sessions"] is None
    assert memory["max_kv_tokens"] > 0


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"tp": 3}, "LAY003"),
        ({"tp": 16}, "LAY002"),
        ({"sessions": 3}, "JOB001"),
        ({"sessions": -1, "context": 10}, "JOB001"),
        ({"tp": 8, "ep": 3}, "LAY007"),
        ({"tp": 1, "pp": 95, "on": "hgx-h100 x16"}, "LAY010"),
    ],
)
def test_what_cannot_be_laid_out_is_refused_by_code(change, code):
    with pytest.raises(MeshwrightError) as caught:
        _fit(**change)
    assert caught.value.code == code
    assert caught.value.fix


@pytest.mark.parametrize(("change", "fix"), [({"tp": 16}, "tp=8"), ({"tp": 8, "pp": 4}, "tp=2"), ({"pp": 30}, "pp=8")])
def test_too_few_devices_names_the_degree_that_they_hold(change, fix):
    with pytest.raises(MeshwrightError) as caught:
        _fit("Qwen/Qwen3-32B", **{"tp": 1, **change})
    assert caught.value.code == "LAY002"
    assert caught.value.fix.startswith(f"--layout {fix},")
