"""What autograd keeps of attention whose positions are dealt out by heads, against what the product says is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import linear, scaled_dot_product_attention

from meshwright.cost.training_activations import activation_columns
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.formats import FP32
from meshwright.model.mixers import Attention
from meshwright.model.reader import read_model
from meshwright.workload.context_split import ContextPlan

HEADS, HEAD_DIM, HIDDEN, ROWS = 8, 16, 64, 32
WIDTH = HEADS * HEAD_DIM


class AllToAll(torch.autograd.Function):
    """An exchange by its shapes alone: it keeps nothing, and gives as many elements as it takes."""

    @staticmethod
    def forward(ctx, given, shape):
        ctx.shape = given.shape
        return given.new_zeros(shape)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.new_zeros(ctx.shape), None


def kept_bytes(cp):
    """Bytes of the storages that one rank of cp keeps of its attention, the product behind it included."""
    rows = torch.zeros(1, ROWS, HIDDEN, requires_grad=True)
    weights = [torch.zeros(WIDTH, HIDDEN, requires_grad=True) for _ in range(3)]
    last = torch.zeros(HIDDEN, WIDTH, requires_grad=True)
    given = {item.untyped_storage().data_ptr() for item in (rows, *weights, last)}
    found: dict[int, int] = {}
    held: list[torch.Tensor] = []

    def keep(tensor):
        held.append(tensor)
        place = tensor.untyped_storage().data_ptr()
        if place not in given:
            found[place] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        made = [linear(rows, weight).view(1, ROWS, HEADS, HEAD_DIM).transpose(1, 2) for weight in weights]
        if cp > 1:
            made = [AllToAll.apply(item, (1, HEADS // cp, ROWS * cp, HEAD_DIM)) for item in made]
        mixed = scaled_dot_product_attention(*made, is_causal=True)
        if cp > 1:
            mixed = AllToAll.apply(mixed, (1, HEADS, ROWS, HEAD_DIM))
        linear(mixed.transpose(1, 2).reshape(1, ROWS, WIDTH), last)
    return sum(found.values())


def told_bytes(cp, exchange):
    tiny = read_model("tiny-qwen3")
    mixer = Attention(heads=HEADS, kv_heads=HEADS, head_dim=HEAD_DIM)
    groups = tuple(replace(group, block=replace(group.block, mixer=mixer)) for group in tiny.groups)
    model = replace(tiny, groups=groups, plain=FP32)
    layouts = table([Layout(cp=cp, attention="data_parallel")])
    found = activation_columns(model, layouts, sequence=ROWS * cp, context=ContextPlan(exchange=exchange))
    return int(found.saved[0, 0])


@pytest.mark.parametrize("cp", [2, 4, 8])
def test_an_output_is_kept_by_heads_for_its_kernel_and_by_rows_for_the_product_behind_it(cp):
    """On one rank these are one tensor: what ulysses adds is what autograd keeps more of as many rows."""
    more = kept_bytes(cp) - kept_bytes(1)
    assert more == ROWS * WIDTH * 4
    assert told_bytes(cp, "ulysses") - told_bytes(cp, "ring") == more
