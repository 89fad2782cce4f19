"""Faults planted in recorded calls, as plain data: each is found, named on both sides, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from meshwright.base.errors import RunError, UserError
from meshwright.base.result import plain
from meshwright.verify.calls import check_calls, faults_of, read_calls
from meshwright.workload.calls import Call, Group, RankCalls, Span, Use, Wait

TP = Group(name="3", axis="tp", ranks=(0, 1))
PP = Group(name="4", axis="pp", ranks=(0, 1))
RING = Group(name="5", axis="pp", ranks=(0, 1, 2))


def call(kind="all_reduce", *, group=TP, **given):
    return Call(**{"group": group, "kind": kind, "elements": 8, "dtype": "float32", **given})


def send(to, **given):
    return call("send", group=PP, peer=to, **given)


def receive(source, **given):
    return call("recv", group=PP, peer=source, **given)


def waited(*calls):
    """Each call, and the wait for it."""
    return tuple(event for number, item in enumerate(calls) for event in (item, Wait(awaited=number)))


def run(*events, ended=True):
    """Records of ranks 0, 1, ..."""
    return [RankCalls(rank=rank, events=tuple(items), ended=ended) for rank, items in enumerate(events)]


def only(records, turns="free"):
    (fault,) = faults_of(records, turns)
    return fault


GOOD = (call(), call("broadcast", peer=1), call("all_to_all", gives=(3, 5), takes=(3, 2)))
MIRRORED = (call(), call("broadcast", peer=1), call("all_to_all", gives=(2, 6), takes=(5, 6)))


@pytest.mark.parametrize("turns", ["free", "pair", "group"])
def test_calls_that_match_have_no_fault(turns):
    records = run(waited(*GOOD, send(1), receive(1)), waited(*MIRRORED, receive(0), send(0)))
    result = check_calls(records, turns)
    assert result.verdict.answer == "yes"
    assert result.verdict.text == (
        "10 calls of 2 ranks in 2 groups match and end, and no buffer is used before its wait"
    )


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("order", call("reduce_scatter")),
        ("size", call(elements=9)),
        ("dtype", call(dtype="bfloat16")),
        ("operation", call(operation="max")),
    ],
)
def test_a_collective_that_differs_is_named_with_both_sides(kind, other):
    fault = only(run(waited(call("barrier"), call()), waited(call("barrier"), other)))
    assert (fault.kind, fault.rank, fault.call, fault.other, fault.other_call) == (kind, 0, 1, 1, 1)
    assert fault.text == (
        f"{kind} differs: tp [0, 1], collective 1: rank 0 has all_reduce of 8 float32 (its call 1), "
        f"rank 1 has {other.text} (its call 1)"
    )


def test_roots_that_differ_are_named():
    fault = only(run(waited(call("broadcast", peer=0)), waited(call("broadcast", peer=1))))
    assert fault.kind == "root"
    assert "broadcast of 8 float32 from rank 0" in fault.text
    assert "broadcast of 8 float32 from rank 1" in fault.text


@pytest.mark.parametrize("changed", [{"gives": (2, 7)}, {"takes": (4, 6)}])
def test_an_exchange_matches_what_is_given_with_what_is_taken(changed):
    """Own shares are between nobody; rank 0 gives rank 1 five and takes two."""
    other = replace(MIRRORED[2], **changed)
    found = faults_of(run(waited(GOOD[2]), waited(other)), "free")
    assert [fault.kind for fault in found] == ([] if changed == {"gives": (2, 7)} else ["size"])


def test_only_the_first_mismatch_of_a_group_is_told():
    fault = only(run(waited(call(), call("reduce_scatter"), call()), waited(call("reduce_scatter"), call())))
    assert (fault.kind, fault.call) == ("order", 0)


def test_groups_are_compared_apart():
    """The order between calls of two groups is free where nobody waits in it."""
    one, other = call(), call(group=PP)
    ends = (Wait(awaited=0), Wait(awaited=1))
    assert faults_of(run((one, other, *ends), (other, one, *ends)), "free") == ()


def test_a_collective_that_a_rank_lacks_is_missing():
    fault = only(run(waited(call(), call()), waited(call())))
    assert (fault.kind, fault.rank, fault.call, fault.other, fault.other_call) == ("missing_call", 0, 1, 1, None)
    assert "rank 1 has nothing for it" in fault.text


def test_a_send_without_a_receive_and_the_reverse_are_named():
    fault = only(run(waited(send(1), send(1)), waited(receive(0))))
    assert fault.kind == "send_without_receive"
    assert fault.text == (
        "send without receive: pp [0, 1], transfer 1 from rank 0 to rank 1: rank 0 has send of 8 float32 to rank 1 "
        "(its call 1), rank 1 has nothing for it"
    )
    fault = only(run((), waited(receive(0))))
    assert (fault.kind, fault.rank, fault.other) == ("receive_without_send", 1, 0)


def test_transfers_match_by_tag():
    assert (
        faults_of(run((send(1, tag=1), send(1, tag=2), *W2), (receive(0, tag=2), receive(0, tag=1), *W2)), "free") == ()
    )
    found = faults_of(run(waited(send(1, tag=1)), waited(receive(0, tag=2))), "free")
    assert {fault.kind for fault in found} == {"send_without_receive", "receive_without_send"}


@pytest.mark.parametrize(("kind", "changed"), [("size", {"elements": 4}), ("dtype", {"dtype": "float64"})])
def test_a_transfer_of_two_sizes_or_types_is_named(kind, changed):
    fault = only(run(waited(send(1)), waited(receive(0, **changed))))
    assert (fault.kind, fault.group) == (kind, PP)


W2 = (Wait(awaited=0), Wait(awaited=1))


def test_two_ranks_that_both_wait_for_a_receive_first_are_a_cycle():
    fault = only(run(waited(receive(1), send(1)), waited(receive(0), send(0))))
    assert fault.kind == "cycle"
    assert [(link.rank, link.call, link.waits_for) for link in fault.cycle] == [(0, 0, 1), (1, 0, 0)]
    assert fault.text == (
        "cyclic wait: pp [0, 1]: rank 0 in its call 0 (recv of 8 float32 from rank 1), which waits for rank 1 in its "
        "call 0 (recv of 8 float32 from rank 0), which waits for rank 0"
    )


def test_collectives_of_two_groups_in_two_orders_are_a_cycle():
    fault = only(run(waited(call(), call(group=PP)), waited(call(group=PP), call())))
    assert {(link.rank, link.text) for link in fault.cycle} == {(0, call().text), (1, call().text)}


def test_a_cycle_goes_round_a_ring_of_ranks():
    def of(rank):
        before, after = (rank - 1) % 3, (rank + 1) % 3
        return waited(call("recv", group=RING, peer=before), call("send", group=RING, peer=after))

    fault = only(run(*(of(rank) for rank in range(3))))
    assert [link.rank for link in fault.cycle] == [0, 2, 1]


@pytest.mark.parametrize("turns", ["pair", "group"])
def test_sends_first_on_both_sides_are_a_cycle_where_transfers_run_in_turn(turns):
    """Nobody waits before both are given, so a backend that runs them at once ends."""
    records = run((send(1), receive(1), *W2), (send(0), receive(0), *W2))
    assert faults_of(records, "free") == ()
    fault = only(records, turns)
    assert fault.kind == "cycle"
    assert {link.rank for link in fault.cycle} == {0, 1}


@pytest.mark.parametrize("turns", ["pair", "group"])
def test_transfers_of_one_batch_do_not_wait_for_each_other(turns):
    records = run((send(1, batch=0), receive(1, batch=0), *W2), (send(0, batch=0), receive(0, batch=0), *W2))
    assert faults_of(records, turns) == ()


def test_pairs_of_ranks_do_not_wait_for_other_pairs_unless_the_group_runs_in_turn():
    """Rank 1 gives to rank 2 first and takes from rank 0 first: one order for the group, none for the pairs."""

    def of(kind, peer):
        return call(kind, group=RING, peer=peer)

    records = run(
        (of("send", 1), of("recv", 2), *W2),
        (of("send", 2), of("recv", 0), *W2),
        (of("send", 0), of("recv", 1), *W2),
    )
    assert faults_of(records, "pair") == ()
    assert only(records, "group").kind == "cycle"


BUFFER = Span(storage=0, start=0, stop=32)


@pytest.mark.parametrize(
    ("held", "use", "kind"),
    [
        ({"reads": (BUFFER,)}, {"written": (BUFFER,)}, "overwritten_before_wait"),
        ({"reads": (BUFFER,)}, {"read": (BUFFER,)}, None),
        ({"writes": (BUFFER,)}, {"read": (BUFFER,)}, "read_before_wait"),
        ({"writes": (BUFFER,)}, {"written": (Span(storage=0, start=31, stop=40),)}, "overwritten_before_wait"),
        ({"writes": (BUFFER,)}, {"written": (Span(storage=0, start=32, stop=40),)}, None),
        ({"writes": (BUFFER,)}, {"written": (Span(storage=1, start=0, stop=32),)}, None),
    ],
)
def test_a_buffer_is_the_calls_until_its_wait(held, use, kind):
    operator = Use(operator="aten.fill_.Scalar", **use)
    early = run((call(**held), operator, Wait(awaited=0)), waited(call()))
    late = run((call(**held), Wait(awaited=0), operator), waited(call()))
    assert faults_of(late, "free") == ()
    if kind is None:
        assert faults_of(early, "free") == ()
        return
    fault = only(early)
    assert (fault.kind, fault.rank, fault.call) == (kind, 0, 0)
    assert fault.text == (
        f"{kind.replace('_', ' ')}: tp [0, 1]: rank 0, call 0 (all_reduce of 8 float32): its buffer is used by "
        "aten.fill_.Scalar before the wait"
    )


def test_a_buffer_of_a_call_in_flight_is_not_given_to_another():
    fault = only(run((send(1, reads=(BUFFER,)), receive(1, writes=(BUFFER,)), *W2), (receive(0), send(0), *W2)))
    assert (fault.kind, fault.call, fault.other_call) == ("overwritten_before_wait", 0, 1)


def test_a_call_that_nobody_waits_for_is_named_where_the_rank_ended():
    assert only(run((call(),), waited(call()))).kind == "never_awaited"
    broken = run((call(),), waited(call()), ended=False)
    assert faults_of(broken, "free") == ()


def test_what_a_rank_lacks_that_stopped_early_stands_behind_the_rest():
    records = run(
        waited(call(), call("barrier", group=PP)),
        waited(call(), call("barrier", group=PP), receive(0)),
    )
    records[0] = replace(records[0], events=records[0].events[:2], ended=False)
    found = faults_of(records, "free")
    assert {fault.kind for fault in found} == {"missing_call", "receive_without_send"}
    assert all("stopped early" in fault.text for fault in found)


def written(record, path):
    """As a run writes it."""
    lines = [{"rank": record.rank}, *record.events, *([{"ended": True}] if record.ended else [])]
    path.write_text("".join(json.dumps(plain(line)) + "\n" for line in lines))
    return path


def test_records_go_through_files(tmp_path):
    records = run(
        (send(1, batch=1, reads=(BUFFER,)), Use(operator="aten.mul_.Tensor", written=(BUFFER,)), Wait(awaited=0)),
        waited(receive(0)),
    )
    assert [read_calls(written(record, tmp_path / "calls")) for record in records] == records


def test_a_record_that_was_cut_off_is_read_to_its_last_whole_line(tmp_path):
    record = RankCalls(rank=3, events=(call(), Wait(awaited=0)))
    path = written(record, tmp_path / "calls")
    path.write_text(path.read_text()[: -len('aited": 0}\n{"ended": true}\n')])
    assert read_calls(path) == RankCalls(rank=3, events=(call(),), ended=False)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "RUN041"),
        ("{}\n", "RUN041"),
        ('{"rank": "x"}\n', "IO013"),
        ('{"rank": 0}\n{"awaited": \n', "IO012"),
        ('{"rank": 0}\n{"awaited": "x"}\n', "IO013"),
        ('{"rank": 0}\n{"awaited": 0, "x": 1}\n', "IO015"),
    ],
)
def test_a_file_that_is_no_record_is_refused(text, code, tmp_path):
    (tmp_path / "calls").write_text(text)
    with pytest.raises(UserError) as refused:
        read_calls(tmp_path / "calls")
    assert refused.value.code == code


@pytest.mark.parametrize(
    "records",
    [
        run(waited(call())),
        run(waited(call()), waited(call()))[:1] * 2,
        run((Wait(awaited=0),), ()),
        run((), waited(call("send", group=PP, peer=7))),
    ],
)
def test_records_that_are_no_run_are_refused(records):
    with pytest.raises(RunError) as refused:
        check_calls(records, "free")
    assert refused.value.code == "RUN041"
