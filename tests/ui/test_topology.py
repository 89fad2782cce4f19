"""The command `topology`: what cannot act is refused, and a spec that is misspelled is told as a spec."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of, meshwright


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (("torus:4x4", "--algorithm", "ring"), "IO036"),
        (("torus:4x4", "--bytes", "1MB"), "IO036"),
        (("torus:4x4", "--destinations", "others"), "IO036"),
        (("torus:4x4", "--load", "all_to_all", "--algorithm", "direct", "--destinations", "all"), "IO036"),
        (("hgx-h100", "--port", "5GB/s"), "IO036"),
        (("torus:4x4", "--load", "everything"), "COL017"),
        (("toruss:4x4",), "SYS020"),
        (("torus:4x4,port=400Gb/s",), "IO002"),
    ],
)
def test_what_cannot_act_is_refused(line, code):
    found = meshwright("topology", *line)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"error[{code}]: ")
    assert "\nfix: " in found.err


NETWORK = "leaf-spine:leaves=4,down=8,up=8,routing=ecmp"
LOAD = ("--load", "all_to_all", "--bytes", "32MiB")
TIME = ("collective", "time", "all_to_all", "--bytes", "32MiB", "--algorithm", "one_shot", "-q", "--on")


def test_the_seed_moves_the_flows_that_take_a_path_by_their_hash():
    topology = [meshwright("topology", NETWORK, *LOAD, "-q", "--seed", seed).out for seed in ("0", "1")]
    time = [meshwright(*TIME, NETWORK, "--seed", seed).out for seed in ("0", "1")]
    assert topology[0] != topology[1]
    assert time[0] != time[1]
    assert meshwright(*TIME, f"{NETWORK},seed=1", "--seed", "0").out == time[1].replace(NETWORK, f"{NETWORK},seed=1")
    boxes = ("hgx-h100 x8", "--set", "system.topology.scale_out=rail-optimised:group=4,radix=16,routing=ecmp")
    first, second = (meshwright(*TIME, *boxes, "--seed", seed).out for seed in ("0", "1"))
    assert first != second


def test_copies_of_attention_merge_unless_they_are_said_to_serve_one_request():
    line = ("collective", "time", "all_reduce", "--bytes", "16KiB", "--on", "hgx-h100", "--algorithm", "ring")
    merging, alike = (
        {merge["axis"] for merge in answer_of(*line, "--layout", f"tp=2,dp_replicate=4{more}")["merges"]}
        for more in ("", ",attention=replicated")
    )
    assert (merging, alike) == ({"dp_replicate", "tp"}, {"tp"})


def test_a_size_that_is_none_is_told_by_its_flag():
    found = meshwright("collective", "time", "all_reduce", "--bytes", "-5KiB", "--on", "hgx-h100")
    assert found.err.startswith("error[IO003]: --bytes: '-5KiB' is out of range\n")


def test_an_operation_may_be_written_with_a_dash():
    assert "all_to_all of 1.00 MB" in meshwright("topology", "torus:4x4", "--load", "all-to-all").out
