"""`meshwright pool` as a user meets it: the chapter's nodes, its picture, a trace, and what it refuses."""

from __future__ import annotations

import shlex
from xml.etree import ElementTree as ET

import pytest

from tests.ui.program import answer_of, meshwright

LINE = ("pool", "--demand", "100GB,60GB,40GB,40GB", "--node", "80GB")
READ = (*LINE, "--window", "128", "--latency", "7.52us", "--path", "50GB/s")
LIFE = """operations = [
  { do = "export", node = 1, region = "kv", size = "20GB" },
  { do = "map", node = 0, region = "kv" },
  { do = "write", node = 0, region = "kv", offset = "1MiB", length = "4KiB", name = "w0" },
"""
DONE = """
  { do = "complete", node = 0, region = "kv", name = "w0" },
  { do = "read", node = 0, region = "kv", offset = "1MiB", length = "4KiB", name = "r0" },
  { do = "complete", node = 0, region = "kv", name = "r0" },
  { do = "return", node = 0, region = "kv" },
  { do = "reclaim", node = 1, region = "kv" },
]
"""
EARLY = """
  { do = "read", node = 0, region = "kv", offset = "1MiB", length = "4KiB", name = "r0" },
]
"""


def test_the_chapters_nodes_are_answered_in_the_first_line():
    """Chapter "Supernodes", section 6.6."""
    found = meshwright(*READ)
    assert found.code == 0
    assert found.out.startswith(
        "yes: job 0 borrows 20.00 GB of node 1; 80.00 GB stay free on all nodes; remote reads at 4.36 GB/s"
    )


def test_free_memory_after_borrowing_is_not_what_was_free_elsewhere():
    """Rejected answer 17: 100 GB, or more memory than there was."""
    answer = answer_of(*LINE)
    assert answer["free_after_bytes"] == 80 * 10**9 != answer["free_elsewhere_before_bytes"]
    assert sum(answer["used_bytes"]) + answer["free_after_bytes"] == answer["capacity_bytes"]


def test_a_faster_link_does_not_raise_a_windows_rate():
    """Rejected answer 16: only more requests under way do, which the next command gives."""
    slow, fast = (answer_of(*READ[:-1], path)["window"] for path in ("50GB/s", "400GB/s"))
    assert slow["usable_bytes_per_s"] == fast["usable_bytes_per_s"] == pytest.approx(4.36e9, rel=1e-3)
    (command,) = answer_of(*READ)["next_commands"]
    assert answer_of(*shlex.split(command)[1:])["window"]["usable_bytes_per_s"] == 50e9


def test_a_fetch_says_whose_memory_makes_room_for_it():
    full, roomy = (answer_of(*LINE[:-1], node, *READ[5:])["notes"] for node in ("80GB", "99GB,160GB,160GB,160GB"))
    assert any("node 0 has 0 B free, so 20.00 GB of what lies there must move out first" in note for note in full)
    lent = answer_of("pool", "--demand", "60GB", "--node", "100GB", "--data", "20GB", "--path", "50GB/s")["notes"]
    assert lent == ["a fetch of 20.00 GB takes as much of the reader's own memory: node 0 has 40.00 GB free"]
    assert any("node 0 has 0 B free, so 1.00 GB" in note for note in roomy)


def test_demands_beyond_all_memory_are_a_no():
    answer = answer_of(*LINE[:-1], "50GB", code=1)
    assert answer["loans"] is None
    assert answer["shortfall_bytes"] == 60 * 10**9


def test_a_link_of_the_catalog_gives_path_and_round_trip():
    window = answer_of(*LINE, "--link", "connectx-7")["window"]
    assert (window["round_trip_s"], window["path_bytes_per_s"]) == (pytest.approx(7.52e-6), 50e9)


def test_a_trace_is_replayed_to_its_end(tmp_path):
    file = tmp_path / "life.toml"
    file.write_text(LIFE + DONE)
    rows = answer_of(*LINE, "--trace", str(file))["trace"]
    assert [row["state"] for row in rows] == ["exported", "mapped", *["in_use"] * 4, "returned", "free"]
    assert rows[0]["free_bytes"] == [0, 0, 40 * 10**9, 40 * 10**9]
    assert rows[-1]["free_bytes"] == [0, 20 * 10**9, 40 * 10**9, 40 * 10**9]


def test_a_wrong_order_is_a_no_with_its_code(tmp_path):
    file = tmp_path / "early.toml"
    file.write_text(LIFE + EARLY)
    answer = answer_of(*LINE, "--trace", str(file), code=1)
    assert answer["verdict"]["text"].startswith("operation 3 (read by node 0) is refused: JOB110")
    assert [row["refused"] for row in answer["trace"]] == [None, None, None, "JOB110"]


def test_the_picture_has_every_region_in_its_host_and_the_colour_of_its_owner(tmp_path):
    file = tmp_path / "pool.svg"
    answer = answer_of(*LINE, "--svg", str(file))
    root = ET.fromstring(file.read_text())  # noqa: S314 - our own text
    parts = [group.find("{*}rect") for group in root.findall("{*}g")]
    assert len(parts) == len(answer["regions"])
    widths = {round(float(part.get("width")) / region["size_bytes"] * 1e12) for part, region in _pairs(root, answer)}
    assert len(widths) == 1
    colours = {region["owner"]: set() for region in answer["regions"]}
    for part, region in _pairs(root, answer):
        colours[region["owner"]].add(part.get("fill"))
    assert all(len(found) == 1 for found in colours.values())
    rows = {part.get("y") for part, region in _pairs(root, answer) if region["host"] == 1}
    assert len(rows) == 1


def _pairs(root, answer):
    by_id = {region["id"]: region for region in answer["regions"]}
    return [(group.find("{*}rect"), by_id[group.findtext("{*}title").split(",")[0]]) for group in root.findall("{*}g")]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("--node", "80"), "IO002"),
        (("--node", "80GB,80GB"), "JOB100"),
        (("--window", "128"), "JOB101"),
        (("--path", "0GB/s"), "JOB101"),
        (("--latency", "1us", "--one-way", "1us"), "JOB101"),
        (("--latency", "1us"), "JOB101"),
        (("--data", "101GB", "--path", "50GB/s"), "JOB102"),
        (("--periods", "1s"), "JOB102"),
        (("--link", "string"), "SYS002"),
        (("--trace", "nowhere.toml"), "IO010"),
    ],
)
def test_bad_input_is_coded(change, code):
    found = meshwright(*LINE, *change)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"error[{code}]: ")
    assert "\nfix: " in found.err


def test_a_trace_with_an_unknown_operation_is_refused(tmp_path):
    file = tmp_path / "odd.toml"
    file.write_text('operations = [{ do = "steal", node = 0, region = "kv" }]')
    assert meshwright(*LINE, "--trace", str(file)).err.startswith("error[IO013]: ")
