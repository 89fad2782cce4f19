"""Recorded calls of real gloo ranks: planted faults are found, and runs of the trainer have none."""

from __future__ import annotations

import faulthandler
from contextlib import suppress
from datetime import timedelta

import pytest

from meshwright.base.errors import RunError

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402 - after the extra is known to be there

from meshwright.layout.layout import Layout  # noqa: E402
from meshwright.model.reader import read_arithmetic, read_model  # noqa: E402
from meshwright.runtime.calls import axes_of, recorded  # noqa: E402
from meshwright.runtime.loop.samples import SyntheticTokens  # noqa: E402
from meshwright.runtime.loop.trainer import Batch, Recipe, trainer_of  # noqa: E402
from meshwright.runtime.parallel.shards import Precision  # noqa: E402
from meshwright.runtime.state.weights import made_up  # noqa: E402
from meshwright.runtime.world import join  # noqa: E402
from meshwright.verify.calls import check_calls, faults_of, read_calls  # noqa: E402
from meshwright.verify.processes import in_processes  # noqa: E402
from meshwright.workload.calls import Call, Use, Wait  # noqa: E402
from meshwright.workload.slots import Shape, checked_shape  # noqa: E402
from tests.runtime.undisturbed import undisturbed  # noqa: E402

LONG_S = 60.0
SHORT = timedelta(seconds=3)
"""What a rank waits for another at most, where a planted fault lets it wait for ever."""


@pytest.fixture
def records_of(tmp_path):
    """Of a program of two ranks that may break off, by an error or by the end of its process."""

    def records(program):
        def work(rank):
            faulthandler.disable()  # gloo may end a process whose calls do not match
            dist.barrier()  # with patience, as a loaded machine may take long to start both
            dist.group.WORLD.set_timeout(SHORT)
            with suppress(RuntimeError), recorded(tmp_path / str(rank), rank, {}):
                program(rank)

        with suppress(RunError), undisturbed():
            in_processes(work, 2, LONG_S)
        return [read_calls(tmp_path / str(rank)) for rank in range(2)]

    return records


def kinds(records, turns="free"):
    return [fault.kind for fault in faults_of(records, turns)]


def test_collectives_in_another_order_are_found(records_of):
    def program(rank):
        rows = torch.ones(4)
        for turn in (rank, 1 - rank):
            if turn:
                dist.all_reduce(rows)
            else:
                dist.broadcast(rows, 0)

    found = check_calls(records_of(program), "free")
    assert found.verdict.answer == "no"
    assert found.verdict.text.startswith(
        "order differs: world [0, 1], collective 0: rank 0 has broadcast of 4 float32 from rank 0 (its call 0), "
        "rank 1 has all_reduce of 4 float32 (sum) (its call 0)"
    )


def test_collectives_of_another_size_are_found(records_of):
    def program(rank):
        dist.all_reduce(torch.ones(2))
        dist.all_reduce(torch.ones(4 + 4 * rank))

    found = faults_of(records_of(program), "free")
    assert (found[0].kind, found[0].call, found[0].other_call) == ("size", 1, 1)


def test_a_send_without_a_receive_is_found(records_of):
    def program(rank):
        dist.all_reduce(torch.ones(2))
        if rank == 0:
            dist.isend(torch.ones(4), 1).wait(SHORT)

    assert kinds(records_of(program)) == ["send_without_receive"]


def test_receives_that_both_ranks_wait_for_first_are_a_cycle(records_of):
    def program(rank):
        rows = torch.ones(4)
        dist.irecv(rows, 1 - rank).wait(SHORT)
        dist.isend(rows, 1 - rank).wait(SHORT)

    result = check_calls(records_of(program), "free")
    assert result.verdict.text.startswith(
        "cyclic wait: world [0, 1]: rank 0 in its call 0 (recv of 4 float32 from rank 1), which waits for rank 1 in "
        "its call 0 (recv of 4 float32 from rank 0), which waits for rank 0"
    )


@pytest.mark.parametrize("early", [True, False])
def test_a_buffer_overwritten_before_the_wait_is_found(early, records_of):
    def program(rank):
        rows = torch.ones(64)
        work = dist.isend(rows, 1) if rank == 0 else dist.irecv(rows, 0)
        if early and rank == 0:
            rows[8:16].mul_(2.0)
        work.wait()
        rows.mul_(2.0)

    records = records_of(program)
    assert kinds(records) == (["overwritten_before_wait"] if early else [])
    if early:
        (fault,) = faults_of(records, "free")
        assert "rank 0, call 0 (send of 64 float32 to rank 1): its buffer is used by aten.mul_.Tensor" in fault.text


def test_a_buffer_read_before_the_wait_is_found(records_of):
    def program(rank):
        rows = torch.ones(64)
        work = dist.all_reduce(rows, async_op=True)
        if rank == 1:
            rows.view(8, 8).new_empty(3)  # looks at its type alone
            rows.sum()
        work.wait()

    assert kinds(records_of(program)) == ["read_before_wait"]


def test_what_is_recorded_of_each_collective(records_of):
    def program(rank):
        whole, part = torch.ones(8), torch.ones(4)
        dist.all_gather_single(whole, part)
        dist.reduce_scatter_single(part, whole)
        dist.all_gather([torch.ones(4), torch.ones(4)], part)
        dist.all_to_all_single(whole, torch.ones(8))
        dist.all_to_all_single(whole, whole.clone(), [3 + 2 * rank, 5 - 2 * rank], [3 + 2 * rank, 5 - 2 * rank])
        dist.reduce(part, 1, op=dist.ReduceOp.MAX)
        dist.batch_isend_irecv([dist.P2POp(dist.isend, part, 1 - rank), dist.P2POp(dist.irecv, whole[:4], 1 - rank)])[
            0
        ].wait()
        dist.barrier()

    first, second = records_of(program)
    assert [item.text for item in first.calls] == [
        "all_gather of 4 float32",
        "reduce_scatter of 4 float32 (sum)",
        "all_gather of 4 float32",
        "all_to_all of [4, 4] for [4, 4] float32",
        "all_to_all of [3, 5] for [3, 5] float32",
        "reduce of 4 float32 at rank 1 (max)",
        "send of 4 float32 to rank 1",
        "recv of 4 float32 from rank 1",
        "barrier",
    ]
    assert {item.batch for item in first.calls[6:8]} == {0}
    assert first.calls[5].writes == ()
    assert second.calls[5].writes
    assert kinds([first, second]) == ["never_awaited"] * 2  # the receive of each


def test_nothing_is_wrapped_outside_a_recording(records_of, tmp_path):
    methods = [getattr(dist.ProcessGroup, name) for name in ("allreduce", "send", "recv")] + [dist.Work.wait]

    def program(rank):
        dist.all_reduce(torch.ones(2))

    for record in records_of(program):
        assert [type(event) for event in record.events] == [Call, Wait]
    with suppress(ZeroDivisionError), recorded(tmp_path / "0", 0, {}):
        assert dist.Work.wait is not methods[-1]
        _ = 1 / 0
    assert [getattr(dist.ProcessGroup, name) for name in ("allreduce", "send", "recv")] + [dist.Work.wait] == methods


def step_of(layout, rank, folder):
    """The record of one step of the tiny model."""
    model, arithmetic = read_model("tiny-qwen3"), read_arithmetic("tiny-qwen3")
    world = join(layout, rank, torch.device("cpu"))
    batch = Batch(global_batch=8, sequence=8)
    shape = Shape(
        stages=layout.pp,
        micro_batches=batch.global_batch // world.copies,
        virtual_stages=layout.virtual_stages,
    )
    slots = checked_shape(layout.schedule, shape).slots(shape)
    same = Precision(compute=torch.float32, kept=torch.float32, reduced=torch.float32)
    trainer = trainer_of(model, arithmetic, world, slots, batch, Recipe(precision=same), made_up(model, 0))
    data = SyntheticTokens(seed=0, vocab=model.vocab, sequence=batch.sequence, ragged=True)
    with recorded(folder / str(rank), rank, axes_of(world)):
        trainer.step(0, data.sample)


@pytest.mark.parametrize(
    ("layout", "axes"),
    [
        (Layout(tp=2, sp=True, schedule="one_f_one_b"), {"tp", "world", "group"}),
        (Layout(dp_shard=2, zero=3, schedule="one_f_one_b"), {"dp_shard", "world"}),
        (Layout(pp=2, schedule="zero_bubble_h1"), {"pp", "world"}),
        (Layout(pp=2, dp_shard=2, zero=2, schedule="zero_bubble_v"), {"pp", "dp_shard", "world"}),
    ],
)
def test_a_step_of_the_trainer_has_no_fault(layout, axes, tmp_path):
    with undisturbed():
        in_processes(lambda rank: step_of(layout, rank, tmp_path), layout.world_size, LONG_S)
    records = [read_calls(tmp_path / str(rank)) for rank in range(layout.world_size)]
    for turns in ("free", "pair"):  # "pair": as NCCL, which runs what a pair of ranks of a group sends in one order
        result = check_calls(records, turns)
        assert result.verdict.answer == "yes", (turns, result.verdict.text)
    found = {call.group.axis for record in records for call in record.calls}
    assert found <= axes
    assert found
    assert not any(isinstance(event, Use) and event.written for record in records for event in record.events)
