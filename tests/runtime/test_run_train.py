"""`meshwright run train` from the command line: an answer, a killed rank, Ctrl-C, torchrun, and that none is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from meshwright.runtime.loop.samples import SyntheticTokens  # noqa: E402
from meshwright.runtime.train import run_rank  # noqa: E402
from tests.runtime.processes import children_of, gone_within  # noqa: E402
from tests.ui.program import answer_of, meshwright  # noqa: E402

_RUN = ("run", "train", "--model", "tiny-qwen3", "--global-batch", "4", "--sequence", "8")
_ROOT = Path(__file__).resolve().parents[2]


def program(*arguments, launcher=()):
    """The program in a process of its own."""
    line = [sys.executable, *launcher, "-m", "meshwright", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=_ROOT)


@pytest.fixture(scope="module")
def answer():
    layout = "pp=2,dp_shard=2"
    return answer_of(*_RUN, "--layout", layout, "--schedule", "zero-bubble-h1", "--steps", "3", "--peak-flops", "1e12")


def test_a_run_answers_with_its_steps_and_how_fast_they_were(answer):
    assert answer["verdict"]["answer"] == "yes"
    assert [row["step"] for row in answer["steps"]] == [0, 1, 2]
    assert {row["tokens"] for row in answer["steps"]} == {4 * 8}
    assert (answer["ranks"], answer["processes"], answer["backend"]) == (4, 4, "gloo")
    assert (answer["schedule"], answer["micro_batches"]) == ("zero_bubble_h1", 2)
    second, third = (row["tokens_per_s"] for row in answer["steps"][1:])
    assert answer["tokens_per_s"] == pytest.approx((second + third) / 2)
    from meshwright import read_model
    from meshwright.cost.model_flops import flops_per_token

    flops = flops_per_token(read_model("tiny-qwen3"), 8)
    assert answer["mfu"] == pytest.approx(answer["tokens_per_s"] * flops / (4 * 1e12))


def test_what_nobody_said_is_told_and_the_inputs_are_complete(answer):
    assert {item["field"]: item["value"] for item in answer["defaulted"]} == {
        "layout.attention": "data_parallel",
        "layout.zero": 2,
    }
    inputs = answer["inputs"]
    assert inputs["layout"]["zero"] == 2
    assert inputs["job"]["formats"]["compute"] == "fp32"
    assert {name: inputs["job"][name] for name in ("steps", "lr", "clip", "seed", "ragged")} == {
        "steps": 3, "lr": 8e-4, "clip": 1.0, "seed": 0, "ragged": False,
    }  # fmt: skip
    assert inputs["options"]["arithmetic"]["norm_epsilon"] == 1e-6
    assert inputs["options"]["nproc"] == 4


def test_layouts_of_one_job_have_the_same_losses(answer):
    """The whole chain from the command line on: other processes, schedule and shards, the same training."""
    alone = answer_of(*_RUN, "--steps", "3")
    for one, other in zip(alone["steps"], answer["steps"], strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=2e-6)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=2e-5)


def test_a_schedule_of_two_orders_a_rank_runs_in_the_order_of_the_engine():
    both = answer_of(*_RUN, "--layout", "pp=2", "--schedule", "dualpipe_declared", "--steps", "1")
    alone = answer_of(*_RUN, "--steps", "1")
    assert both["steps"][0]["loss"] == pytest.approx(alone["steps"][0]["loss"], rel=2e-6)
    assert both["steps"][0]["gradient_norm"] == pytest.approx(alone["steps"][0]["gradient_norm"], rel=2e-5)


def test_products_in_bf16_are_near_and_not_equal():
    half = answer_of(*_RUN, "--layout", "dp_shard=2", "--recipe", "fsdp2-adamw", "--steps", "1")["steps"][0]
    whole = answer_of(*_RUN, "--layout", "dp_shard=2", "--steps", "1")["steps"][0]
    assert half["loss"] == pytest.approx(whole["loss"], rel=1e-2)
    assert half["loss"] != whole["loss"]


def test_a_loss_that_is_no_number_is_a_no():
    found = meshwright(*_RUN, "--lr", "1e30", "--clip", "1e30", "--steps", "3", "--format", "json")
    assert found.code == 1
    assert found.answer["verdict"]["text"].endswith("the loss or the gradient of step 1 is no number")
    assert found.answer["steps"][2]["gradient_norm"] is None


# ------------------------------------------------------------------------------------------------------ what goes wrong


def started(*arguments, ranks):
    """A long run, and the ids of its ranks once they all are there."""
    run = program(*_RUN, *arguments, "--steps", "1000000", "--format", "json")
    limit = time.monotonic() + 60
    while len(children_of(run.pid)) < ranks and time.monotonic() < limit:
        time.sleep(0.05)
    found = children_of(run.pid)
    if len(found) != ranks:
        run.kill()
    assert len(found) == ranks, run.communicate(timeout=60)
    time.sleep(3)  # into its steps
    return run, found


def test_a_rank_killed_while_it_trains_ends_the_run_and_is_named():
    run, ranks = started("--layout", "pp=2", ranks=2)
    os.kill(ranks[1], signal.SIGKILL)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 2
    error = json.loads(out)["error"]
    assert error["code"] == "RUN010"
    assert error["cause"].startswith("rank 1 (pp 1, dp_replicate 0, dp_shard 0, tp 0) was killed by SIGKILL in ")
    assert error["message"] in err
    assert gone_within(ranks, 10)


def test_ctrl_c_ends_every_rank():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    try:
        run, ranks = started("--layout", "tp=2", ranks=2)
    finally:
        signal.signal(signal.SIGINT, before)
    run.send_signal(signal.SIGINT)
    try:
        out, err = run.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        for number in (run.pid, *ranks):
            os.kill(number, signal.SIGKILL)
        raise
    assert (run.returncode, out) == (130, "")
    assert err.endswith("interrupted\n")
    assert gone_within(ranks, 10)


def hanging(member, question):
    """Rank 1 sleeps where it draws the first sample of step 2."""
    drawn = SyntheticTokens.sample

    def sample(self, index):
        if member.rank == 1 and index >= 2 * question.job.global_batch:
            time.sleep(600)
        return drawn(self, index)

    SyntheticTokens.sample = sample  # in the process of this rank alone
    return run_rank(member, question)


def test_a_rank_that_hangs_in_step_two_is_named_with_its_stage_and_the_message_that_is_missing(monkeypatch):
    from meshwright.runtime import train

    monkeypatch.setattr(train, "run_rank", hanging)
    before = set(children_of(os.getpid()))
    found = meshwright(*_RUN, "--layout", "pp=2", "--steps", "9", "--timeout", "4s")
    assert (found.code, found.out) == (2, "")
    line = next(text for text in found.err.splitlines() if text.startswith("error["))
    assert line.startswith(
        "error[RUN011]: rank 1 (pp 1, dp_replicate 0, dp_shard 0, tp 0) stood still for 4 s in step 2; "
    )
    assert "rank 0 (pp 0, dp_replicate 0, dp_shard 0, tp 0) waited for it in " in line
    assert "(step 2, " in line
    assert set(children_of(os.getpid())) <= before


# ------------------------------------------------------------------------------------------------------------- torchrun


def test_under_torchrun_ranks_join_and_rank_0_alone_answers(answer):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4")
    layout = ("--layout", "pp=2,dp_shard=2", "--schedule", "zero_bubble_h1")
    run = program(*_RUN, *layout, "--steps", "2", "--format", "json", launcher=launcher)
    out, err = run.communicate(timeout=95)
    assert run.returncode == 0, err
    found = json.loads(out)
    assert [row["loss"] for row in found["steps"]] == [row["loss"] for row in answer["steps"][:2]]
