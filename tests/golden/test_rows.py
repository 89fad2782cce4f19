"""The harness reads rows as they are meant: units, sums, lists, tolerances, paths."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.golden.paths import select
from tests.golden.rows import Quantity, agrees, facts, read_inputs, read_value


@pytest.mark.parametrize(
    ("text", "si"),
    [
        ("80 GB", 80 * 10**9),
        ("2 GiB", 2 * 2**30),
        ("187.5 MiB", 196_608_000),
        ("3350e9 B/s", 3350 * 10**9),
        ("400 Gbit/s", 50 * 10**9),
        ("0.822 us", Fraction(822, 10**9)),
        ("130 ms", Fraction(13, 100)),
        ("10.2 kW", 10_200),
        ("1.21 kJ", 1_210),
        ("75%", Fraction(3, 4)),
        ("989.4e12 FLOP/s BF16 dense", Fraction(9894) * 10**11),
        ("262144 B/token", 262144),
        ("8 (s=131064..131071)", 8),
        ("63967068160 B (64*930 MiB+151936*5120*2)", 63967068160),
        ("128*37748736 B", 128 * 37748736),
        ("64*930 MiB + 151936*5120*2 B", 64 * 930 * 2**20 + 151936 * 5120 * 2),
        ("V(131064)=98.324e9 B", 98_324_000_000),
        ("weights/8 + KV/4 = 5.786e9 B", 5_786_000_000),
        ("4096 BF16", 4096),
    ],
)
def test_a_number_is_read_with_its_unit(text, si):
    value = read_value(text)
    assert isinstance(value, Quantity)
    assert value.si == si


@pytest.mark.parametrize(
    "text", ["weight elements*2 + 4*Q*d*(s+1)*L", "m*4096*2", "H100 SXM", "2x HGX H100", "ring", "1/8"]
)
def test_words_and_formulas_of_names_stay_text(text):
    assert read_value(text) == text


def test_a_model_may_stand_before_its_shapes():
    found = read_inputs("Qwen3-32B: L=64;hidden=5120;Q heads=64;untied;BF16")
    assert found["model"] == "Qwen3-32B"
    assert set(found) == {"model", "L", "hidden", "Q heads", "untied", "BF16"}
    assert found["untied"] is True


def test_a_later_value_overrides_an_earlier_one():
    assert read_inputs("sessions=4;sessions=1")["sessions"] == read_value("1")


def test_lists_are_read():
    assert read_value("[1,10,100]") == read_value("1,10,100") == (1, 10, 100)


@pytest.mark.parametrize(
    ("text", "option"),
    [("0.822e-6 s", "0.822e-6 s"), ("8", 8), ("5.70", "5.70"), ("2 GiB", "2 GiB"), ("75%", "75 %"), ("2*3 B", "6 B")],
)
def test_a_value_is_handed_on_with_its_unit(text, option):
    value = read_value(text)
    assert isinstance(value, Quantity)
    assert value.spelled() == option


def test_a_tolerance_of_zero_is_exact():
    assert agrees(47, Fraction(47), Fraction(0))
    assert not agrees(47.000001, Fraction(47), Fraction(0))
    assert agrees(14.6754, Fraction("14.68"), Fraction("0.000341"))
    assert not agrees(14.6749, Fraction("14.68"), Fraction("0.000341"))


@pytest.mark.parametrize("found", [None, True, "47", {"tp": 47}, float("nan")])
def test_what_is_no_number_agrees_with_none(found):
    assert not agrees(found, Fraction(1), Fraction(1))


def test_a_layout_agrees_by_its_axes():
    wanted = next(fact for fact in facts() if fact.expected == "TP2").value
    layout = {"replicas": 4, "tp": 2, **dict.fromkeys(("cp", "pp", "ep", "etp", "dp_shard", "dp_replicate"), 1)}
    assert agrees(layout, wanted, Fraction(0))
    assert not agrees({**layout, "pp": 2}, wanted, Fraction(0))
    assert not agrees({**layout, "tp": 4}, wanted, Fraction(0))


def test_a_path_opens_objects_elements_and_filters():
    document = {"rows": [{"id": "tp=2,pp=1", "s": [1, 2]}, {"id": "tp=4,pp=1", "s": [3, 4]}]}
    assert select(document, "rows[id=tp=4,pp=1].s[0]") == 3
    assert select(document, "rows[1].s") == [3, 4]
    assert select(document, "") == document


@pytest.mark.parametrize("path", ["rows[id=3].s", "rows[kind=a].s", "rows[2]", "other", "rows.s"])
def test_a_path_to_nothing_or_to_many_is_refused(path):
    document = {"rows": [{"id": 1, "kind": "a", "s": 1}, {"id": 2, "kind": "a", "s": 2}]}
    with pytest.raises(KeyError):
        select(document, path)
