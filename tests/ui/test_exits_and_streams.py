"""Exit codes, what stands on stdout and on stderr, files written, and ends that are nobody's wish."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from meshwright.base.errors import FileError
from meshwright.cli import main, show
from tests.ui.program import CODED, ROOT, meshwright

_INSPECT = ("inspect", "Qwen/Qwen3-8B")
_PROGRAM = (sys.executable, "-m", "meshwright")


def environment(**more):
    """Our own, with the source tree on the path and nothing that a user's shell would not have."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), **more}


def names_in(folder):
    return sorted(file.name for file in folder.iterdir())


# ------------------------------------------------------------------------------------------------------------ exits


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (_INSPECT, 0),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100"), 0),
        (("fit", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100"), 1),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--tp", "12"), 2),
        (("--help",), 0),
        (("--version",), 0),
        ((), 0),
        (("train",), 2),
    ],
)
def test_the_exit_code_is_the_answer(line, code):
    assert meshwright(*line).code == code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (("inspect", "Qwen/Qwen3-3B"), "MOD001"),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h10"), "SYS001"),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100 x0"), "SYS006"),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100 x2", "--set", "system.nics_per_node=0"), "SYS007"),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100,hgx-h200"), "SYS010"),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--tp", "12"), "LAY003"),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--tp", "16"), "LAY002"),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--workspace", "2"), "IO002"),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--context", "1M"), "IO002"),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--sessions", "3"), "JOB001"),
        (("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--context", "70368744177664"), "JOB001"),
        (("inspect", "Qwen/Qwen3-8B", "--batch", "0"), "JOB001"),
        (("inspect", "Qwen/Qwen3-8B", "--set", "model.hidden=-5"), "MOD014"),
        (("inspect", "Qwen/Qwen3-8B", "--set", "model.gone=5"), "IO014"),
        (("inspect", "Qwen/Qwen3-8B", "--set", "system.nodes=5"), "IO032"),
        (("inspect", "Qwen/Qwen3-8B", "--weights", "int3"), "MOD020"),
        (("inspect",), "IO030"),
        (("study", "run", "gone"), "IO020"),
        (("study", "run", "read-time", "--set", "gone=5"), "IO021"),
        (("study", "run", "read-time", "--set", "rate_bytes_per_s=0B/s"), "IO023"),
    ],
)
@pytest.mark.parametrize("style", ["human", "json", "md", "csv"])
def test_bad_input_is_a_coded_message_with_its_cause_and_a_fix(line, code, style):
    found = meshwright(*line, "--format", style)
    assert found.code == 2
    assert found.err.startswith(f"error[{code}]: ")
    assert CODED.search(found.err)
    assert "\nfix: " in found.err
    if style != "json":
        assert found.out == ""
        return
    answer = found.answer
    assert set(answer) == {"schema_version", "error"}
    assert set(answer["error"]) == {"code", "message", "cause", "fix"}
    assert answer["error"]["code"] == code
    assert answer["error"]["message"] == f"error[{code}]: {answer['error']['cause']}"
    assert found.err == f"{answer['error']['message']}\nfix: {answer['error']['fix']}\n"


def test_the_fix_of_a_broken_rule_is_an_option_that_mends_it():
    line = ("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--tp", "12", "--format", "json")
    fix = meshwright(*line).answer["error"]["fix"]
    assert fix.startswith("--layout ")
    assert meshwright(*line, *fix.split()).code == 0


def test_an_unknown_model_names_the_nearest_known():
    assert "Qwen/Qwen3-32B" in meshwright("inspect", "qwen/qwen3-32b").err


@pytest.mark.parametrize("style", [("--format", "json"), ("--format=json",), ("--format", "human", "--format", "json")])
def test_a_line_that_cannot_be_parsed_still_fails_in_the_format_it_asked_for(style):
    found = meshwright("fit", "--gone", *style)
    assert found.code == 2
    assert found.answer["error"]["code"] == "IO030"


def test_the_last_format_counts():
    found = meshwright("fit", "--gone", "--format", "json", "--format", "human")
    assert found.code == 2
    assert found.out == ""


# ---------------------------------------------------------------------------------------------------------- streams


@pytest.mark.parametrize("style", ["human", "json", "md", "csv"])
def test_an_answer_leaves_stderr_empty(style):
    found = meshwright(*_INSPECT, "--format", style)
    assert found.err == ""
    assert found.out.endswith("\n")


def test_quiet_is_the_verdict_alone():
    whole, quiet = meshwright(*_INSPECT), meshwright(*_INSPECT, "-q")
    assert quiet.out == whole.out.splitlines()[0] + "\n"


@pytest.mark.parametrize("style", ["human", "json", "md", "csv"])
def test_verbose_logs_to_stderr_and_leaves_stdout_as_it_is(style):
    plain, verbose = meshwright(*_INSPECT, "--format", style), meshwright(*_INSPECT, "--format", style, "-v")
    assert verbose.out == plain.out
    assert "Qwen/Qwen3-8B" in verbose.err
    assert meshwright(*_INSPECT).err == ""


def test_seed_changes_nothing_that_draws_no_number():
    assert meshwright(*_INSPECT, "--seed", "7").out == meshwright(*_INSPECT).out


def test_what_stdout_cannot_spell_is_replaced():
    line = (*_PROGRAM, "fit", "Qwen/Qwen3-8B", "--on", "hgx-h100")
    done = subprocess.run(line, env=environment(PYTHONIOENCODING="latin-1"), capture_output=True, check=False)
    assert done.returncode == 0
    assert done.stderr == b""
    assert b"weights    #" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="pipes of Windows break otherwise")
@pytest.mark.parametrize(("deadline", "code"), [("10s", 0), ("1us", 1)])
def test_a_reader_that_leaves_early_changes_neither_exit_nor_stderr(deadline, code):
    line = (*_PROGRAM, "plan", "serve", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--sessions", "1000", "--context", "1K")
    reader, writer = os.pipe()
    process = subprocess.Popen(
        (*line, "--new-tokens", "8", "--deadline", deadline, "--format", "json"),
        env=environment(), stdout=writer, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(writer)
    assert os.read(reader, 1) == b"{"
    os.close(reader)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_stdout_is_a_coded_message():
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            (*_PROGRAM, *_INSPECT, "--format", "json"),
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith(b"error[IO035]: ")
    assert done.stderr.count(b"\n") == 2


# ------------------------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("style", ["human", "json", "md", "csv"])
def test_an_answer_goes_to_a_file_as_it_would_to_stdout(tmp_path, style):
    file = tmp_path / "answer"
    found = meshwright(*_INSPECT, "--format", style, "-o", str(file))
    assert (found.code, found.out) == (0, "")
    assert found.err == f"wrote {file}\n"
    assert file.read_bytes().decode("utf-8") == meshwright(*_INSPECT, "--format", style).out
    assert names_in(tmp_path) == ["answer"]


def test_quiet_says_nothing_of_a_written_file(tmp_path):
    assert meshwright(*_INSPECT, "-q", "-o", str(tmp_path / "answer")).err == ""


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_a_written_file_has_the_mode_of_any_new_file(tmp_path):
    (tmp_path / "other").write_text("", encoding="utf-8")
    meshwright(*_INSPECT, "-o", str(tmp_path / "answer"))
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("answer", "other")}
    assert len(modes) == 1


def test_a_no_is_written_too_and_stays_a_no(tmp_path):
    file = tmp_path / "answer.json"
    line = ("fit", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100", "--format", "json", "-o", str(file))
    assert meshwright(*line).code == 1
    assert json.loads(file.read_text(encoding="utf-8"))["verdict"]["answer"] == "no"


def test_bad_input_leaves_an_old_file_as_it_was(tmp_path):
    file = tmp_path / "answer"
    file.write_text("old", encoding="utf-8")
    assert meshwright("inspect", "gone", "-o", str(file)).code == 2
    assert file.read_text(encoding="utf-8") == "old"
    assert names_in(tmp_path) == ["answer"]


@pytest.mark.parametrize("fails", ["write_bytes", "replace"])
@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, fails, problem):
    file = tmp_path / "answer"
    file.write_text("old", encoding="utf-8")
    done = getattr(Path, fails)

    def fail(self, *arguments, **options):
        if fails == "write_bytes":
            done(self, b"half")
        raise problem

    monkeypatch.setattr(Path, fails, fail)
    found = meshwright(*_INSPECT, "-o", str(file))
    monkeypatch.undo()
    assert found.code == (2 if isinstance(problem, OSError) else 130)
    assert "error[IO033]" in found.err or found.code == 130
    assert file.read_text(encoding="utf-8") == "old"
    assert names_in(tmp_path) == ["answer"]


@pytest.mark.parametrize("place", ["gone/answer", ".", "", "a" * 300, "nul\x00"])
def test_a_place_that_cannot_be_written_is_a_coded_message(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    found = meshwright(*_INSPECT, "-o", place)
    assert found.code == 2
    assert found.err.startswith("error[IO033]: ")
    assert names_in(tmp_path) == []


def test_a_folder_that_is_missing_is_told_before_the_work(monkeypatch, tmp_path):
    looked = []
    monkeypatch.setattr("meshwright.cli.commands.inspect.model_of", lambda *given: looked.append(given))
    assert meshwright(*_INSPECT, "-o", str(tmp_path / "gone" / "answer")).code == 2
    assert not looked


@pytest.mark.skipif(os.name == "nt", reason="a shell closes it")
@pytest.mark.parametrize(("closed", "code"), [(">&-", 2), ("2>&-", 0)])
def test_a_closed_stream_is_no_bug(closed, code):
    line = " ".join((*_PROGRAM, *_INSPECT, "-q", closed))
    found = subprocess.run(["sh", "-c", line], env=environment(), capture_output=True, text=True, check=False)
    assert found.returncode == code, found.stderr
    assert "error[BUG]" not in found.stderr
    assert code == 0 or "error[IO035]" in found.stderr


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_a_link_still_points_at_the_file_that_was_written(tmp_path):
    (tmp_path / "real").write_text("old", encoding="utf-8")
    (tmp_path / "link").symlink_to("real")
    assert meshwright(*_INSPECT, "-q", "-o", str(tmp_path / "link")).code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text(encoding="utf-8").startswith("yes: ")


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="there is no such device")
def test_a_device_is_written_to_and_not_replaced(tmp_path):
    place = tmp_path / "null"
    place.symlink_to("/dev/null")
    assert meshwright(*_INSPECT, "-q", "-o", str(place)).code == 0
    assert Path("/dev/null").is_char_device()
    assert place.is_symlink()


# -------------------------------------------------------------------------------------------------- nobody's wishes


def break_with(monkeypatch, problem):
    def broken(*arguments, **options):
        raise problem

    monkeypatch.setattr(show, "as_json", broken)


def test_an_interrupt_is_130(monkeypatch):
    break_with(monkeypatch, KeyboardInterrupt())
    found = meshwright(*_INSPECT, "--format", "json")
    assert (found.code, found.out) == (130, "")
    assert "interrupted" in found.err
    assert "Traceback" not in found.err


@pytest.mark.parametrize("problem", [ZeroDivisionError("division by zero"), AssertionError("ours"), KeyError("x")])
def test_a_bug_is_101_and_one_coded_message(monkeypatch, problem):
    break_with(monkeypatch, problem)
    found = meshwright(*_INSPECT, "--format", "json")
    assert found.code == 101
    assert found.err.startswith(f"error[BUG]: {type(problem).__name__}")
    assert found.err.count("\n") == 2
    assert found.answer["error"]["code"] == "BUG"


def test_a_bug_under_verbose_shows_its_trace_before_the_message(monkeypatch):
    break_with(monkeypatch, ZeroDivisionError("division by zero"))
    found = meshwright(*_INSPECT, "--format", "json", "-v")
    assert found.code == 101
    assert found.err.index("Traceback") < found.err.index("error[BUG]")
    assert found.answer["error"]["code"] == "BUG"


@pytest.mark.parametrize("problem", [MemoryError(), RecursionError()])
def test_an_input_beyond_this_machine_is_bad_input(monkeypatch, problem):
    break_with(monkeypatch, problem)
    found = meshwright(*_INSPECT, "--format", "json")
    assert (found.code, found.answer["error"]["code"]) == (2, "IO031")


def test_a_number_that_json_does_not_have_is_our_bug(monkeypatch):
    monkeypatch.setattr(show, "as_json", lambda result: {"number": float("nan")})
    assert meshwright(*_INSPECT, "--format", "json").code == 101


def test_the_program_returns_what_it_exits_with():
    assert main.run(["inspect", "gone"]) == FileError.exit_code


def test_python_m_is_the_same_program():
    done = subprocess.run((*_PROGRAM, "--version"), env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == meshwright("--version").out


# --------------------------------------------------------------------------------------------- pictures of a schedule

_STEP = ("schedule", "--stages", "2", "--micro-batches", "2", "--forward", "1ms", "--backward", "2ms", "-q")


@pytest.mark.parametrize("pair", [("--svg", "--trace"), ("--svg", "-o"), ("--trace", "-o")])
def test_two_answers_are_not_written_to_one_file_and_what_it_holds_stays(pair, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("mine")
    found = meshwright(*_STEP, *(part for name in pair for part in (name, str(kept))))
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("error[IO037]: ")
    assert kept.read_text() == "mine"
    assert names_in(tmp_path) == ["kept"]


def test_the_picture_and_the_trace_are_written_beside_the_answer(tmp_path):
    found = meshwright(*_STEP, "--svg", str(tmp_path / "a.svg"), "--trace", str(tmp_path / "a.pftrace"))
    assert found.code == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg ")
    assert len((tmp_path / "a.pftrace").read_bytes()) > 100
    assert meshwright(*_STEP, "--svg", os.devnull, "--trace", os.devnull).code == 0


def test_a_picture_that_cannot_be_written_is_refused():
    found = meshwright(*_STEP, "--svg", "no/such/folder/a.svg")
    assert found.code == 2
    assert found.err.startswith("error[IO033]: ")


def test_a_step_too_long_for_a_trace_is_refused():
    found = meshwright(*_STEP, "--update", "1e12s", "--trace", os.devnull)
    assert found.code == 2
    assert found.err.startswith("error[IO051]: ")
