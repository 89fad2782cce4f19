"""Text with a unit in, SI base units out; and what is refused, with the spelling that is right."""

from __future__ import annotations

from fractions import Fraction
from math import isclose

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meshwright.base.errors import FileError, MeshwrightError
from meshwright.base.units import (
    DIMENSIONS,
    SI_SUFFIX,
    parse_exact,
    parse_quantity,
    show_bytes,
    show_flops,
    show_rate,
    show_seconds,
)

DECIMAL = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
EVERY_UNIT = [
    *(("bytes", f"{prefix}B", scale) for prefix, scale in (DECIMAL | BINARY | {"": 1}).items()),
    *(("bytes", f"{prefix}bit", scale / 8) for prefix, scale in DECIMAL.items()),
    *(("bytes_per_s", f"{prefix}B/s", scale) for prefix, scale in (DECIMAL | BINARY | {"": 1}).items()),
    *(("bytes_per_s", f"{prefix}bit/s", scale / 8) for prefix, scale in (DECIMAL | {"": 1}).items()),
    *(("flops", f"{prefix}FLOP", scale) for prefix, scale in (DECIMAL | {"": 1}).items()),
    *(("flops_per_s", f"{prefix}FLOP/s", scale) for prefix, scale in (DECIMAL | {"": 1}).items()),
    *(("seconds", unit, scale) for unit, scale in {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}.items()),
    *(("seconds", unit, scale) for unit, scale in {"min": 60, "h": 3600, "d": 86400}.items()),
    *(("watts", unit, scale) for unit, scale in {"W": 1, "kW": 1e3, "MW": 1e6}.items()),
    *(("metres", unit, scale) for unit, scale in {"m": 1, "km": 1000}.items()),
    *(("joules", unit, scale) for unit, scale in {"J": 1, "kJ": 1e3, "MJ": 1e6, "kWh": 3.6e6}.items()),
]


def refused(text, dimension):
    with pytest.raises(FileError) as caught:
        parse_quantity(text, dimension, "--it")
    return caught.value


@pytest.mark.parametrize(("dimension", "unit", "scale"), EVERY_UNIT)
def test_every_unit_reads_with_and_without_a_space(dimension, unit, scale):
    assert isclose(parse_quantity(f"8{unit}", dimension), 8 * scale, rel_tol=1e-15)
    assert parse_quantity(f" 8 {unit} ", dimension) == parse_quantity(f"8{unit}", dimension)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("80 GB", "bytes", 80_000_000_000),
        ("80 GiB", "bytes", 85_899_345_920),
        ("2 GiB", "bytes", 2_147_483_648),
        ("400 Gbit/s", "bytes_per_s", 50e9),
        ("3.35 TB/s", "bytes_per_s", 3.35e12),
        ("4.5e+11B/s", "bytes_per_s", 4.5e11),
        ("4.5E11 B/s", "bytes_per_s", 4.5e11),
        ("989.4TFLOP/s", "flops_per_s", 989.4e12),
        ("0.822 us", "seconds", 0.822e-6),
        ("130ms", "seconds", 0.13),
        (".5 s", "seconds", 0.5),
        ("1_000 B", "bytes", 1000),
        ("0.0029296875 MiB", "bytes", 3072),
    ],
)
def test_quantities_read_exactly(text, dimension, value):
    assert parse_quantity(text, dimension) == value


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("131064", "length", 131064),
        ("128K", "length", 131072),
        ("128Ki", "length", 131072),
        ("128 K tokens", "length", 131072),
        ("8192 tokens", "length", 8192),
        ("0.5K", "length", 512),
        ("100B tokens", "count", 100 * 10**9),
        ("100B", "count", 100 * 10**9),
        ("1.5T", "count", 1_500_000_000_000),
        ("2M", "count", 2_000_000),
        ("3K", "count", 3000),
        ("7", "count", 7),
    ],
)
def test_lengths_read_k_as_1024_and_counts_as_1000(text, dimension, value):
    found = parse_quantity(text, dimension)
    assert found == value
    assert isinstance(found, int)


def test_m_on_a_length_is_refused_with_both_spellings():
    error = refused("1M", "length")
    assert error.code == "IO002"
    assert error.fix == "write 1000000 or 1048576"


@pytest.mark.parametrize(("text", "value"), [("75%", 0.75), ("0.75", 0.75), ("100%", 1.0), ("0", 0.0), ("1", 1.0)])
def test_shares_read_as_percent_or_fraction(text, value):
    assert parse_quantity(text, "share") == value


@pytest.mark.parametrize("text", ["75", "101%", "-1%", "1.5", "0.5 GB", "half"])
def test_what_is_no_share_is_refused(text):
    assert refused(text, "share").code in {"IO001", "IO002", "IO003"}


@pytest.mark.parametrize(
    ("dimension", "fix"),
    [
        ("bytes", "80GiB"),
        ("seconds", "80ms"),
        ("flops", "80TFLOP"),
        ("bytes_per_s", "80TB/s"),
        ("flops_per_s", "80TFLOP/s"),
        ("watts", "80kW"),
        ("joules", "80kJ"),
        ("metres", "80m"),
    ],
)
def test_a_bare_number_is_refused_with_the_right_spelling(dimension, fix):
    error = refused("80", dimension)
    assert error.code == "IO002"
    assert fix in error.fix
    assert "80 has no unit" in error.cause


@pytest.mark.parametrize(
    ("text", "dimension", "said"),
    [
        ("450 GB", "bytes_per_s", "a unit of bytes, where bytes_per_s is needed"),
        ("450 GB/s", "bytes", "a unit of bytes_per_s, where bytes is needed"),
        ("3 ms", "bytes", "a unit of seconds"),
        ("3 qs", "seconds", "'qs' is not a unit of seconds"),
        ("3 MiB", "count", "'MiB' is not a unit of count"),
        ("3 G", "length", "'G' is not a unit of length"),
    ],
)
def test_a_unit_of_another_kind_is_refused_by_name(text, dimension, said):
    error = refused(text, dimension)
    assert error.code == "IO002"
    assert said in error.cause
    assert "--it" in error.cause


def test_a_unit_in_the_wrong_case_is_answered_with_the_right_one():
    assert "GB" in refused("80 gb", "bytes").fix
    assert "TFLOP/s" in refused("989 tflop/s", "flops_per_s").fix


@pytest.mark.parametrize("text", ["", "GB", "abc", "ms 3", "nan s", "inf B", "--3 s", "+-3s", ".", "e5 B"])
def test_text_without_a_number_is_io001(text):
    assert refused(text, "seconds").code == "IO001"


LONG = ["9" * 101 + " s", "0." + "0" * 5000 + "1 s"]


@pytest.mark.parametrize("text", ["-1 s", "1e400 s", "1e-400 s", "0e99999 s", "1e61 s", *LONG])
def test_numbers_out_of_range_are_io003(text):
    assert refused(text, "seconds").code == "IO003"


PARTS = [("0.5 B", "bytes"), ("1 bit", "bytes"), ("0.3K", "length"), ("0.0001K", "count")]


@pytest.mark.parametrize(("text", "dimension"), PARTS)
def test_bytes_lengths_and_counts_are_whole(text, dimension):
    error = refused(text, dimension)
    assert error.code == "IO003"
    assert "not a whole number" in error.cause


def test_a_part_of_a_byte_in_a_larger_unit_is_its_nearest_byte():
    assert parse_quantity("79.11GiB", "bytes") == 84943715697
    assert parse_quantity("1.0001 KB", "bytes") == 1000
    assert refused("0.0004 KB", "bytes").code == "IO003", "that is less than one"


@given(text=st.text(max_size=30), dimension=st.sampled_from(sorted(set(DIMENSIONS.values()))))
@example(text="1e" + "9" * 5000 + "B", dimension="bytes")
@example(text="0e" + "9" * 5000 + "B", dimension="bytes")
@example(text="٣ s", dimension="seconds")
@example(text="1\x00s", dimension="seconds")
def test_any_text_reads_as_a_number_or_is_refused_with_a_code(text, dimension):
    try:
        value = parse_quantity(text, dimension)
    except MeshwrightError as error:
        assert error.code.startswith("IO0")  # noqa: PT017 - both outcomes are right
    else:
        assert value >= 0


@given(value=st.floats(1e-50, 1e50), dimension=st.sampled_from(sorted(set(SI_SUFFIX) - {"bytes"})))
def test_si_text_reads_back_bit_for_bit(value, dimension):
    """What flips and levers print can be typed back."""
    assert parse_quantity(f"{value!r}{SI_SUFFIX[dimension]}", dimension) == value


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (show_bytes(102.03e9), "102.03 GB"),
        (show_bytes(10240), "10.24 KB"),
        (show_bytes(512), "512 B"),
        (show_seconds(0.1191), "119.10 ms"),
        (show_seconds(11.55e-6), "11.55 us"),
        (show_seconds(90.0), "90.00 s"),
        (show_seconds(5 * 3600.0), "5.00 h"),
        (show_seconds(34.3 * 86400), "34.30 d"),
        (show_seconds(0.0), "0 s"),
        (show_rate(3.35e12), "3.35 TB/s"),
        (show_flops(989.4e12, "FLOP/s"), "989.40 TFLOP/s"),
        (show_flops(2.4e9), "2.40 GFLOP"),
    ],
)
def test_display_rounds_for_reading(shown, text):
    assert shown == text


def test_an_exact_reading_keeps_every_decimal():
    assert parse_exact("0.1 ms", "seconds") == Fraction(1, 10_000)
    assert parse_exact("229.7549MiB", "bytes") == Fraction(2_297_549, 10_000) * 2**20
    with pytest.raises(FileError) as caught:
        parse_exact("10", "seconds")
    assert caught.value.code == "IO002"


@pytest.mark.parametrize(
    ("text", "dimension", "fix"),
    [
        ("400Gb/s", "bytes_per_s", "write 400Gbit/s for bits, GB/s for bytes"),
        ("400Gbps", "bytes_per_s", "write 400Gbit/s for bits, GB/s for bytes"),
        ("64Mb", "bytes", "write 64Mbit for bits, MB for bytes"),
    ],
)
def test_bits_are_not_mended_into_bytes(text, dimension, fix):
    # 400 Gb/s is how a NIC is sold: GB/s for it would be eight times as much
    assert refused(text, dimension).fix == fix
