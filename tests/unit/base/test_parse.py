"""Untyped data in, frozen checked records out; everything else is an error with a code that names the place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meshwright.base.errors import FileError, MeshwrightError
from meshwright.base.parse import build, get_path, read_json, read_text, read_toml, set_path
from meshwright.base.units import Bytes, BytesPerSecond, FlopsPerSecond, Seconds, Share, Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    size: Bytes
    rate: BytesPerSecond | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    name: str
    count: int = 1
    wait: Seconds | None = None
    share: Share | None = None
    length: Tokens | None = None
    on: bool = False
    kind: Literal["a", "b"] = "a"
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    sizes: tuple[Bytes, ...] = ()
    peak: Mapping[str, FlopsPerSecond] = field(default_factory=dict[str, FlopsPerSecond])


def refused(data):
    with pytest.raises(FileError) as caught:
        build(Thing, data, "thing")
    return caught.value


def test_units_are_read_wherever_the_type_wants_them():
    found = build(
        Thing,
        {
            "name": "x",
            "wait": "130 ms",
            "share": "75%",
            "length": "128K",
            "part": {"size": "2 GiB", "rate": "450 GB/s"},
            "parts": [{"size": "1 KiB"}],
            "sizes": ["1 B", "2 B"],
            "peak": {"bf16": "989.4 TFLOP/s"},
        },
        "thing",
    )
    assert found.wait == 0.13
    assert found.share == 0.75
    assert found.length == 131072
    assert found.part == Part(size=2 * 2**30, rate=450e9)
    assert found.parts == (Part(size=1024),)
    assert found.sizes == (1, 2)
    assert found.peak == {"bf16": 989.4e12}


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        ({"name": "x", "wait": 3}, "IO002", "thing.wait: 3 has no unit"),
        ({"name": "x", "part": {"size": 80}}, "IO002", "thing.part.size"),
        ({"name": "x", "parts": [{"size": "1 B"}, {"size": 5}]}, "IO002", "thing.parts[1].size"),
        ({"name": "x", "peak": {"bf16": "1 TB/s"}}, "IO002", "thing.peak.bf16"),
        ({"name": "x", "wait": True}, "IO001", "thing.wait: True is not a quantity"),
        ({"name": "x", "wait": [1]}, "IO001", "is not a quantity"),
        ({"name": "x", "wait": float("nan")}, "IO001", "thing.wait"),
        ({"name": "x", "wiat": "3 s"}, "IO015", "there is no field 'wiat'"),
        ({"name": "x", "part": {"size": "1 B", "sise": 2}}, "IO015", "thing.part"),
        ({}, "IO013", "thing.name: Field required"),
        ({"name": 3}, "IO013", "thing.name"),
        ({"name": "x", "count": 1.5}, "IO013", "thing.count"),
        ({"name": "x", "count": float("inf")}, "IO013", "thing.count"),
        ({"name": "x", "kind": "c"}, "IO013", "thing.kind"),
        ({"name": "x", "part": 3}, "IO013", "thing.part"),
        ({"name": "x", "parts": "none"}, "IO013", "thing.parts"),
        ({"name": "x", "peak": []}, "IO013", "thing.peak"),
        ([], "IO013", "thing"),
        (None, "IO013", "thing"),
    ],
)
def test_wrong_data_is_refused_with_its_place(data, code, said):
    error = refused(data)
    assert error.code == code
    assert said in error.cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    radius: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    side: int
    filled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    shapes: tuple[Round | Square, ...]


def test_a_table_is_the_member_of_a_union_whose_fields_it_names():
    drawing = build(Drawing, {"shapes": [{"radius": 1}, {"filled": True, "side": 2}]}, "drawing")
    assert drawing.shapes == (Round(radius=1), Square(side=2, filled=True))
    with pytest.raises(FileError, match=r"drawing.shapes\[0\]: there is no field 'radius'") as caught:
        build(Drawing, {"shapes": [{"radius": 1, "side": 2, "filled": True}]}, "drawing")
    assert caught.value.code == "IO015"
    with pytest.raises(FileError, match=r"drawing.shapes\[0\].side") as caught:
        build(Drawing, {"shapes": [{"filled": True}]}, "drawing")
    assert caught.value.code == "IO013"


def test_zero_needs_no_unit():
    assert build(Thing, {"name": "x", "wait": 0}, "thing").wait == 0


def test_an_unknown_key_is_answered_with_the_nearest():
    assert "wait" in refused({"name": "x", "wiat": 1}).fix


THING = Thing(
    name="x",
    part=Part(size=Bytes(8)),
    parts=(Part(size=Bytes(1)), Part(size=Bytes(2))),
    sizes=(Bytes(1), Bytes(2)),
    peak={"bf16": FlopsPerSecond(1.0)},
)


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("name", "3", "3"),
        ("count", "7", 7),
        ("on", "true", True),
        ("wait", "2 ms", 0.002),
        ("share", "50%", 0.5),
        ("length", "4K", 4096),
        ("part.size", "1 KiB", 1024),
        ("part.rate", "4.5e+11B/s", 4.5e11),
        ("peak.bf16", "2 TFLOP/s", 2e12),
        ("sizes", "1 B, 2 B", (1, 2)),
        ("kind", "b", "b"),
    ],
)
def test_set_path_reads_a_field_with_its_unit_and_leaves_the_rest(path, text, value):
    changed = set_path(THING, path, text)
    assert get_path(changed, path) == value
    assert THING.count == 1
    untouched = "count" if path != "count" else "name"
    assert get_path(changed, untouched) == get_path(THING, untouched)


@pytest.mark.parametrize("path", ["parts.1.size", "parts[1].size"])
def test_an_item_of_a_tuple_is_set_by_its_place(path):
    changed = set_path(THING, path, "1 KiB")
    assert changed.parts == (THING.parts[0], Part(size=Bytes(1024)))
    assert replace(changed, parts=THING.parts) == THING
    assert set_path(THING, "sizes.0", "1 KiB").sizes == (1024, 2)


def test_a_whole_record_is_not_text_and_the_fix_names_its_fields():
    with pytest.raises(FileError) as caught:
        set_path(THING, "part", "x")
    assert caught.value.fix == "name a field of it, behind a dot"


@pytest.mark.parametrize(
    ("path", "text", "code"),
    [
        ("parts.2.size", "1 B", "IO014"),
        ("parts.-1.size", "1 B", "IO014"),
        ("parts[x].size", "1 B", "IO014"),
        ("parts[].size", "1 B", "IO014"),
        ("", "1", "IO014"),
        (".", "1", "IO014"),
        ("nmae", "1", "IO014"),
        ("part.sise", "1 B", "IO014"),
        ("peak.fp4", "1 FLOP/s", "IO014"),
        ("count.x", "1", "IO014"),
        ("part..size", "1 B", "IO014"),
        ("wait", "3", "IO002"),
        ("wait", "", "IO001"),
        ("count", "x", "IO013"),
        ("count", "1" * 5000, "IO013"),
        ("count", "[" * 5000, "IO013"),
        ("part", "x", "IO013"),
        ("kind", "c", "IO013"),
        ("on", "maybe", "IO013"),
    ],
)
def test_set_path_refuses_with_a_code(path, text, code):
    with pytest.raises(FileError) as caught:
        set_path(THING, path, text)
    assert caught.value.code == code


def test_a_path_that_is_not_there_is_answered_with_the_nearest():
    with pytest.raises(FileError, match="IO014") as caught:
        get_path(THING, "part.sise")
    assert "size" in caught.value.fix
    with pytest.raises(FileError, match="IO014"):
        get_path(THING, "sizes.2")


@given(path=st.text(max_size=20), text=st.text(max_size=20))
@example(path="part", text='{"size": "1 B"}')
@example(path="peak", text='{"bf16": "1 FLOP/s"}')
@example(path="peak", text="{}")
def test_any_path_and_text_sets_or_is_refused_with_a_code(path, text):
    try:
        assert isinstance(set_path(THING, path, text), Thing)
    except MeshwrightError as error:
        assert error.code.startswith("IO0")  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize("name", list(Thing.__dataclass_fields__))
@given(text=st.text(max_size=12) | st.sampled_from(["null", "[]", "{}", "1e999", "NaN", "-1", "true", '"x"', "[null]"]))
def test_any_text_in_any_field_sets_or_is_refused_with_a_code(name, text):
    try:
        assert isinstance(set_path(THING, name, text), Thing)
    except MeshwrightError as error:
        assert error.code.startswith("IO0")  # noqa: PT017 - both outcomes are right


KEYS = st.sampled_from([*Thing.__dataclass_fields__, "size", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=8,
)


@given(data=JSON)
def test_any_data_builds_or_is_refused_with_a_code(data):
    try:
        assert isinstance(build(Thing, data, "thing"), Thing)
    except MeshwrightError as error:
        assert error.code.startswith("IO0")  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "a = 1\na = 2",
        "= 3",
        "a = " + "[" * 100_000,
        "a = " + "1" * 5000,
        ".".join("a" * 1000) + " = 1",
        "a = " + "{a = " * 200 + "1" + "}" * 200,
        "\x00",
        "a = \ud800",
    ],
)
def test_bad_toml_is_io011(text):
    with pytest.raises(FileError, match="IO011"):
        read_toml(text, "file")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "1" * 5000, "[" * 100 + "]" * 100, "{'a': 1}", "nul"])
def test_bad_json_is_io012(text):
    with pytest.raises(FileError, match="IO012"):
        read_json(text, "file")


def test_json_of_hugging_face_configs_may_hold_infinity():
    assert read_json('{"a": Infinity}', "file") == {"a": float("inf")}


def test_files_that_cannot_be_read_are_io010(tmp_path):
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path, tmp_path / "none.toml", tmp_path / "bytes.toml", tmp_path / "a\0b", tmp_path / ("n" * 5000)):
        with pytest.raises(FileError, match="IO010"):
            read_text(path)


def test_a_file_with_a_byte_order_mark_is_read_without_it(tmp_path):
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbfa = 1")
    assert read_toml(read_text(tmp_path / "bom.toml"), "bom") == {"a": 1}


def test_a_file_that_is_too_large_is_io010(tmp_path):
    with (tmp_path / "large.toml").open("wb") as file:
        file.truncate(64 * 2**20 + 1)
    with pytest.raises(FileError, match="larger than 64 MiB"):
        read_text(tmp_path / "large.toml")
