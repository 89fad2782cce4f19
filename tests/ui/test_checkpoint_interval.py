"""`meshwright checkpoint interval` as a user meets it: the chapter's job, its picture, and what it refuses."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.ui.program import answer_of, meshwright

LINE = (
    *("checkpoint", "interval", "--size", "114670295040B", "--write", "7GB/s", "--devices", "1024"),
    *("--job-mtbf", "7.9h", "--restart", "120s"),
)


def test_the_chapters_job_is_answered_in_its_first_line():
    """Chapter "Training systems", section 10.4.4: 965.29 s by first order, 954.40 s by Poisson retry."""
    found = meshwright(*LINE)
    assert found.code == 0
    assert found.out.startswith("yes: save every 954.40 s (first order 965.29 s): 3.91% on top of useful time;")


def test_the_picture_has_its_shortest_bar_at_the_best_interval():
    lines = [line for line in meshwright(*LINE).out.splitlines() if "█" in line]
    lengths = [line.count("█") for line in lines]
    assert len(lines) == 9
    best = next(number for number, line in enumerate(lines) if line.endswith("  best"))
    assert lengths[best] == min(lengths)
    assert "954.40 s" in lines[best]
    assert max(lengths) == 36


def test_the_table_is_the_chapters():
    out = meshwright(*LINE).out
    assert re.search(r"^300s +300\.00 s +5\.46% +0\.53% +0\.42% +6\.41% ", out, re.MULTILINE)
    assert re.search(r"^900s +900\.00 s +1\.82% +1\.58% +0\.42% +3\.82% ", out, re.MULTILINE)
    assert re.search(r"^1800s +1,800\.0 s +0\.91% +3\.16% +0\.42% +4\.50% ", out, re.MULTILINE)


def test_the_seed_moves_the_drawn_runs_alone():
    first, other = (answer_of(*LINE, "--seed", seed) for seed in ("0", "1"))
    changed = {name for name in first if first[name] != other[name]}
    assert changed - {"verdict"} == {"simulated", "inputs", "basis"}


def test_every_number_says_its_basis():
    answer = answer_of(*LINE)
    assert answer["basis"]["simulated[]"] == "simulated: 1000 runs from seed 0"
    assert {"first_order", "retry", "intervals[]", "curve[]", "flat", "save_s"} <= set(answer["basis"])


def test_the_next_command_shows_the_saves_at_the_best_interval():
    answer = answer_of(*LINE, "--mode", "async", "--copy", "2s")
    (command,) = answer["next_commands"]
    found = answer_of(*shlex.split(command)[1:])
    assert found["keeps_up"]
    assert found["stall_s"] == 4 * answer["stall_s"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("--size", "0B"), "CKP001"),
        (("--model", "tiny-qwen3"), "CKP006"),
        (("--job-mtbf", "0s"), "CKP007"),
        (("--card-mtbf", "337d"), "CKP007"),
        (("--intervals", "10s"), "CKP008"),
        (("--intervals", "40d"), "CKP009"),
        (("--intervals", "ten"), "IO001"),
        (("--restart", "120"), "IO002"),
        (("--mode", "later"), "IO030"),
        (("--devices", "0"), "JOB001"),
    ],
)
def test_bad_input_is_coded(change, code):
    found = meshwright(*LINE, *change)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"error[{code}]: ")
    assert "\nfix: " in found.err
