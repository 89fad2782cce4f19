"""Numbers that could mislead: each was once wrong, or would be with an easy shortcut."""

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.base.parse import set_path
from meshwright.job.faults import read_fault
from meshwright.job.serve import ServeJob
from meshwright.model.reader import read_model
from meshwright.scenarios._shared import position_warning
from meshwright.scenarios.fit import FitOptions, fit, replica_layout
from meshwright.scenarios.phases import decode_phase, expert_call, prefill_phase
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.scenarios.tensor_parallel import kv_placement, tp_scaling
from meshwright.system.accelerator import ACCELERATORS, read_accelerator
from meshwright.system.link import read_link
from meshwright.system.system import read_system

SPARSE = (
    'scale_up = "nvlink4"',
    "[accelerator]",
    'name = "x"',
    'memory = "80 GB"',
    'memory_bandwidth = "1 TB/s"',
    'peak.bf16 = "2 PFLOP/s"',
)
JOB = ServeJob(sessions=1, context=8192, new_tokens=8)


def _row(model, system, **options):
    layout = options.pop("layout")
    return plan_serve(read_model(model), system, JOB, ServeOptions(layout=layout, **options)).candidates[0]


def test_a_group_across_boxes_pays_the_slower_of_its_two_links():
    slow_inside = _row("Qwen/Qwen3-32B", read_system("l40s-host x2"), layout={"tp": 16, "pp": 1}, all_reduce="ring")
    system = read_system("l40s-host x2")
    assert system.scale_up.bandwidth < system.nic_bandwidth
    rounds, message = 30, 10240
    latency = max(system.scale_up.latency, system.nic_latency)
    expected = rounds * (latency + message / 16 / system.scale_up.bandwidth)
    assert slow_inside.measures["groups"][0]["time_s"] == pytest.approx(expected)


def test_even_weight_reads_still_wait_for_the_busiest_expert_group():
    rows = plan_serve(
        read_model("Qwen/Qwen3-30B-A3B"), read_system("hgx-h100"), JOB, ServeOptions(weight_reads="even")
    ).candidates
    times = {
        (row.layout["ep"], row.layout["etp"]): row.measures["step_time_s"] for row in rows if row.layout["tp"] == 8
    }
    assert times[1, 8] < times[2, 4] < times[4, 2] < times[8, 1]


def test_a_format_without_a_rate_is_charged_at_another_and_says_so():
    model, system = read_model("tiny-qwen3", weights="fp32"), read_system("hgx-b200")
    result = plan_serve(model, system, JOB, ServeOptions())
    assert any("no fp32 matrix rate" in note for note in result.notes)
    fp8 = plan_serve(read_model("Qwen/Qwen3-30B-A3B-FP8"), read_system("hgx-a100"), JOB, ServeOptions())
    assert any("no fp8 matrix rate" in note for note in fp8.notes)
    native = plan_serve(read_model("Qwen/Qwen3-30B-A3B-FP8"), read_system("hgx-h100"), JOB, ServeOptions())
    assert not any("matrix rate" in note for note in native.notes)
    assert "system.accelerator.peak.fp8" in {lever.parameter for lever in native.sensitivity}


def test_a_shard_that_cuts_scale_blocks_is_warned_of():
    model, system = read_model("Qwen/Qwen3-235B-A22B-FP8"), read_system("hgx-h100")
    cut, whole = (fit(model, system, replica_layout(model, tp, 1, 1), FitOptions()) for tp in (8, 4))
    assert any("192 of 1536" in warning for warning in cut.warnings)
    assert not whole.warnings


def test_measured_times_beside_computed_ones_are_warned_of():
    model, system = read_model("Qwen/Qwen3-8B"), read_system("hgx-h100")
    mixed = plan_serve(model, system, JOB, ServeOptions(all_reduce="measured"))
    plain = plan_serve(model, system, JOB, ServeOptions())
    assert any("archived" in warning for warning in mixed.warnings)
    assert not any("archived" in warning for warning in plain.warnings)


def test_an_archive_of_another_link_does_not_answer():
    model = read_model("Qwen/Qwen3-32B")
    slower = set_path(read_system("hgx-h100"), "scale_up.latency", "2us")
    fixed = ServeOptions(all_reduce="measured", layout={"tp": 8, "pp": 1})
    groups = plan_serve(model, slower, JOB, fixed).candidates[0].measures["groups"]
    assert {group["basis"] for group in groups} == {"formula"}


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda model, box: tp_scaling(model, box, 1024, (8, 16), "ring"), "LAY002"),
        (lambda model, box: tp_scaling(model, box, 1024, (1, 3), "ring"), "LAY003"),
        (lambda model, _: kv_placement(model, 3, 1024), "LAY003"),
        (lambda model, box: decode_phase(model, box, 3, 1024), "LAY003"),
        (lambda _, box: expert_call(4096, 1536, 128, 200, 1, box), "MOD010"),
    ],
)
def test_a_study_refuses_what_no_layout_could_be(call, code):
    with pytest.raises(MeshwrightError) as caught:
        call(read_model("Qwen/Qwen3-32B"), read_system("hgx-h100"))
    assert caught.value.code == code


def test_a_long_fp8_prompt_charges_attention_at_the_plain_rate():
    model, system = read_model("Qwen/Qwen3-30B-A3B-FP8"), read_system("hgx-h100")
    phase = prefill_phase(model, system, 8, 131072)
    assert phase.bound == "compute"
    assert phase.compute_s == pytest.approx(phase.local_s, rel=0.02)
    assert phase.compute_s > phase.flops / system.accelerator.peak["fp8"] * 1.5


@pytest.mark.parametrize(
    "text",
    [
        'scale_up = { name = "x", bandwidth = "900 GB/s", latency = "1 us" }\naccelerator = "h100-sxm"',
        "\n".join(SPARSE),
    ],
)
def test_a_bare_rate_in_ones_own_file_could_be_double_and_is_refused(text, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(f"nodes = 1\ndevices_per_node = 8\n{text}\n")
    with pytest.raises(MeshwrightError) as caught:
        read_system(str(file))
    assert caught.value.code == "SYS004"
    assert "value =" in caught.value.fix


def test_positions_up_to_what_the_config_claims_are_not_warned_of():
    model = read_model("Qwen/Qwen3-32B")
    assert position_warning(model, 40960) == ()
    assert "40961" in position_warning(model, 40961)[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("openai-community/gpt2", "1025 positions are above the 1024 of the learned position table"),
        ("bigscience/bloom", "2049 positions are above the 2048 the config claims: ALiBi goes on"),
        ("tiiuae/falcon-7b", "2049 positions are above max_position_embeddings 2048: needs rope scaling by 1"),
    ],
)
def test_positions_beyond_the_claim_mean_what_the_kind_of_position_makes_of_them(name, text):
    model = read_model(name)
    assert position_warning(model, model.max_positions) == ()
    assert position_warning(model, model.max_positions + 1)[0].startswith(text)


def test_late_layouts_are_ranked_by_how_many_sessions_they_save():
    job = ServeJob(sessions=9, context=131064, new_tokens=8, deadline=0.13)
    result = plan_serve(read_model("Qwen/Qwen3-32B"), read_system("hgx-h100"), job, ServeOptions(all_reduce="ring"))
    late = [row.measures["on_time_count"] for row in result.candidates if row.fits]
    assert result.verdict.answer == "no"
    assert len(set(late)) > 1
    assert late == sorted(late, reverse=True)


def test_a_layout_too_large_names_the_smallest_instance_that_fits():
    job = ServeJob(sessions=4, context=131064, new_tokens=8)
    result = plan_serve(read_model("Qwen/Qwen3-32B"), read_system("hgx-h100"), job, ServeOptions())
    excluded = {row.id: row.excluded for row in result.candidates}["replicas=8,tp=1,pp=1"]
    assert excluded.limit == "capacity"
    assert excluded.nearest == "replicas=4,tp=2,pp=1"


def test_a_long_prompt_costs_the_same_however_the_experts_are_cut():
    result = plan_serve(read_model("Qwen/Qwen3-30B-A3B"), read_system("hgx-h100"), JOB, ServeOptions())
    rows = [row for row in result.candidates if row.layout["tp"] == 8]
    times = [row.measures["prefill_time_s"] for row in rows]
    assert {row.layout["ep"] for row in rows} == {1, 2, 4, 8}
    assert max(times) == pytest.approx(min(times), rel=1e-4)  # but for the first row's busiest group


@pytest.mark.parametrize(("name", "rate"), [("connectx-6", 25e9), ("connectx-7", 50e9), ("connectx-8", 100e9)])
def test_a_nic_s_bytes_are_an_eighth_of_its_bits(name, rate):
    assert read_link(name).bandwidth == rate


@pytest.mark.parametrize("name", ACCELERATORS.names())
def test_fp8_doubles_the_bf16_rate_where_there_is_one(name):
    peak = read_accelerator(name).peak
    assert "fp8" not in peak or peak["fp8"] == pytest.approx(2 * peak["bf16"], rel=0.02)  # L40S prints 362.05 and 733


def test_a_fault_that_names_a_part_twice_is_refused():
    with pytest.raises(MeshwrightError) as caught:
        read_fault("card=0,card=1,at=1ms,stall=1ms")
    assert caught.value.code == "JOB004"
