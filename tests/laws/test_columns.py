"""One estimator on columns: a table gives, bit for bit, what its rows give alone, in any order and any chunks."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.collectives import Coded
from meshwright.cost.estimate import Assumptions, estimate_step, flops, read_bytes
from meshwright.cost.memory import serving_ledger
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import Layouts, table
from meshwright.layout.rules import first_broken
from meshwright.model.reader import read_model
from meshwright.system.system import read_system
from meshwright.workload.batches import decode, prefill
from meshwright.workload.messages import has_message
from tests.laws.strategies import layouts, models

SYSTEM = read_system("hgx-h100 x4")


def evaluated(model, rows: Layouts, batch, all_reduce, reads) -> dict[str, list[object]]:
    """Every column of the step and of the ledger, as plain lists."""
    step = estimate_step(model, SYSTEM, rows, batch, Assumptions(all_reduce=all_reduce, weight_reads=reads))
    ledger = serving_ledger(
        model, rows, sessions=rows.degree("replicas") + 2, tokens=40, workspace_bytes=3, capacity_bytes=400_000
    )
    found = {item.name: getattr(ledger, item.name) for item in fields(ledger)}
    found |= {"local": step.local_s, "exchange": step.exchange_s, "total": step.total_s}
    found |= {"read": read_bytes(step), "flops": flops(step)}
    for number, work in enumerate(step.work):
        found |= {f"{number}.seconds": work.seconds, f"{number}.bound": work.compute_bound}
    lists = {name: plain(column) for name, column in found.items()}
    for message, exchange in step.exchanges:
        has = has_message(message, rows).tolist()
        for item in fields(exchange):
            column = zip(plain(getattr(exchange, item.name)), has, strict=True)
            lists[f"{_named(message)}.{item.name}"] = [cell if own else None for cell, own in column]
    return lists


def _named(message) -> tuple[object, ...]:
    size = message.per_row_bytes if message.kind is None else None
    return (message.operation, message.axis, message.after, message.where, message.kind, size)


def side_by_side(parts: list[dict[str, list[object]]]) -> dict[str, list[object]]:
    """Tables after each other. An exchange that no row of a table has is no column there, and None of its rows."""
    names = dict.fromkeys(name for part in parts for name in part)
    rows = [len(part["total"]) for part in parts]
    joined = {
        name: [cell for part, count in zip(parts, rows, strict=True) for cell in part.get(name, [None] * count)]
        for name in names
    }
    return {name: column for name, column in joined.items() if any(cell is not None for cell in column)}


def plain(column) -> list[object]:
    """Numbers by their bits (NaN equals itself so), everything else as it is."""
    if isinstance(column, Coded):
        return [column[row] for row in range(len(column))]
    if column.dtype == np.float64:
        return np.ascontiguousarray(column).view(np.int64).tolist()
    return column.tolist()


@settings(max_examples=40)
@given(data=st.data(), all_reduce=st.sampled_from(["auto", "measured", "ring", "tree"]))
def test_a_table_gives_what_its_rows_give_alone(data, all_reduce):
    model = data.draw(models())
    rows = [data.draw(layouts(model)) for _ in range(data.draw(st.integers(1, 7)))]
    batch = data.draw(st.sampled_from([decode(30, 3), decode(0, 1), prefill(9)]))
    reads = data.draw(st.sampled_from(["strict", "even"]))
    whole = evaluated(model, table(rows), batch, all_reduce, reads)
    alone = [evaluated(model, table([row]), batch, all_reduce, reads) for row in rows]
    assert side_by_side([whole]) == side_by_side(alone)


def test_an_exchange_that_only_another_row_has_forbids_nothing():
    """The tree sums no six ranks; one row sums over them, the other deals its rows out."""
    model = read_model("tiny-qwen3-moe")
    summed = Layout(tp=2, dp_shard=3, ep=2, etp=2)
    dealt = Layout(tp=1, dp_shard=6, ep=1, etp=6, attention="data_parallel")
    both = evaluated(model, table([summed, dealt]), decode(30, 3), "tree", "strict")
    assert both["total"][1] == evaluated(model, table([dealt]), decode(30, 3), "tree", "strict")["total"][0]
    assert not np.isnan(np.array(both["total"]).view(np.float64)[1])


@settings(max_examples=20)
@given(data=st.data())
def test_order_and_chunks_change_no_bit(data):
    model = data.draw(models())
    rows = table([data.draw(layouts(model)) for _ in range(8)])
    order = data.draw(st.permutations(range(8)))
    cut = data.draw(st.integers(1, 7))
    whole = evaluated(model, rows, decode(20, 2), "auto", "strict")
    parts = [evaluated(model, rows.take(part), decode(20, 2), "auto", "strict") for part in (order[:cut], order[cut:])]
    assert side_by_side(parts) == side_by_side(
        [{name: [column[row] for row in order] for name, column in whole.items()}]
    )


@settings(max_examples=20)
@given(data=st.data())
def test_rules_judge_a_row_as_in_any_table(data):
    model = data.draw(models())
    degree = st.integers(1, 16)
    random = st.builds(
        Layout, tp=degree, ep=degree, etp=degree, pp=degree, dp_shard=st.integers(1, 2), sp=st.booleans()
    )
    made = table([data.draw(random) for _ in range(6)])
    alone = [first_broken(model, made.take([row]), 64)[0] for row in range(6)]
    assert first_broken(model, made, 64) == alone


@pytest.mark.parametrize("all_reduce", ["auto", "measured"])
def test_an_empty_table_gives_empty_columns(all_reduce):
    model = read_model("tiny-qwen3-moe")
    columns = evaluated(model, table([]), decode(1, 1), all_reduce, "strict")
    assert {len(column) for column in columns.values()} == {0}
