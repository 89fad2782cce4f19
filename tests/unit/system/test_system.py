"""Systems by name, by name and count, and from a user's own TOML; and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from meshwright.base.errors import MeshwrightError
from meshwright.base.parse import set_path
from meshwright.system.accelerator import read_accelerator
from meshwright.system.link import both_ways_bytes_per_s, build_link, one_way_bytes_per_s, ports_bytes_per_s, read_link
from meshwright.system.system import checked_system, read_system, read_systems

NAMED = """\
accelerator = "h100-sxm"
nodes = 2
devices_per_node = 4
scale_up = "nvlink4"
scale_out = "connectx-7"
nics_per_node = 2
"""
INLINE = """\
name = "Mine"
nodes = 1
devices_per_node = 2
[accelerator]
name = "Card"
memory = "24 GB"
memory_bandwidth = { value = "1 TB/s", source = "me" }
peak = { bf16 = { value = "100 TFLOP/s", density = "dense", source = "me" } }
[scale_up]
name = "Wire"
bandwidth = { value = "32 GB/s", direction = "one way", source = "me" }
latency = "1 us"
[sources.me]
title = "measured here"
place = "home"
read = "2026-11-29"
"""


@pytest.fixture
def write(tmp_path):
    def written(text: str) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return written


def refused(text: str) -> MeshwrightError:
    with pytest.raises(MeshwrightError) as caught:
        read_systems(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "nodes"),
    [("hgx-h100", 1), ("hgx-h100x2", 2), ("hgx-h100 x2", 2), ("hgx-h100  x  12", 12), ("hgx-h100x1", 1)],
)
def test_a_name_with_or_without_a_count_reads(text, nodes):
    found = read_system(text)
    assert (found.nodes, found.devices) == (nodes, 8 * nodes)
    assert found.id == text


def test_a_list_by_commas_reads_in_order():
    assert [item.devices for item in read_systems("hgx-h100 x2, hgx-h200,hgx-h100")] == [16, 8, 8]


def test_a_users_file_with_named_parts_reads(write):
    found = read_system(write(NAMED))
    assert (found.name, found.devices) == ("mine", 8)
    assert found.accelerator == read_accelerator("h100-sxm")
    assert found.scale_up == read_link("nvlink4")


def test_a_users_file_with_its_own_parts_reads_and_keeps_their_sources(write):
    found = read_system(write(INLINE))
    assert found.name == "Mine"
    assert found.accelerator.memory == 24_000_000_000
    assert found.accelerator.peak == {"bf16": 1e14}
    assert found.scale_up.bandwidth == 32e9
    assert found.scale_out is None
    assert {fact.path for fact in found.facts.facts} == {
        "accelerator.memory_bandwidth",
        "accelerator.peak.bf16",
        "scale_up.bandwidth",
    }
    assert [source.title for source in found.facts.sources] == ["measured here"]


def test_devices_share_the_nics_of_their_box(write):
    assert read_system("hgx-h100").nic_bandwidth == 50e9
    assert read_system(write(NAMED)).nic_bandwidth == 25e9
    assert read_system(write(NAMED.replace("nics_per_node = 2", "nics_per_node = 8"))).nic_bandwidth == 50e9
    assert read_system(write(INLINE)).nic_bandwidth == 0.0
    assert read_system(write(INLINE)).nic_latency == 0.0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "SYS001"),
        ("nvl999", "SYS001"),
        ("hgx-h100,", "SYS001"),
        ("hgx-h100,,hgx-h200", "SYS001"),
        ("hgx-h100 x", "SYS001"),
        ("hgx-h100 x-1", "SYS001"),
        ("hgx-h100 x1.5", "SYS001"),
        ("x2", "SYS001"),
        ("hgx-h100x" + "9" * 5000, "SYS001"),
        ("hgx-h100 x0", "SYS006"),
        ("hgx-h100 x999999999", "SYS006"),
        ("none.toml", "IO010"),
        ("a\0b.toml", "IO010"),
    ],
)
def test_a_system_that_cannot_be_read_is_refused_with_a_code(text, code):
    assert refused(text).code == code


def test_an_unknown_system_is_answered_with_the_nearest():
    assert "hgx-h100" in refused("hgx-h10").fix


BOTH = 'direction = "both ways"'


@pytest.mark.parametrize(
    ("text", "old", "new", "code"),
    [
        (INLINE, 'direction = "one way"', BOTH, "SYS004"),
        (INLINE, 'direction = "one way", ', "", "SYS004"),
        (INLINE, 'density = "dense"', 'density = "sparse"', "SYS004"),
        (INLINE, 'density = "dense", ', "", "SYS004"),
        (INLINE, 'source = "me" }\npeak', 'source = "you" }\npeak', "SYS003"),
        (INLINE, 'place = "home"\n', "", "SYS003"),
        (INLINE, 'memory = "24 GB"', 'memory = { value = "24 GB", basis = "guess" }', "SYS003"),
        (INLINE, "nodes = 1", "nodes = 2", "SYS007"),
        (INLINE, "nodes = 1", "nodes = 0", "SYS006"),
        (INLINE, "nodes = 1", "nodes = -3", "SYS006"),
        (INLINE, "devices_per_node = 2", "devices_per_node = 2000000", "SYS006"),
        (INLINE, 'value = "32 GB/s"', 'value = "0 B/s"', "SYS009"),
        (INLINE, 'memory = "24 GB"', 'memory = "0 B"', "SYS009"),
        (INLINE, 'value = "100 TFLOP/s"', 'value = "0 FLOP/s"', "SYS009"),
        (NAMED, "nodes = 2", "nodes = 2\ndevice_price = -0.5", "SYS012"),
        (NAMED, "nodes = 2", "nodes = 2\ndevice_price = nan", "SYS012"),
        (NAMED, "nodes = 2", 'nodes = 2\nhost = { link_bandwidth = "32 GB/s" }', "SYS004"),
        (INLINE, 'latency = "1 us"', 'latency = "1"', "IO002"),
        (INLINE, 'latency = "1 us"', "latency = 1", "IO002"),
        (INLINE, 'latency = "1 us"', 'latency = "-1 us"', "IO003"),
        (INLINE, 'latency = "1 us"', "", "IO013"),
        (INLINE, 'latency = "1 us"', 'latency = "1 us"\nlag = 3', "IO015"),
        (INLINE, 'latency = "1 us"', 'latency = "1 us"\nports = 3\nport_bandwidth = "1 GB/s"', "SYS004"),
        (NAMED, "nics_per_node = 2", "nics_per_node = 0", "SYS007"),
        (NAMED, "nics_per_node = 2", "nics_per_node = -1", "SYS006"),
        (NAMED, 'scale_out = "connectx-7"', "", "SYS007"),
        (NAMED, 'scale_up = "nvlink4"', "", "SYS008"),
        (NAMED, 'scale_up = "nvlink4"', "scale_up = 3", "SYS008"),
        (NAMED, 'scale_up = "nvlink4"', 'scale_up = "nvlink99"', "SYS002"),
        (NAMED, 'accelerator = "h100-sxm"', 'accelerator = "h100-sxn"', "SYS002"),
        (NAMED, "nodes = 2", "nodes = 2\nsources = 3", "SYS003"),
        (NAMED, "nodes = 2", "nodes = 2\nsources.x = 3", "SYS003"),
        (NAMED, "nodes = 2", "nodes = 2\nvalue = 3", "IO015"),
        (NAMED, "nodes = 2", 'nodes = "two"', "IO013"),
        (NAMED, "nodes = 2", "nodes =", "IO011"),
    ],
)
def test_a_faulty_file_is_refused_with_a_code(write, text, old, new, code):
    assert text.count(old) == 1
    assert refused(write(text.replace(old, new))).code == code


def test_a_value_changed_by_hand_is_checked_again():
    system = read_system("hgx-h100 x2")
    assert checked_system(set_path(system, "nodes", "3"), "--set").devices == 24
    for path, text, code in (
        ("nodes", "0", "SYS006"),
        ("nics_per_node", "0", "SYS007"),
        ("scale_out.bandwidth", "0 B/s", "SYS009"),
    ):
        with pytest.raises(MeshwrightError, match=code):
            checked_system(set_path(system, path, text), "--set")


@settings(max_examples=150)
@given(text=st.text(max_size=25) | st.from_regex(r"(hgx-h100|dgx|x|,| |[0-9]){1,6}", fullmatch=True))
@example(text="hgx-h100 x٣")
@example(text="\ud800.toml")
def test_any_text_is_systems_or_is_refused_with_a_code(text):
    try:
        assert all(system.devices >= 1 for system in read_systems(text))
    except MeshwrightError as error:
        assert error.code[:3] in {"SYS", "IO0"}  # noqa: PT017 - both outcomes are right


WORDS = [
    '"1 GB/s"',
    '"1 us"',
    '"x"',
    '"nvlink4"',
    "2026-01-01",
    '[{ value = "1 B" }]',
    "{ value = 3 }",
    "{ value = {} }",
]
RATE = '{ value = "1 GB/s", direction = "one way" }'
VALUES = st.sampled_from(["3", "-1", "0", "true", "[]", "{}", "inf", "nan", RATE, *WORDS])
LINES = [line for line in (NAMED + INLINE).splitlines() if "=" in line]


@settings(max_examples=150)
@given(base=st.sampled_from([NAMED, INLINE]), line=st.sampled_from(LINES), value=VALUES)
def test_any_value_on_any_line_reads_or_is_refused_with_a_code(tmp_path_factory, base, line, value):
    path = Path(tmp_path_factory.getbasetemp()) / "any.toml"
    path.write_text(base.replace(line, f"{line.partition('=')[0]}= {value}"))
    try:
        assert read_system(str(path)).devices >= 1
    except MeshwrightError as error:
        assert error.code[:3] in {"SYS", "IO0"}  # noqa: PT017 - both outcomes are right


def test_peak_for_takes_the_first_format_the_card_multiplies_in():
    card = read_accelerator("a100-80gb-sxm")
    assert card.peak_for(("fp8", "bf16"))[0] == "bf16"
    with pytest.raises(MeshwrightError, match="SYS005"):
        card.peak_for(("fp4",))


def test_a_datasheets_both_ways_is_twice_one_way():
    assert both_ways_bytes_per_s(450e9) == 900e9
    assert one_way_bytes_per_s(128e9) == 64e9
    assert ports_bytes_per_s(18, 25e9) == 450e9


def test_a_link_of_ones_own_must_add_up():
    values = {"name": "x", "bandwidth": "450 GB/s", "latency": "1 us", "ports": 18, "port_bandwidth": "25 GB/s"}
    assert build_link(values, "x").bandwidth == 450e9
    with pytest.raises(MeshwrightError, match="SYS004"):
        build_link({**values, "bandwidth": "900 GB/s"}, "x")


def test_a_price_and_a_link_to_the_host_are_read(write):
    text = NAMED.replace("nodes = 2", "nodes = 2\ndevice_price = 2.5")
    system = read_system(write(f'{text}[host]\nlink_bandwidth = {{ value = "64 GB/s", direction = "one way" }}\n'))
    assert (system.device_price, system.host.link_bandwidth) == (2.5, 64e9)
    assert read_system("hgx-h100").device_price is None
    assert read_system("hgx-h100").host.link_bandwidth == 64e9
    assert read_system("rtx4090-host").host.link_bandwidth == 32e9
