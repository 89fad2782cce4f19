"""What a person reads: the verdict first, then the bars, then the tables, then the next command to type."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import meshwright
from meshwright.output.tables import as_text
from tests.ui.program import answer_of, drawn
from tests.ui.program import meshwright as run

_PLAN = ("plan", "serve", "Qwen/Qwen3-32B", "--on", "hgx-h100", "--sessions", "4", "--context", "131064")
_FOUR = (*_PLAN, "--new-tokens", "8", "--deadline", "130ms", "--on-time", "75%", "--all-reduce", "ring")
_MIXTURE = ("plan", "serve", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100 x2", "--sessions", "2", "--context", "8K")
_TOO_LARGE = (
    "plan",
    "serve",
    "meta-llama/Llama-3.1-405B",
    "--on",
    "rtx4090-host",
    "--sessions",
    "1",
    "--context",
    "1K",
)
_BATCHES = (*_PLAN[:5], "--sessions", "64", "--context", "8K", "--new-tokens", "256")
_TRAIN = ("plan", "train", "Qwen/Qwen3-8B", "--tokens", "100B", "--sequence", "8K", "--global-batch", "384")
_CARDS = (
    *(
        "--deadline",
        "30d",
        "--reserve",
        "5d",
        "--efficiency",
        "40%",
        "--input-wait",
        "0.5s",
        "--usable-memory",
        "22GiB",
    ),
    *("--activation-budget", "10GiB", "--card-mtbf", "337.07d", "--storage-write", "7GB/s"),
    *("--layout", "zero=3,micro_batch=1,tp=1,cp=1,pp=1,dp_replicate=1"),
)
_MIXTURE_TRAIN = ("plan", "train", "Qwen/Qwen3-235B-A22B", *_TRAIN[3:], "--on", "hgx-h100")
_LINES = {
    "inspect": ("inspect", "Qwen/Qwen3-30B-A3B"),
    "fit": ("fit", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100", "--tp", "8", "--context", "8192"),
    "fit, no": ("fit", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100"),
    "plan": _FOUR,
    "plan, late": (*_PLAN, "--new-tokens", "8", "--deadline", "1ms"),
    "plan, too large": (*_TOO_LARGE, "--new-tokens", "8"),
    "plan, mixture": (*_MIXTURE, "--new-tokens", "8"),
    "plan, batches": (*_BATCHES, "--tpot", "30ms"),
    "plan, batches, no": (*_BATCHES, "--concurrency", "64", "--tpot", "1ms"),
    "plan, training": (*_TRAIN, "--on", "rtx4090-host x6", *_CARDS),
    "plan, training, late": (*_TRAIN, "--on", "rtx4090-host x4", *_CARDS),
    "plan, training, systems": (*_TRAIN, "--on", "rtx4090-host x4,rtx4090-host x6", *_CARDS),
    "plan, training, too large": (*_MIXTURE_TRAIN, "--layout", "tp=8,cp=1,zero=3"),
    "interval": (
        *("checkpoint", "interval", "--size", "112GB", "--write", "7GB/s", "--job-mtbf", "7.9h", "--restart", "120s"),
    ),
    "run": (*("run", "train", "--model", "tiny-qwen3", "--steps", "2", "--global-batch", "2", "--sequence", "8"),),
    "list models": ("list", "models"),
    "list systems": ("list", "systems"),
    "list accelerators": ("list", "accelerators"),
    "list links": ("list", "links"),
    "list collectives": ("list", "collectives"),
    "study list": ("study", "list"),
    "study run": ("study", "run", "tp-scaling"),
    "study run, fields": ("study", "run", "decode-phase"),
}


@pytest.mark.parametrize("name", _LINES)
def test_the_first_line_is_the_verdict(name):
    line = _LINES[name]
    found, verdict = drawn(*line), drawn(*line, form=("--format", "json")).answer["verdict"]
    assert found.out.splitlines()[0] == f"{verdict['answer']}: {verdict['text']}"
    assert found.code == (0 if verdict["answer"] == "yes" else 1)


@pytest.mark.parametrize("name", _LINES)
def test_lines_have_no_blanks_at_their_end_and_no_colour_codes_off_a_terminal(name):
    out = drawn(*_LINES[name]).out
    assert [text for text in out.splitlines() if text != text.rstrip()] == []
    assert "\x1b" not in out


@pytest.mark.parametrize(("name", "total"), [("fit", "61.50 GB of 80.00 GB, 18.50 GB free"), ("fit, no", "too much")])
def test_bars_add_up_to_the_total_of_the_fullest_device(name, total):
    lines = drawn(*_LINES[name]).out.splitlines()
    bars = [text.split()[0] for text in lines if "█" in text or "···" in text]
    assert bars == ["weights", "KV", "workspace", "total"]
    assert any(text.strip().startswith("total") and total in text for text in lines)


def test_a_plan_shows_its_layouts_its_exchanges_and_what_would_help():
    out = drawn(*_FOUR).out
    assert re.search(r"^replicas=4,tp=2,pp=1 +yes +14\.89 ms +119\.11 ms +4 +0\.238 +52\.09 GB$", out, re.MULTILINE)
    assert "64 x all_reduce over 2 ranks after mixer: ring in 2 rounds" in out
    assert "system.accelerator.memory_bandwidth doubled: saves" in out
    assert "needs rope scaling by 3.2" in out
    assert "not modelled: " in out


def test_a_training_plan_shows_where_memory_the_step_and_the_calendar_go():
    out = drawn(*_LINES["plan, training"]).out
    for line in (
        r"  total +█+·+ +13\.47 GB of 23\.62 GB, 10\.15 GB free",
        r"the budget stands for activations 68\.75 GB, .* with these the total is 87\.23 GB",
        r"  compute +█+·* +52\.22 s +98\.9%",
        r"  planned stops +█+·+ +5\.00 d +20\.3%",
        r"limited by compute: computation is the longest part of a step: 52\.22 s of 52\.80 s",
        r"a step may take 67\.22 s, 14\.42 s more than it does",
        r"replicas=1,dp_shard=48,tp=1,pp=1,zero=3 +yes +52\.80 s +24\.64 d +39\.6% +13\.47 GB",
    ):
        assert re.search(f"^{line}$", out, re.MULTILINE), line


def test_a_late_training_plan_says_what_would_save_it():
    out = drawn(*_LINES["plan, training, late"]).out
    assert "limited by compute: computation alone takes 78.34 s, and a step may take 67.26 s" in out
    assert "a step may take 67.26 s, 11.65 s less than it does" in out
    assert "an efficiency of 47.0%" in out
    assert "--on 'rtx4090-host x6'" in out  # five boxes are 40 cards, on which 384 sequences are no whole number


def test_a_model_that_no_layout_holds_says_how_many_boxes_do():
    answer = drawn(*_LINES["plan, training, too large"], form=("--format", "json")).answer
    boxes = answer["systems"][0]["least_boxes"]
    assert answer["verdict"]["text"].endswith(f"; {boxes} boxes hold it")
    assert answer["best"] is None
    assert answer["candidates"][0]["excluded"]["code"] == "LAY020"
    line = [word if word != "hgx-h100" else f"hgx-h100 x{boxes}" for word in _LINES["plan, training, too large"]]
    assert answer_of(*line)["best"]["fits"]
    line = [word if word != "hgx-h100" else f"hgx-h100 x{boxes - 1}" for word in _LINES["plan, training, too large"]]
    line = [f"{word},offload=none" if word.startswith("tp=") else word for word in line]
    assert run(*line, "--finalists", "0").code == 1, "by the bound, without offload"


def test_more_layouts_than_are_shown_are_counted():
    shown = drawn(*_FOUR).out
    told = re.search(r"^(\d+) more layouts: --format json lists them all$", shown, re.MULTILINE)
    assert told
    rows = len(re.findall(r"^replicas=\S+ +(?:yes|no) ", shown, re.MULTILINE))
    assert rows
    assert int(told.group(1)) + rows == len(answer_of(*_FOUR)["candidates"])


def test_a_name_with_brackets_and_colons_is_shown_as_it_is():
    out = run("inspect", "tiny-qwen3", "--set", "model.name=a[bold]b[/bold] :smile: [x]\\").out
    assert out.startswith("yes: a[bold]b[/bold] :smile: [x]\\: ")


def test_colour_is_for_terminals_only():
    result = meshwright.inspect(meshwright.read_model("tiny-qwen3"), meshwright.InspectOptions())
    assert "\x1b[1m" in as_text(result, width=100, colour=True)
    assert "\x1b" not in as_text(result, width=100, colour=False)


@pytest.mark.parametrize("width", [1, 80, 200])
def test_any_width_can_be_drawn(width):
    result = meshwright.inspect(meshwright.read_model("Qwen/Qwen3-30B-A3B"), meshwright.InspectOptions())
    assert as_text(result, width=width, colour=False).startswith("yes: ")


# ----------------------------------------------------------------------------------------------------- next commands


def own_config(folder):
    """A model of one's own, in a folder whose name a shell would split."""
    data = Path(meshwright.__file__).parent / "model" / "data" / "Qwen--Qwen3-8B.toml"
    file = folder / "my model" / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps(tomllib.loads(data.read_text(encoding="utf-8"))["config"]), encoding="utf-8")
    return str(file)


_TWEAKED = (
    *("plan", "serve", "Qwen/Qwen3-30B-A3B-FP8", "--on", "l40s-host x2", "--sessions", "2", "--context", "4K"),
    *(
        "--new-tokens",
        "8",
        "--weights",
        "bf16",
        "--kv",
        "int8",
        "--workspace",
        "1 GiB",
        "--set",
        "model.max_positions=1000",
    ),
    *("--set", "system.accelerator.memory=40 GB", "--set", "job.sessions=3"),
)


@pytest.mark.parametrize(
    "line", [*(_LINES[name] for name in _LINES if name.startswith(("plan", "interval"))), _TWEAKED]
)
def test_every_next_command_runs(line):
    commands = drawn(*line, form=("--format", "json")).answer["next_commands"]
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "meshwright"
        assert drawn(*arguments).code in {0, 1}
        assert f"\nnext: {command}\n" in drawn(*line).out


def test_the_next_command_asks_about_the_layout_that_was_found():
    answer = answer_of(*_TWEAKED)
    _, *arguments = shlex.split(answer["next_commands"][0])
    memory = answer_of(*arguments)["memory"]
    best = answer["best"]["memory"]
    assert {name: memory[name] for name in best} == best


def test_the_next_command_of_ones_own_config_names_its_path(tmp_path):
    line = ("plan", "serve", own_config(tmp_path), *_PLAN[3:], "--new-tokens", "8")
    for command in answer_of(*line)["next_commands"]:
        assert run(*shlex.split(command)[1:]).code == 0


# -------------------------------------------------------------------------------------------------------------- help


@pytest.mark.parametrize(
    "verb",
    [
        "",
        " inspect",
        " fit",
        " plan",
        " plan serve",
        " plan train",
        " collective",
        " collective time",
        " checkpoint",
        " checkpoint interval",
        " checkpoint timeline",
        " collective check",
        " calibrate",
        " calibrate local",
        " run",
        " run train",
        " verify",
        " verify parity",
        " explain",
        " compare",
        " list",
        " study",
        " study list",
        " study run",
    ],
)
@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_of_every_verb(verb, word):
    found = run(*verb.split(), word)
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith(f"Usage: meshwright{verb} ")
    assert "\\b" not in found.out


def test_help_lists_every_verb_and_an_example_on_a_line_of_its_own():
    out = run("--help").out
    verbs = [
        "inspect",
        "fit",
        "plan",
        "experts",
        "schedule",
        "rack",
        "pool",
        "topology",
        "checkpoint",
        "collective",
        "calibrate",
        "run",
        "verify",
        "explain",
        "compare",
        "list",
        "study",
    ]
    assert re.findall(r"^  (\w+)  ", out, re.MULTILINE) == verbs
    assert "\n  meshwright inspect Qwen/Qwen3-32B\n" in out


def test_the_example_of_the_help_runs():
    for line in re.findall(r"^  meshwright (.+)$", run("--help").out, re.MULTILINE):
        assert run(*shlex.split(line)).code == 0
