"""`meshwright experts` as a user meets it: its first line, its heat map, its forms, and what it refuses."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from tests.ui.program import answer_of, meshwright

LINE = ("experts", "Qwen/Qwen3-30B-A3B", "--on", "hgx-h100", "--tokens", "64", "--ep", "8")


def test_the_first_line_says_what_is_read_and_who_is_busiest():
    found = meshwright(*LINE, "--routing", "counts:8x64", "--placement", "contiguous")
    assert found.code == 0
    assert found.out.startswith("yes: Qwen/Qwen3-30B-A3B, 48 layers, 64 tokens: 8.0 experts a layer are read")
    assert "the busiest group has up to 8.00 times the mean (512 rows in layer 0)" in found.out


def test_the_heat_map_is_darkest_where_the_rows_are():
    found = meshwright(*LINE, "--routing", "counts:8x64")
    rows = [line for line in found.out.splitlines() if line.startswith("  layer")]
    assert len(rows) == 12
    assert all(line.endswith(f"|████{' ' * 60}|") for line in rows)


def test_the_picture_has_a_cell_for_every_expert_and_group_of_every_layer(tmp_path):
    file = tmp_path / "experts.svg"
    answer = answer_of(*LINE, "--routing", "zipf:1", "--svg", str(file))
    root = ET.fromstring(file.read_text())  # noqa: S314 - our own text
    cells = {
        name: [item for item in root.findall("{*}rect") if item.get("class") == name] for name in ("expert", "group")
    }
    assert {name: len(found) for name, found in cells.items()} == {"expert": 48 * 128, "group": 48 * 8}
    told = cells["expert"][0].findtext("{*}title")
    assert told == f"layer 0, expert 0: {answer['layers'][0]['expert_rows'][0]} rows"
    assert root.findtext("{*}title") == answer["verdict"]["text"]


def test_the_next_command_is_the_same_with_a_copy_more_on_every_group():
    line = ("experts", "Qwen/Qwen3-30B-A3B", "--on", "hgx-h100 x2", "--tokens", "64", "--ep", "16")
    line = (*line, "--routing", "zipf:1.5", "--dispatch", "fp8")
    command = answer_of(*line)["next_commands"][0]
    assert "--routing zipf:1.5" in command
    assert command.startswith("meshwright experts Qwen/Qwen3-30B-A3B --on 'hgx-h100 x2' ")
    assert "--replicas 16" in command
    assert "--dispatch fp8" in command


def test_a_dense_model_is_refused_by_its_code():
    found = meshwright("experts", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--tokens", "64")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("error[JOB007]: Qwen/Qwen3-8B has no experts\nfix: name a mixture of experts")


def test_a_time_on_a_network_is_explained_as_one_that_no_input_alone_decides(tmp_path):
    file = tmp_path / "experts.json"
    line = ("experts", "tiny-qwen3-moe", "--on", "hgx-h100", "--tokens", "64", "--ep", "8")
    meshwright(*line, "--format", "json", "-o", str(file))
    assert "paths of a network" in meshwright("explain", str(file), "layers[0].dispatch_s").out
    assert "matmul_flops" in meshwright("explain", str(file), "layers[0].experts_s").out
