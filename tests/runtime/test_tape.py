"""A tape of one rank: FLOPs as torch counts them, attention that torch does not count, storages as they come and go."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from meshwright.job.recipe import read_recipe
from meshwright.layout.layout import Layout
from meshwright.model.reader import read_arithmetic, read_model
from meshwright.runtime.loop.samples import SyntheticTokens
from meshwright.runtime.loop.trainer import Batch, Recipe, Trainer, trainer_of
from meshwright.runtime.parallel.shards import Precision
from meshwright.runtime.state.weights import made_up
from meshwright.runtime.tape.calls import axis_of, sent_bytes
from meshwright.runtime.tape.flops import flops_of
from meshwright.runtime.tape.storages import Storages
from meshwright.runtime.tape.tape import taped
from meshwright.runtime.world import join
from meshwright.verify.processes import in_processes
from meshwright.verify.setting import setting_of

SEQUENCE = 32


def trainer_alone(rank):
    model, layout = read_model("tiny-qwen3"), Layout()
    setting = setting_of(model, layout, read_recipe("fp32-adamw"), 2, SEQUENCE, 1, 0)
    world, kept = join(setting.layout, rank, torch.device("cpu")), torch.float32
    recipe = Recipe(precision=Precision(compute=kept, kept=kept, reduced=kept))
    batch = Batch(global_batch=2, sequence=SEQUENCE)
    arithmetic = read_arithmetic("tiny-qwen3")
    return trainer_of(setting.model, arithmetic, world, setting.slots, batch, recipe, made_up(setting.model, 0))


def data():
    return SyntheticTokens(seed=0, vocab=512, sequence=SEQUENCE, ragged=False).sample


def counted(rank):
    trainer = trainer_alone(rank)
    with FlopCounterMode(display=False) as counter:
        trainer.step(0, data())
    resize, alone = torch.UntypedStorage.resize_, trainer_alone(rank)
    plain = [alone.step(number, data()).loss for number in (0, 1)]
    again, tape = taped(trainer_alone(rank))
    losses = [again.step(number, data()).loss for number in (0, 1)]
    restored = torch.UntypedStorage.resize_ is resize
    return counter.get_total_flops(), tape.record(), losses, plain, restored, type(alone) is Trainer


@pytest.fixture(scope="module")
def found():
    return in_processes(counted, 1, 60.0)[0]


def test_matrix_products_are_those_that_torch_counts(found):
    theirs, record, *_ = found
    mine = sum(flops for (work, _), flops in record.flops.items() if work == "matmul")
    assert mine == theirs  # torch has no entry for attention on a CPU


def test_a_step_under_a_tape_is_the_same_step(found):
    _, _, losses, plain, *_ = found
    assert losses == plain


def test_nothing_of_a_tape_is_left_outside_its_steps(found):
    *_, restored, is_plain = found
    assert restored
    assert is_plain


def test_no_gradient_and_no_activation_is_left_behind_a_step(found):
    left = found[1].left
    assert set(left) <= {"parameters", "optimizer_state", "activations"}
    assert left.get("activations", 0) < 64  # the loss of the step


@pytest.mark.parametrize(("causal", "pairs"), [(True, 6), (False, 9)])
def test_attention_counts_the_pairs_that_the_mask_leaves(causal, pairs):
    given = torch.empty(1, 2, 3, 4)
    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    named = {"is_causal": causal}
    assert flops_of(operator, (given, given, given, 0.0, causal), {}) == ("attention", 2 * 2 * 2 * pairs * 4)
    assert flops_of(operator, (given, given, given), named) == ("attention", 2 * 2 * 2 * pairs * 4)
    args = (given, given, given, given, given, given, 0.0, causal)
    assert flops_of(backward, args, {}) == ("attention", 5 * 2 * 2 * pairs * 4)


def test_an_operator_that_multiplies_nothing_has_no_flops():
    assert flops_of(torch.ops.aten.add.Tensor, (torch.ones(2), torch.ones(2)), {}) is None


def test_storages_are_seen_until_they_end_and_where_they_are_resized():
    storages = Storages()
    with storages.watched():
        kept, view = torch.empty(8), None
        view = kept[:2]
        assert storages.see(kept) == storages.see(view)
        storages.next_slot("backward_input")
        short = torch.empty(4)
        storages.see(short)
        kept.untyped_storage().resize_(0)
        kept.untyped_storage().resize_(16)
        del short
    del kept, view
    assert [change.nbytes for change in storages.changes] == [32, 16, -32, 16, -16, -16]
    *_, (_, alive) = storages.played()
    assert alive.total() == 0


def test_what_outlives_its_slot_is_an_activation_and_the_rest_workspace():
    storages = Storages()
    kept, short = torch.empty(8), torch.empty(4)
    first, second = storages.see(kept), storages.see(short)
    del short
    storages.next_slot("backward_input")
    assert storages.categories() == {first: "activations", second: "workspace"}
    storages.claim("parameters", [kept])
    storages.claim("samples", [kept])
    assert storages.categories()[first] == "parameters"


def test_the_axis_of_a_group_is_where_its_ranks_differ():
    layout = Layout(pp=2, dp_replicate=2, dp_shard=2, tp=2)
    assert axis_of(layout, (0, 1)) == "tp"
    assert axis_of(layout, (0, 2)) == "dp_shard"
    assert axis_of(layout, (0, 2, 4, 6)) == "dp_replicate+dp_shard"
    assert axis_of(layout, (0, 8)) == "pp"
    assert axis_of(layout, range(16)) == "pp+dp_replicate+dp_shard+tp"


@pytest.mark.parametrize(("name", "sent"), [("all_reduce", 1200), ("all_gather", 600), ("send_recv", 800)])
def test_a_rank_of_a_ring_sends_all_parts_but_its_own(name, sent):
    assert sent_bytes(name, 4, 800) == sent
