"""What torch, left alone, gets silently wrong is right here, and goes wrong again without its guard."""

from __future__ import annotations

import pytest
import torch

from meshwright.layout.layout import Layout
from meshwright.runtime.loop import trainer
from meshwright.runtime.modules import linear
from meshwright.runtime.parallel import shards, sums
from meshwright.runtime.pipeline import executor
from meshwright.runtime.state.replicas import check_replicas
from meshwright.runtime.state.weights import kept, ranges_of
from meshwright.verify import parity
from meshwright.verify.parity_grid import Choice
from tests.runtime.cases import CPU, TOLERANCE, case_of, parity_of
from tests.runtime.ranks import RankError, run_ranks

SPLIT = {"pp": 2, "dp_shard": 2, "zero": 3, "schedule": "zero_bubble_h1"}


def choice(**fields):
    return Choice(
        model="tiny-qwen3", layout=Layout(**{"schedule": "one_f_one_b", "attention": "data_parallel", **fields})
    )


def without_partial_sums(rank, payload):
    sums.is_partial = lambda _name, _layout: False
    return parity_of(rank, payload)


def without_sums_over_stages(rank, payload):
    trainer.sum_gradients = lambda *_: None
    return parity_of(rank, payload)


def reduced_at_the_input_gradient(rank, payload):
    """As torch's own hooks do: what comes later is left out."""
    executor.reduce_now = lambda *_, **__: None
    executor.before_backward = lambda stage, layout, *, split, last: shards.before_backward(
        stage, layout, split=False, last=last
    )
    return parity_of(rank, payload)


def with_weights_saved_by_autograd(rank, payload):
    """A block that is made again brings its own copy of a weight, and what is put off ends on that."""
    backward = linear._Product.backward

    def on_a_copy(ctx, gradient):
        ctx.weight = ctx.weight.detach()
        return backward(ctx, gradient)

    linear._Product.backward = staticmethod(on_a_copy)
    return parity_of(rank, payload)


GUARDS = [
    (without_partial_sums, {"tp": 2}),
    (without_partial_sums, {"tp": 2, "sp": True}),
    (without_sums_over_stages, {"pp": 2, "schedule": "dualpipe_published"}),
    (reduced_at_the_input_gradient, SPLIT),
    (reduced_at_the_input_gradient, {**SPLIT, "zero": 1}),
    (with_weights_saved_by_autograd, {"pp": 2, "schedule": "zero_bubble_h1", "recompute": "full"}),
]


def differences(size, broken, cases):
    """What ranks found; None where a rank failed at once, but not for a fault of the test."""
    try:
        return run_ranks(size, broken, cases)
    except RankError as told:
        if any(word in str(told) for word in ("TypeError", "AttributeError", "NameError")):
            raise
        return None


@pytest.mark.parametrize(("broken", "fields"), GUARDS, ids=[f"{f.__name__}-{i}" for i, (f, _) in enumerate(GUARDS)])
def test_without_its_guard_a_layout_is_wrong(broken, fields, tmp_path):
    size = Layout(**fields).world_size
    cases = ([case_of(choice(**fields))], str(tmp_path))
    assert all(found[0].worst <= TOLERANCE for found in run_ranks(size, parity_of, cases))
    found = differences(size, broken, cases)
    assert found is None or any(not item[0].worst <= 1e3 * TOLERANCE for item in found)


def drifted(rank, payload):
    """A step, then one rank's copy of one norm is moved by one unit in the last place."""
    trainer = parity._trainer(payload, rank, CPU)
    owned = ranges_of(payload.model, payload.layout, rank, "optimizer_state")
    parity._steps(trainer, payload)
    check_replicas(trainer.world, trainer.parameters, owned)
    if rank == 1:
        weight = kept(dict(trainer.parameters)["model.layers.2.input_layernorm.weight"]).detach()
        weight[0] = torch.nextafter(weight[0], torch.tensor(9.0, dtype=weight.dtype))
    check_replicas(trainer.world, trainer.parameters, owned)


@pytest.mark.parametrize("fields", [{"tp": 2}, {"dp_replicate": 2}])
def test_copies_that_drift_apart_by_one_bit_are_told(fields):
    with pytest.raises(RankError, match=r"RUN015.*model\.layers\.2\.input_layernorm\.weight.*ranks 0 and 1"):
        run_ranks(2, drifted, case_of(choice(**fields)))
