"""Where the command finds a model and a system: a path, the catalog, the local hub cache, and never a guess."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

import meshwright
from meshwright.cli.nouns import hub_cache
from meshwright.model import reader
from tests.ui.program import answer_of
from tests.ui.program import meshwright as run

_DATA = Path(meshwright.__file__).parent / "model" / "data"
_SYSTEM = """
name = "four of mine"
nodes = 1
devices_per_node = 4
scale_up = "pcie-gen4-x16"
[accelerator]
name = "mine"
memory = "48 GB"
memory_bandwidth = "1 TB/s"
[accelerator.peak]
bf16 = { value = "200 TFLOP/s", density = "dense" }
"""


def config(key="tiny-qwen3"):
    return tomllib.loads((_DATA / f"{key}.toml").read_text(encoding="utf-8"))["config"]


def write(file, data):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def cached(folder, name, layers, revision="abc"):
    """A hub cache with one model of so many layers."""
    place = folder / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True, exist_ok=True)
    (place / "refs" / "main").write_text(revision, encoding="utf-8")
    return write(place / "snapshots" / revision / "config.json", {**config(), "num_hidden_layers": layers})


def layers_of(*line):
    return sum(block["count"] for block in answer_of("inspect", *line)["blocks"])


@pytest.mark.parametrize("name", ["config.json", "other.json"])
def test_a_model_is_a_file_of_any_name(tmp_path, name):
    file = write(tmp_path / "mine" / name, {**config(), "num_hidden_layers": 3})
    assert layers_of(str(file)) == 3


def test_a_model_is_a_folder_with_a_config(tmp_path):
    write(tmp_path / "mine" / "config.json", {**config(), "num_hidden_layers": 3})
    answer = answer_of("inspect", str(tmp_path / "mine"))
    assert answer["inputs"]["model"]["name"] == "mine"


def test_a_folder_stands_before_the_catalog(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "Qwen" / "Qwen3-32B" / "config.json", {**config(), "num_hidden_layers": 3})
    assert layers_of("Qwen/Qwen3-32B") == 3


def test_the_catalog_stands_before_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    cached(tmp_path, "Qwen/Qwen3-32B", layers=3)
    assert layers_of("Qwen/Qwen3-32B") == 64


def test_the_cache_is_asked_last(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    cached(tmp_path, "someone/model", layers=5)
    assert layers_of("someone/model") == 5
    assert run("inspect", "someone/other").err.startswith("error[MOD001]")


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/a"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({"HOME": "/d", "USERPROFILE": "/d"}, "/d/.cache/huggingface/hub"),
    ],
)
def test_the_cache_is_where_huggingface_hub_keeps_it(monkeypatch, variables, place):
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert hub_cache() == Path(place)


def test_download_without_its_extra_says_which_one(monkeypatch):
    monkeypatch.setattr(reader, "find_spec", lambda name: None)
    found = run("inspect", "someone/gone", "--download")
    assert found.code == 2
    assert "meshwright[hub]" in found.err


def test_a_config_out_of_reach_is_a_coded_message(tmp_path):
    for place in (tmp_path, tmp_path / "gone.json", tmp_path / "gone"):
        found = run("inspect", str(place))
        assert found.code == 2
        assert found.err.startswith("error[")


@pytest.mark.parametrize("text", ["hgx-h100 x2", "hgx-h100x2", "hgx-h100  x 2"])
def test_boxes_are_counted_however_they_are_spelled(text):
    system = answer_of("fit", "tiny-qwen3", "--on", text)["inputs"]["system"]
    assert (system["nodes"], system["devices_per_node"]) == (2, 8)


def test_a_system_is_ones_own_toml(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(_SYSTEM, encoding="utf-8")
    answer = answer_of(
        "plan", "serve", "Qwen/Qwen3-8B", "--on", "mine.toml", "--sessions", "1", "--context", "1K", "--new-tokens", "8"
    )
    assert answer["inputs"]["system"]["accelerator"]["memory"] == 48_000_000_000
    assert answer["inputs"]["system"]["scale_up"]["bandwidth"] > 0
    assert {item["layout"]["tp"] for item in answer["candidates"]} <= {1, 2, 4}
    assert answer["next_commands"][0].startswith("meshwright fit Qwen/Qwen3-8B --on mine.toml ")


def test_weights_replaces_the_quantization_and_says_so():
    plain, stored = (answer_of("inspect", "Qwen/Qwen3-30B-A3B-FP8", *more) for more in (("--weights", "bf16"), ()))
    assert set(plain["bytes_by_format"]) == {"bf16"}
    assert any(name.startswith("fp8") for name in stored["bytes_by_format"])
    assert any("--weights bf16" in note for note in plain["notes"])


def test_kv_sets_the_format_of_the_cache_for_every_verb():
    """Qwen3-8B: 36 layers of 2 x 8 heads of 128; LMDeploy's int8 adds 4 bytes to each."""
    model = "Qwen/Qwen3-8B"
    eight, scaled = 36 * 2 * 8 * 128, 36 * 2 * 8 * (128 + 4)
    found = {name: answer_of("inspect", model, "--kv", name) for name in ("bf16", "fp8", "int8")}
    per_token = {name: answer["kv_bytes_per_token"] for name, answer in found.items()}
    assert per_token == {"bf16": 2 * eight, "fp8": eight, "int8": scaled}
    assert any("LMDeploy" in note for note in found["int8"]["notes"])
    assert any("vLLM" in note for note in found["fp8"]["notes"])
    fit = answer_of("fit", model, "--on", "l40s-host", "--context", "1K", "--sessions", "3", "--kv", "int8")
    assert fit["memory"]["kv_cache_bytes"] == 3 * 1024 * scaled
    work = ("--sessions", "1", "--context", "128K", "--new-tokens", "8", "--flips", "none", "--layout", "tp=1")
    times = [
        answer_of("plan", "serve", model, "--on", "hgx-h200", *work, "--kv", name)["best"]["step_time_s"]
        for name in ("fp8", "int8", "bf16")
    ]
    assert times == sorted(set(times))


@pytest.mark.parametrize("name", ["fp8", "int8", "int4", "mxfp4", "nvfp4", "q8_0", "q4_k"])
def test_weights_in_a_what_if_format_name_their_grouping(name):
    answer = answer_of("inspect", "Qwen/Qwen3-30B-A3B", "--weights", name)
    assert any(note.startswith(f"--weights {name} (assumed): ") for note in answer["notes"])
    assert any(key.startswith(name) for key in answer["bytes_by_format"])


def test_a_model_is_ones_own_toml(tmp_path, monkeypatch):
    """The example of docs/model-file.md."""
    page = (Path(__file__).parents[2] / "docs" / "model-file.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    Path("my-model.toml").write_text(page.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    answer = answer_of("inspect", "my-model.toml")
    assert f"{answer['parameters']['total']:,} parameters" in page
    assert answer_of("fit", "my-model.toml", "--on", "hgx-h100", "--tp", "4")["verdict"]["answer"] == "yes"
