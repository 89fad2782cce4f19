"""Every golden row of the capabilities that are built is answered by the product, or listed as waiting."""

from __future__ import annotations

from fractions import Fraction

import pytest

from meshwright.base.errors import UserError
from tests.golden.context import Row, context, read_table
from tests.golden.registry import answer, answer_by, answered, routes, row_of
from tests.golden.rows import Fact, Quantity, Value, agrees, facts
from tests.golden.stated import compared, unused
from tests.golden.waiting import built, waiting

_ANOTHER = {
    "Qwen3-32B": ("Qwen3-235B-A22B",),
    "Qwen3-235B-A22B": ("Qwen/Qwen3-30B-A3B",),
    "Qwen3-30B-A3B": ("Qwen/Qwen3-32B",),
    "Qwen3-8B": ("Qwen/Qwen3-32B",),
    "Qwen3.6-35B-A3B": ("Qwen/Qwen3-32B", "Qwen/Qwen3-Next-80B-A3B-Instruct"),
    "H100 SXM": ("h200-sxm", "a100-80gb-sxm"),
    "RTX 4090": ("h200-sxm", "hgx-h200"),
    "Llama 3 table 4": ("palm-540b",),
    "DGX H100": ("hgx-b200", "DGX-2"),
    "ASHRAE TC 9.9 2021 / example assumption": ("liquid",),
    "100,60,40,40 GB": ("110GB,50GB,40GB,30GB",),
    "[50 ms, 60 s]": ("50ms,30s",),
    "cpu-proxy": ("gpu-sm",),
    "gpu-sm": ("cpu-proxy",),
    "nic-processor": ("gpu-sm",),
    "pcie-nic": ("on-chip",),
    "rows 0,1": ("0,1,2,3",),
    "checkerboard of a 4x4 grid": ("0,1,4,5",),
    "NVLink 4": ("ConnectX-7",),
    "ConnectX-7": ("NVLink 4",),
    "[1,1,2,1] ms": ("1ms,1ms,3ms,1ms",),
    "fill_drain": ("one_f_one_b",),
    "zero_bubble_h1": ("zero_bubble_h2",),
    "Gloo, 4 MiB": ("Gloo, 64 MiB",),
    "Gloo, 64 MiB": ("Gloo, 4 MiB",),
    "bf16": ("fp32", "fp16"),
    "fp16": ("bf16",),
    "fp32": ("bf16",),
    "e4m3": ("bf16",),
    "kept": ("transient",),
    "fp16-zero-gradients": ("least-loss-scale",),
    "least-loss-scale": ("most-loss-scale",),
    "most-loss-scale": ("least-loss-scale",),
    "fp8-loss-error": ("fp8-promotion",),
    "fp8-promotion": ("fp8-loss-error",),
    "parameters": ("gradients",),
    "MegaScale": ("Meta reliability",),
    "Meta reliability": ("MegaScale",),
    "GB200 NVL72": ("DGX-2", "CloudMatrix384"),
    "DGX-2": ("GB200 NVL72",),
    "DGX A100": ("DGX-2",),
    "CloudMatrix384": ("GB200 NVL72",),
    "TPU v4": ("GB200 NVL72",),
    "TPU v5p": ("NVLink 4",),
    "4 -> 8": ("4 -> 16",),
    "ring": ("switch",),
    "swing": ("recursive_halving",),
    "recursive_halving": ("swing",),
    "r xor 2^": ("swing",),
    "all k^3, self included": ("others",),
    "all on A": ("beside sender",),
    "beside sender": ("all on A",),
    "scores as they were": ("scores after a change",),
    "scores after a change": ("scores as they were",),
    "64x768": ("64x1024",),
    "64x256": ("64x128",),
    "counts:8x64": ("counts:16x32",),
    "0-2-1-3": ("0-1-2-3",),
    "sum e^(m_r-m) u_r": ("6,4",),
    "Kimi K3": ("DeepSeek V4-Pro",),
    "DeepSeek V4-Flash": ("Kimi K3",),
}


def _ids(found: tuple[Fact, ...]) -> list[str]:
    return [fact.id for fact in found]


@pytest.mark.parametrize("fact", answered(), ids=_ids(answered()))
def test_the_product_answers_the_row(fact):
    found = answer(fact)
    if fact.status == "negative":
        assert not agrees(found, fact.value, fact.rel_tol), fact.question
        assert fact.correct is None or agrees(found, fact.correct, fact.rel_tol), fact.question
    else:
        assert agrees(found, fact.value, fact.rel_tol), f"{fact.question}: {found} is not {fact.expected} {fact.unit}"


@pytest.mark.parametrize("fact", answered(), ids=_ids(answered()))
def test_the_answer_follows_from_the_row(fact):
    """No answer is a constant: some input, changed alone, changes it."""
    row, found = row_of(fact), answer(fact)
    places = reversed(row.places().items())  # what the row itself states stands last
    assert any(_moves(row, place, other, found) for place, value in places for other in _others(value))


def test_what_a_row_states_beside_its_inputs_is_what_the_product_derives():
    for fact in answered():
        for item in compared(fact):
            assert abs(item.derived - item.stated.si) <= item.stated.slack, (
                f"{fact.id}: {item.name}={item.stated.digits}"
            )


def test_everything_a_row_states_is_passed_compared_or_remarked():
    assert {fact.id: unused(fact) for fact in answered() if unused(fact)} == {}


def test_every_row_of_a_built_capability_is_answered_or_waiting():
    wanted = {fact.id for fact in facts() if fact.capability in built()}
    assert wanted == set(routes()) | set(waiting())


def test_a_waiting_row_has_no_adapter():
    assert not set(routes()) & set(waiting())


def test_a_waiting_row_names_its_mechanism():
    assert all(mechanism.strip() for mechanism in waiting().values())


def test_the_ids_of_the_rows_are_distinct():
    names = _ids(facts())
    assert len(names) == len(set(names))


def test_the_inputs_of_every_row_can_be_read():
    assert all(name == name.strip() != "" for fact in facts() for name in fact.stated)


def test_the_context_completes_answered_rows_only():
    assert set(context()["row"]) <= set(routes())


def test_the_context_overrides_nothing_that_a_row_states():
    stated = {fact.id: set(fact.stated) for fact in answered()}
    assert not [name for name, given in context()["row"].items() if set(given) & stated[name]]


def test_the_context_says_nothing_that_no_command_takes():
    known = {row.command for row in map(row_of, answered())}
    for table in ("given", "takes"):
        assert set(context()[table]) <= known
    for command, given in context()["given"].items():
        assert set(given) <= set(context()["takes"][command])
    for name, given in context()["row"].items():
        assert set(given) - {"takes"} <= set(context()["takes"][routes()[name].command])


def test_the_context_holds_no_expected_value():
    """Beside layouts and counts, which are small whole numbers that a row may also expect by chance."""
    for fact in answered():
        given = {**read_table("given", routes()[fact.id].command), **read_table("row", fact.id)}
        completed = [value for name, value in given.items() if name not in fact.stated]
        assert fact.value not in [item.si for item in completed if isinstance(item, Quantity) and item.number > 8], (
            fact.id
        )


def _others(value: Value) -> tuple[Value, ...]:
    """The value changed: twice, half, four times a number; another model, device or archived pair."""
    if isinstance(value, Quantity):
        return tuple(
            Quantity(number=value.number * factor, unit=value.unit, digits="") for factor in (2, Fraction(1, 2), 4)
        )
    if isinstance(value, tuple):
        return (tuple(2 * item for item in value),)
    return _ANOTHER.get(str(value), ())


def _moves(row: Row, place: str, other: Value, found: object) -> bool:
    """Whether the answer is another one; a refused change does not count."""
    try:
        return bool(answer_by(row, changes={place: other}) != found)
    except (UserError, KeyError):
        return False
