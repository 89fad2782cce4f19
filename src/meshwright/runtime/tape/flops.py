"""An operator of torch and its arguments go in; the FLOPs of a matrix product or of attention come out.

One multiply-add is 2 FLOPs. Attention under a causal mask counts the pairs that the mask leaves; torch's own counter
has no entry for the kernel that it runs on a CPU. A backward of a flash kernel makes the scores again: 5 products for
the 2 of its forward. Source: Dao, "FlashAttention-2", 2023 (arXiv:2307.08691), section 3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from meshwright.base.units import MULTIPLY_ADD_FLOPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meshwright.runtime.tape.record import Work

_aten: Any = torch.ops.aten
FORWARD_PRODUCTS: Final = 2
BACKWARD_PRODUCTS: Final = 5


def _product(*operands: torch.Tensor) -> int:
    """[..., m, k] times [..., k, n]: the last two of the operands."""
    first, second = operands[-2:]
    return MULTIPLY_ADD_FLOPS * first.numel() * second.shape[-1]


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, causal: bool, products: int) -> int:
    """Of [batch, heads, positions, head_dim]: so many products over the pairs that are scored."""
    batch, heads, positions, width = query.shape
    keys = key.shape[-2]
    assert width == value.shape[-1]
    pairs = positions * (positions + 1) // 2 if causal else positions * keys
    return MULTIPLY_ADD_FLOPS * products * batch * heads * pairs * width


# By operator: the place of `is_causal` among its arguments. Source: torch 2.13, native_functions.yaml.
_FORWARDS: Final = {
    "_scaled_dot_product_flash_attention_for_cpu": 4,
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_efficient_attention": 6,
    "_scaled_dot_product_cudnn_attention": 6,
}
_BACKWARDS: Final = {
    "_scaled_dot_product_flash_attention_for_cpu_backward": 7,
    "_scaled_dot_product_flash_attention_backward": 11,
    "_scaled_dot_product_efficient_attention_backward": 11,
    "_scaled_dot_product_cudnn_attention_backward": 14,
}
_PRODUCTS: Final[dict[Any, Callable[..., int]]] = {
    _aten.mm.default: _product,
    _aten.bmm.default: _product,
    _aten.addmm.default: _product,
    _aten.baddbmm.default: _product,
}


def flops_of(operator: Any, args: Sequence[Any], named: dict[str, Any]) -> tuple[Work, int] | None:
    """The kind of work and its FLOPs; None for operators that multiply nothing."""
    if operator in _PRODUCTS:
        return "matmul", _PRODUCTS[operator](*args)
    name = operator.overloadpacket.__name__
    if name in _FORWARDS:
        causal = _causal(args, named, _FORWARDS[name])
        return "attention", _attention(*args[:3], causal=causal, products=FORWARD_PRODUCTS)
    if name in _BACKWARDS:  # the first argument is the gradient of the output
        causal = _causal(args, named, _BACKWARDS[name])
        return "attention", _attention(*args[1:4], causal=causal, products=BACKWARD_PRODUCTS)
    return None


def _causal(args: Sequence[Any], named: dict[str, Any], place: int) -> bool:
    """The argument, wherever it stands; false where it is left out."""
    return bool(args[place] if len(args) > place else named.get("is_causal", False))
