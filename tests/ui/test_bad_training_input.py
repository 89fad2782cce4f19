"""Training plans that cannot be asked: a code, a cause, and what works instead; never a trace."""

from __future__ import annotations

import shlex
from functools import cache

import pytest

from tests.ui.program import CODED, answer_of, drawn, meshwright

_JOB = ("--tokens", "1B", "--sequence", "1K", "--global-batch", "384")
_TINY = ("plan", "train", "tiny-qwen3", "--on", "hgx-h100", *_JOB)
_LINES = {
    "a micro-batch that divides no share": ("--layout micro_batch=5", "LAY033", "micro_batch=4"),
    "a micro-batch on given copies": ("--layout dp_shard=8,micro_batch=5", "LAY033", "micro_batch=4"),
    "micro-batches that a schedule cannot take": (
        "--layout pp=4,tp=2,schedule=interleaved,virtual_stages=1,micro_batch=64",
        "SCH001",
        "micro_batch=48",
    ),
    "more virtual stages than layers": ("--layout pp=2,schedule=interleaved,virtual_stages=50", "LAY037", "fewer"),
    "more stages than two layers each": ("--layout pp=8,tp=1,schedule=interleaved", "LAY037", "fewer of pp"),
    "a schedule in two pieces": ("--layout pp=4,schedule=zero_bubble_v", "LAY037", "pp=2"),
    "virtual stages of another schedule": (
        "--layout pp=2,schedule=one_f_one_b,virtual_stages=2",
        "LAY037",
        "schedule=interleaved,virtual_stages=2",
    ),
    "virtual stages without a schedule": ("--layout virtual_stages=3", "LAY037", "schedule=interleaved"),
    "a schedule without stages": ("--layout pp=1,schedule=one_f_one_b", "LAY037", "leave schedule out"),
    "experts of a dense model": ("--layout ep=2,pp=1,tp=1", "LAY008", "ep=1"),
    "experts cut of a dense model": ("--layout etp=2,pp=1,tp=1", "LAY008", "etp=1"),
    "replicas": ("--layout replicas=2", "LAY012", "leave replicas out"),
    "the same samples in every group": ("--layout attention=replicated", "LAY012", "leave attention out"),
    "a field that no layout has": ("--layout gone=2", "LAY001", "known: "),
    "a mesh of other devices": ("--layout dp_shard=7", "LAY002", "the other fields as they are"),
    "an unknown policy": ("--layout recompute=gone", "LAY030", "did you mean"),
    "an unknown schedule": ("--layout schedule=gone,pp=2", "SCH003", "did you mean"),
    "an unknown offload": ("--layout offload=gone", "LAY035", "none"),
    "an unknown recipe": ("--recipe gone", "JOB040", "bf16-adamw"),
    "a deadline of zero": ("--deadline 0s", "JOB002", "30d"),
    "a deadline in the past": ("--deadline -1d", "IO003", "not negative"),
    "planned stops as long as the deadline": ("--deadline 5d --reserve 5d", "JOB020", "above 5d"),
    "planned stops beyond the deadline": ("--deadline 2d --reserve 5d", "JOB020", "above 5d"),
    "no tokens": ("--set job.tokens=0", "JOB001", "1"),
    "no sequences": ("--set job.global_batch=0", "JOB001", "1"),
    "an efficiency that is no number": ("--efficiency nan", "IO001", "number"),
    "an efficiency of zero": ("--efficiency 0%", "JOB021", "above zero"),
    "an efficiency above one": ("--efficiency 140%", "IO002", "75%"),
    "a price that is no number": ("--price nan", "JOB021", "from 0 on"),
    "a price below zero": ("--price -1", "JOB021", "from 0 on"),
    "a price of a system below zero": ("--set system.device_price=-1", "SYS012", "0 or more"),
    "a rate that is no number": ("--prep-workers 4 --prep-rate nan", "JOB021", "above zero"),
    "nobody who prepares": ("--prep-workers 0 --prep-rate 1", "JOB021", "above zero"),
    "workers without a rate": ("--prep-workers 4", "JOB021", "give both"),
    "input said twice": ("--input-wait 1s --prep-workers 4 --prep-rate 2", "JOB021", "give one"),
    "failures said twice": ("--job-mtbf 1h --card-mtbf 3d", "JOB021", "give one"),
    "devices that always fail": ("--card-mtbf 0s", "JOB021", "above zero"),
    "a job that always fails": ("--job-mtbf 0s", "JOB021", "above zero"),
    "a save that never ends": ("--storage-write 0B/s", "JOB021", "above zero"),
    "spikes all the time": ("--spike-interval 0s", "JOB021", "above zero"),
    "no memory": ("--usable-memory 0B", "JOB021", "above zero"),
    "more memory than there is": ("--usable-memory 1000GiB", "JOB027", "85899345920B"),
    "the cheapest of no prices": ("--objective cost", "JOB026", "--price"),
    "a price beyond any": ("--price 1e308", "JOB021", "from 0 on"),
    "a rate of nothing": ("--prep-workers 1 --prep-rate 1e-300", "JOB021", "above zero"),
    "a budget beyond any device": ("--activation-budget 1e40GiB", "JOB021", "at most"),
    "a workspace beyond any device": ("--workspace 1e40GiB", "JOB021", "at most"),
    "a group of layers that the model does not have": ("--set model.groups[7].count=2", "IO014", "known: 0"),
    "a group without layers": ("--set model.groups.0.count=0", "MOD014", "from 1"),
    "heads that its KV heads do not divide": ("--set model.groups.0.block.mixer.heads=3", "MOD007", "go together"),
    "a recipe by its name where a field is set": ("--set job.recipe=bf16-lora", "IO013", "name a field"),
    "a system twice": ("--on hgx-h100,hgx-h100", "SYS013", "once"),
    "a system twice, written otherwise": ("--on hgx-h100x1,hgx-h100", "SYS013", "once"),
    "a field of two values": ("--layout tp=2,tp=4", "LAY001", "tp=4"),
    "a field of no value": ("--layout schedule", "LAY001", "schedule=one_f_one_b"),
    "a degree that is no number": ("--layout tp=two", "IO013", "give a valid integer"),
    "tokens that are no number": ("--set job.tokens=many", "IO001", "as in 100B"),
    "memory that is no number": ("--usable-memory nan", "IO001", "as in 2GiB"),
    "a restart longer than any run lasts": ("--job-mtbf 1h --restart 30d", "JOB023", "--restart"),
}


@cache
def refused(name):
    return meshwright(*_TINY, *_LINES[name][0].split(), "--format", "json")


@pytest.mark.parametrize("name", _LINES)
def test_what_cannot_be_asked_is_refused_with_a_code_and_what_works(name):
    _, code, fix = _LINES[name]
    found = refused(name)
    assert found.code == 2, found.err
    assert found.answer["error"]["code"] == code
    assert fix in found.answer["error"]["fix"]
    assert CODED.search(found.err)
    assert "Traceback" not in found.err


@pytest.mark.parametrize("name", [name for name, (_, _, fix) in _LINES.items() if "=" in fix])
def test_a_fix_that_is_an_option_mends_the_line(name):
    words, _, _ = _LINES[name]
    fix = refused(name).answer["error"]["fix"]
    if not fix.startswith("--layout "):
        return
    named = dict(pair.split("=") for pair in words.removeprefix("--layout ").split(","))
    named |= dict(pair.split("=") for pair in fix.removeprefix("--layout ").split(","))
    line = ",".join(f"{key}={value}" for key, value in named.items())
    assert drawn(*_TINY, "--flips", "none", "--layout", line).code in {0, 1}


def test_a_batch_that_no_copies_divide_names_the_next_that_they_do():
    line = (*_TINY[:-1], "7", "--layout", "tp=1,pp=1,cp=1")
    found = meshwright(*line, "--format", "json").answer["error"]
    assert (found["code"], found["fix"]) == ("LAY032", "--global-batch 8")
    assert meshwright(*line, *found["fix"].split()).code == 0


def test_a_cluster_too_small_for_the_state_is_a_no_with_the_boxes_that_hold_it():
    line = ("plan", "train", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100", *_JOB, "--layout", "tp=8,cp=1,zero=3")
    answer = answer_of(*line, code=1)
    assert answer["verdict"]["answer"] == "no"
    assert answer["candidates"][0]["excluded"]["code"] == "LAY020"
    assert answer["binding"]["limit"] == "memory"
    boxes = answer["systems"][0]["least_boxes"]
    command = answer["next_commands"][0]
    assert f"hgx-h100 x{boxes}" in command
    assert answer_of(*shlex.split(command)[1:])["best"]["fits"]


def test_a_cluster_that_cannot_grow_names_no_boxes(tmp_path):
    lonely = tmp_path / "lonely.toml"
    lonely.write_text(
        'name = "One box"\naccelerator = "h100-sxm"\nnodes = 1\ndevices_per_node = 8\nscale_up = "nvlink4"\n',
        encoding="utf-8",
    )
    line = ("plan", "train", "Qwen/Qwen3-235B-A22B", "--on", str(lonely), *_JOB, "--layout", "tp=8,cp=1,zero=3")
    answer = answer_of(*line, code=1)
    assert answer["systems"][0]["least_boxes"] is None
    assert answer["next_commands"] == []


# -------------------------------------------------------------------------------------- an efficiency counted twice

_CARDS = ("plan", "train", "Qwen/Qwen3-8B", "--on", "rtx4090-host x6", "--tokens", "100B", "--sequence", "8K")
_RATE = ("--global-batch", "384", "--layout", "zero=3,tp=1,pp=1,cp=1,dp_replicate=1", "--activation-budget", "10GiB")
_HELD = "already holds communication, bubble and waits"


def test_communication_added_to_an_efficiency_of_model_flops_is_said():
    answer = answer_of(*_CARDS, *_RATE, "--efficiency", "40%", "--input-wait", "0.5s")
    step = answer["best"]["step"]
    added = step["exposed_comm_s"] + step["bubble_s"] + step["input_wait_s"]
    (note,) = [line for line in answer["notes"] if _HELD in line]
    assert f"({added / step['total_s']:.1%})" in note
    assert "late rather than early" in note


@pytest.mark.parametrize("rate", [("--efficiency", "40%", "--efficiency-kind", "compute"), ()])
def test_an_efficiency_of_computation_and_a_roofline_hold_nothing_twice(rate):
    assert not [line for line in answer_of(*_CARDS, *_RATE, *rate)["notes"] if _HELD in line]


def test_a_plan_without_an_efficiency_is_said_to_be_a_lower_bound():
    bound = "lower bounds"
    assert [line for line in answer_of(*_TINY, "--flips", "none")["notes"] if bound in line]
    assert not [line for line in answer_of(*_TINY, "--flips", "none", "--efficiency", "40%")["notes"] if bound in line]


def test_an_efficiency_that_no_device_reaches_is_said_to_be_one():
    rate = ("--efficiency", "40%", "--flips", "none", "--layout", "tp=1,pp=1", "--global-batch", "384")
    for deadline, beyond in (("1d", True), ("40d", False)):
        found = meshwright(*_CARDS, *rate, "--deadline", deadline)
        assert ("more than the peak" in found.out) == beyond


def test_a_model_whose_kept_activations_nobody_knows_is_refused_with_what_takes_it():
    found = meshwright("plan", "train", "deepseek-ai/DeepSeek-V4-Flash", "--on", "hgx-h100", *_JOB, "--format", "json")
    error = found.answer["error"]
    assert (found.code, error["code"]) == (2, "MOD030")
    assert "no published kernel says" in error["cause"]
    assert "plan serve" in error["fix"]
