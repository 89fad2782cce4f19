"""What does it save to make products of two vectors again? A model and a stage go in; bytes kept and rebuilt come out.

Of every matrix product the backward wants the input. Where that is an elementwise product of values that are kept
anyway (gate x up, normed values x weight), it can be made again just before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from meshwright.base.units import Tokens
from meshwright.cost.training_activations import entry_bytes
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.formats import plain_format
from meshwright.model.model import Model
from meshwright.workload.recomputing import read_recompute
from meshwright.workload.saved import block_saved, head_saved
from meshwright.workload.saved_entries import AttentionKernel, Elementwise, Kernels, Saved


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Bytes of some layers and one micro-batch. product_inputs_bytes: inputs of matrix products, all of them.

    kept_inputs_bytes: those that the policy keeps.   avoided_bytes: those that it makes again.   nonlinear_bytes: what
    norms, softmax and the gated unit keep for themselves.
    """

    product_inputs_bytes: int
    kept_inputs_bytes: int
    avoided_bytes: int
    nonlinear_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputeProducts:
    """What one layer, a stage and its waiting micro-batches keep and avoid.

    attention_inputs_bytes: queries, keys, values and the output of attention.   rebuilt_multiplications: of the gated
    product of one layer.   one_by_one_bytes, together_bytes: workspace when a layer's products are made again one after
    the other, or at once.   waiting_avoided_bytes: of a stage, over the micro-batches that wait for their backward.
    head_nonlinear_bytes: what final norm and loss keep beside the layers of the last stage.
    """

    element_bytes: int
    gated_product_bytes: int
    rebuilt_multiplications: int
    norm_output_bytes: int
    attention_inputs_bytes: int
    one_by_one_bytes: int
    together_bytes: int
    layer: Kept
    stage: Kept
    waiting_avoided_bytes: int
    head_nonlinear_bytes: int


def recompute_products(
    *,
    model: Model,
    tokens: Tokens,
    element_format: str,
    stage_layers: int,
    micro_batches: int,
    recompute: str,
    attention: AttentionKernel,
    elementwise: Elementwise,
) -> RecomputeProducts:
    """One stage of layers of the model's first kind, one sample of `tokens` a micro-batch, on one rank.

    element_format: of activations.   attention, elementwise: which kernels run.

    Raises LAY030 (policy) and MOD020 (format). Source: chapter "Training systems", sections 10.2.2 and 10.3.2. Leaves
    out parameters, gradients and messages.
    """
    plain = replace(model, plain=plain_format(element_format))
    kernels = Kernels(attention=attention, elementwise=elementwise)
    block = block_saved(plain, 0, tokens, kernels)
    kept = {item.storage for item in read_recompute(recompute).kept(block)}
    size = _sizes(block.saved, tokens)

    def held(choose: Callable[[Saved], bool]) -> list[int]:
        return [size[item.storage] for item in block.saved if choose(item)]

    layer = Kept(
        product_inputs_bytes=sum(held(_feeds_product)),
        kept_inputs_bytes=sum(held(lambda item: _feeds_product(item) and item.storage in kept)),
        avoided_bytes=sum(held(lambda item: _feeds_product(item) and item.storage not in kept)),
        nonlinear_bytes=sum(held(_is_nonlinear)),
    )
    gated = held(lambda item: item.product and item.tensor.part != "norms")
    stage = _times(layer, stage_layers)
    return RecomputeProducts(
        element_bytes=plain.plain.bits // 8,
        gated_product_bytes=sum(gated),
        rebuilt_multiplications=sum(gated) * 8 // plain.plain.bits,
        norm_output_bytes=max(held(lambda item: item.product and item.tensor.part == "norms"), default=0),
        attention_inputs_bytes=sum(held(lambda item: _feeds_product(item) and item.tensor.part == "attention")),
        one_by_one_bytes=max(held(lambda item: _feeds_product(item) and item.storage not in kept), default=0),
        together_bytes=layer.avoided_bytes,
        layer=layer,
        stage=stage,
        waiting_avoided_bytes=stage.avoided_bytes * micro_batches,
        head_nonlinear_bytes=_head_bytes(plain, tokens, kernels),
    )


def _sizes(entries: Sequence[Saved], tokens: Tokens) -> dict[tuple[str, int], int]:
    """Bytes of each tensor on one rank that holds everything."""
    columns = entry_bytes(entries, table([Layout()]), tokens)
    return {item.storage: int(column[0]) for item, column in zip(entries, columns, strict=True)}


def _feeds_product(item: Saved) -> bool:
    return item.need == "product_input"


def _is_nonlinear(item: Saved) -> bool:
    return item.need == "nonlinear"


def _times(layer: Kept, layers: int) -> Kept:
    return Kept(
        product_inputs_bytes=layer.product_inputs_bytes * layers,
        kept_inputs_bytes=layer.kept_inputs_bytes * layers,
        avoided_bytes=layer.avoided_bytes * layers,
        nonlinear_bytes=layer.nonlinear_bytes * layers,
    )


def _head_bytes(model: Model, tokens: Tokens, kernels: Kernels) -> int:
    entries = head_saved(model, tokens, kernels)
    size = _sizes(entries, tokens)
    return sum(size[item.storage] for item in entries if _is_nonlinear(item))
