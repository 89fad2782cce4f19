"""One layout, its id and its reading from `k=v,...`, and the table of many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meshwright.base.errors import MeshwrightError
from meshwright.base.traced import leaf, values
from meshwright.layout.layout import Layout, read_fixed
from meshwright.layout.layouts import Layouts, columns, distinct, table


def test_the_id_names_replicas_tp_and_pp_always_and_the_rest_where_it_is_not_the_default():
    assert Layout(replicas=4, tp=2).id == "replicas=4,tp=2,pp=1"
    assert Layout(tp=2, ep=2, cp=3, zero=2).id == "replicas=1,tp=2,cp=3,pp=1,ep=2,zero=2"
    named = Layout(dp_shard=4, sp=True, zero=3, schedule="interleaved", virtual_stages=2, recompute="full")
    chosen = "sp=true,zero=3,schedule=interleaved,virtual_stages=2,recompute=full"
    assert named.id == f"replicas=1,dp_shard=4,tp=1,pp=1,{chosen}"
    assert Layout(**read_fixed(named.id)) == named


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tp=4,pp=2", {"tp": 4, "pp": 2}),
        (" tp = 4 , , pp=2,", {"tp": 4, "pp": 2}),
        ("", {}),
        ("sp=true", {"sp": True}),
        ("sp=false,zero=0", {"sp": False, "zero": 0}),
        ("schedule=1f1b", {"schedule": "1f1b"}),
        ("attention=data_parallel", {"attention": "data_parallel"}),
        ("replicas=1,tp=2,pp=1", {"replicas": 1, "tp": 2, "pp": 1}),
    ],
)
def test_fixed_fields_read(text, found):
    assert read_fixed(text) == found


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("tp", "LAY001"),
        ("=4", "LAY001"),
        ("tpp=4", "LAY001"),
        ("tp=0", "LAY001"),
        ("tp=-2", "LAY001"),
        ("tp=1000001", "LAY001"),
        ("zero=4", "LAY001"),
        ("zero=-1", "LAY001"),
        ("id=3", "LAY001"),
        ("tp=two", "IO013"),
        ("tp=", "IO013"),
        ("tp=2.5", "IO013"),
        ("tp=" + "9" * 5000, "IO013"),
        ("sp=maybe", "IO013"),
        ("attention=both", "IO013"),
    ],
)
def test_fields_that_cannot_be_are_refused(text, code):
    with pytest.raises(MeshwrightError, match=code):
        read_fixed(text)


def test_an_unknown_field_is_answered_with_the_nearest():
    with pytest.raises(MeshwrightError) as caught:
        read_fixed("replica=2")
    assert "replicas" in caught.value.fix


@given(text=st.text(max_size=20) | st.from_regex(r"(tp|pp|sp|zero|=|,|-|[0-9]){1,8}", fullmatch=True))
@example(text="tp=٣")
def test_any_text_fixes_fields_or_is_refused_with_a_code(text):
    try:
        assert set(read_fixed(text)) <= set(Layout.__dataclass_fields__)
    except MeshwrightError as error:
        assert error.code[:3] in {"LAY", "IO0"}  # noqa: PT017 - both outcomes are right


LAYOUTS = [Layout(tp=2), Layout(tp=4, sp=True, schedule="1f1b", zero=3), Layout(attention="data_parallel")]


def test_a_row_of_a_table_is_the_layout_that_went_in():
    assert [table(LAYOUTS).row(row) for row in range(3)] == LAYOUTS
    assert len(table(LAYOUTS)) == 3


def test_taking_rows_keeps_their_order_and_takes_masks():
    rows = table(LAYOUTS)
    assert [rows.take([2, 0]).row(row) for row in range(2)] == [LAYOUTS[2], LAYOUTS[0]]
    assert rows.take(np.array([False, True, False])).row(0) == LAYOUTS[1]


def test_columns_fill_the_other_fields_with_their_defaults():
    rows = columns({"tp": np.array([2, 4]), "replicas": np.array([3, 1])})
    assert [rows.row(row) for row in range(2)] == [Layout(tp=2, replicas=3), Layout(tp=4)]
    assert list(rows.columns) == list(Layout.__dataclass_fields__)


def test_an_empty_table_has_every_column():
    assert len(table([])) == 0
    assert list(table([]).columns) == list(Layout.__dataclass_fields__)


@given(
    rows=st.lists(
        st.builds(
            Layout,
            tp=st.sampled_from([1, 2, 10**6]),
            zero=st.integers(0, 3),
            sp=st.booleans(),
            schedule=st.sampled_from([None, "one_f_one_b"]),
            recompute=st.sampled_from(["none", "full"]),
        ),
        max_size=12,
    )
)
def test_distinct_rows_are_one_for_each_combination_and_every_row_is_like_its_own(rows):
    fields = ("tp", "sp", "schedule", "recompute")
    few, place = distinct(table(rows), fields)
    kinds = [tuple(getattr(row, name) for name in fields) for row in rows]
    found = [tuple(getattr(row, name) for name in fields) for row in few.rows()]
    assert len(found) == len(set(found)) == len(set(kinds))
    assert [found[number] for number in place.tolist()] == kinds
    assert few.rows() == tuple(rows[kinds.index(kind)] for kind in found)


def test_distinct_rows_keep_their_traces():
    plain = table([Layout(tp=4, zero=3)])
    traced = np.array([leaf(4, "layout.tp", basis="assumed")], dtype=object)
    few, place = distinct(Layouts(columns={**plain.columns, "tp": traced}), ("tp", "zero", "recompute"))
    assert few.degree("tp")[place][0] is traced[0]
    assert values(few.degree("zero")).tolist() == [3]
