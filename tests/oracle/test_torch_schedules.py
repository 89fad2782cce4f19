"""The slot orders of torch.distributed.pipelining, asked for without any process, are the same as ours."""

from __future__ import annotations

import pytest

from meshwright.workload.slots import KINDS, Shape, read_schedule

torch_schedules = pytest.importorskip("torch.distributed.pipelining.schedules")

_KINDS = {
    torch_schedules.FORWARD: "forward",
    torch_schedules.FULL_BACKWARD: "backward",
    torch_schedules.BACKWARD_INPUT: "backward_input",
    torch_schedules.BACKWARD_WEIGHT: "backward_weight",
}
_CLASSES = {
    "interleaved": "ScheduleInterleaved1F1B",
    "zero_bubble_h1": "ScheduleInterleavedZeroBubble",
    "zero_bubble_v": "ScheduleZBVZeroBubble",
    "dualpipe_v": "ScheduleDualPipeV",
}


def torch_order(name, shape, pieces, rank):
    """The actions of a rank as (kind, virtual stage, micro-batch), overlapped ones one after the other."""
    cls = getattr(torch_schedules, _CLASSES[name])
    asked = cls.__new__(cls)
    asked.pp_group_size, asked._n_microbatches = shape.stages, shape.micro_batches
    asked.num_stages, asked.n_local_stages = shape.stages * pieces, pieces
    asked.number_of_rounds = max(1, shape.micro_batches // shape.stages)
    asked.microbatches_per_round = shape.micro_batches // asked.number_of_rounds
    actions = [action for action in asked._calculate_single_rank_operations(rank) if action is not None]
    single = [part for action in actions for part in (action.sub_actions or (action,))]
    return [(_KINDS[action.computation_type], action.stage_index, action.microbatch_index) for action in single]


def own_order(slots, rank):
    rows = slots.rank == rank
    columns = (slots.kind[rows], slots.virtual_stage[rows], slots.micro_batch[rows])
    return [(KINDS[kind], stage, batch) for kind, stage, batch in zip(*map(list, columns), strict=True)]


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
@pytest.mark.parametrize("times", [1, 2, 3, 5])
@pytest.mark.parametrize(("name", "pieces"), [("interleaved", 2), ("interleaved", 3), ("zero_bubble_h1", 1)])
def test_interleaved_and_split_1f1b_are_torchs(name, pieces, stages, times):
    shape = Shape(stages=stages, micro_batches=times * stages, virtual_stages=pieces)
    slots = read_schedule(name).slots(shape)
    for rank in range(stages):
        assert own_order(slots, rank) == torch_order(name, shape, pieces, rank)


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
@pytest.mark.parametrize("batches", [3, 7, 16, 17, 33])
def test_zero_bubble_v_is_torchs(stages, batches):
    shape = Shape(stages=stages, micro_batches=batches)
    slots = read_schedule("zero_bubble_v").slots(shape)
    for rank in range(stages):
        assert own_order(slots, rank) == torch_order("zero_bubble_v", shape, 2, rank)


@pytest.mark.parametrize("stages", [2, 3, 4, 7])
@pytest.mark.parametrize("more", [0, 1, 6])
def test_dualpipe_v_is_torchs(stages, more):
    shape = Shape(stages=stages, micro_batches=2 * stages + more)
    slots = read_schedule("dualpipe_v").slots(shape)
    for rank in range(stages):
        assert own_order(slots, rank) == torch_order("dualpipe_v", shape, 2, rank)
