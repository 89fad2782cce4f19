"""`meshwright calibrate local` as a user meets it: the files of -o, plans on them, and what it refuses."""

from __future__ import annotations

import tomllib

import pytest

from meshwright.cli.commands import calibrate_local
from tests.ui.lines import arguments
from tests.ui.program import meshwright

_LINE = arguments("calibrate")
_JOB = ("--tokens", "1M", "--sequence", "64", "--global-batch", "16", "--recipe", "fp32-adamw", "--flips", "none")


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """The system file of a machine that was measured; its calibration lies beside it."""
    file = tmp_path_factory.mktemp("box") / "box.toml"
    found = meshwright(*_LINE, "--date", "2026-11-30", "-o", str(file))
    assert found.code == 0, found.err
    assert found.err.split() == ["wrote", str(file.with_suffix(".calibration.toml")), "wrote", str(file)]
    assert found.out.startswith("yes: 2 CPU processes")
    return file


def test_a_plan_of_training_and_a_fit_read_the_system_file(box):
    plan = meshwright("plan", "train", "tiny-qwen3", "--on", str(box), *_JOB, "--format", "json").answer
    assert plan["best"]["layout"]["schedule"] in {None, "one_f_one_b"} or plan["best"]["layout"]["pp"] > 1
    assert {fact["basis"] for fact in plan["inputs"]["system"]["facts"]["facts"]} == {"calibrated"}
    assert [source["key"] for source in plan["sources"] if source["key"] == "local"] == ["local"]
    assert meshwright("fit", "tiny-qwen3", "--on", str(box), "--context", "1K").code == 0


_RUN = ("verify", "run", "--layout", "tp=2", "--global-batch", "2", "--sequence", "16", "--steps", "1")


def test_a_run_stands_beside_the_step_that_the_calibration_foresees(box):
    given = ("--calibration", str(box.with_suffix(".calibration.toml")))
    times = meshwright(*_RUN, *given, "--format", "json").answer["times"]
    assert 0 < times["predicted_low_s"] <= times["predicted_step_s"] <= times["predicted_high_s"]
    assert times["predicted_bubble_fraction"] == 0, "one stage waits for nobody"
    assert times["reason"] is None
    assert "\npredicted: " in meshwright(*_RUN, *given).out
    half = meshwright(*_RUN, *given, "--recipe", "fsdp2-adamw", "--format", "json").answer["times"]
    assert half["predicted_step_s"] is None
    assert "float32" in half["reason"]


def test_a_system_file_is_no_calibration_and_a_calibration_is_of_its_processes(box):
    assert "error[RUN037]" in meshwright(*_RUN, "--calibration", str(box)).err
    assert "error[IO010]" in meshwright(*_RUN, "--calibration", str(box.parent / "none.toml")).err
    line = ("verify", "run", "--layout", "dp_shard=4", "--calibration", str(box.with_suffix(".calibration.toml")))
    assert "error[RUN035]" in meshwright(*line).err


def test_the_two_files_are_not_mixed_and_both_have_the_date(box):
    system = tomllib.loads(box.read_text())
    calibration = tomllib.loads(box.with_suffix(".calibration.toml").read_text())
    assert not {"exchange", "rate", "overhead", "overlap", "waiting"} & set(system)
    assert {"exchange", "rate", "overhead", "overlap", "waiting"} <= set(calibration)
    assert (calibration["date"], system["sources"]["local"]["read"]) == ("2026-11-30", "2026-11-30")


def test_nothing_but_the_two_files_is_left_in_the_folder(box):
    assert sorted(file.name for file in box.parent.iterdir()) == ["box.calibration.toml", "box.toml"]


def test_any_other_name_takes_the_answer(tmp_path):
    file = tmp_path / "answer.md"
    assert meshwright(*_LINE, "--format", "md", "-o", str(file)).out == ""
    assert file.read_text().startswith("yes: ")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("RUN031", ("--nproc", "1")),
        ("RUN031", ("--nproc", "4", "--groups", "3")),
        ("RUN031", ("--nproc", "4", "--groups", "2", "-o", "box.toml")),
        ("RUN035", ("--nproc", "2", "--check", "dp_shard=4")),
        ("RUN036", ("--nproc", "4", "--groups", "2", "--check", "tp=4")),
        ("RUN007", ("--nproc", "2", "--check", "dp_shard=2", "--global-batch", "3")),
        ("LAY001", ("--check", "gone=2")),
        ("MOD001", ("--check", "dp_shard=2", "--model", "gone")),
        ("IO036", ("--date", "yesterday")),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_runs(code, words):
    found = meshwright("calibrate", "local", "--quick", *words)
    assert found.code == 2
    assert found.err.startswith(f"error[{code}]: ")
    assert "\nfix: " in found.err


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(calibrate_local, "find_spec", lambda name: None)
    found = meshwright("calibrate", "local")
    assert found.err.startswith("error[RUN001]: ")
    assert "meshwright[torch]" in found.err
