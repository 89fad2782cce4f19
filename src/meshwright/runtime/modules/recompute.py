"""A recompute policy's name goes in; how a stage wraps its blocks and their parts comes out.

The policies are those of `workload/recompute`; what each keeps is said there, and a law compares the two.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from meshwright.base.errors import RunError
from meshwright.workload.recomputing import read_recompute

if TYPE_CHECKING:
    from collections.abc import Callable

_BLOCKS: Final = ("none", "full", "every", "uniform")
_PARTS: Final = ("attention", "selective")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wraps:
    """What is made again. every: one of so many blocks whole, 0 for none.   chunk: so many neighbours together.

    attention: scores, softmax and the mix of values.   products: elementwise products that feed a matrix product.
    """

    every: int = 0
    chunk: int = 1
    attention: bool = False
    products: bool = False

    def treats(self, layer: int) -> bool:
        """Whether a block (of a stage, from 0) is made again whole, alone."""
        return self.every > 0 and self.chunk == 1 and layer % self.every == 0


def wraps_of(policy: str) -> Wraps:
    """Of a policy by name. Raises LAY030 for an unknown one, RUN013 for one that a run does not know."""
    found, stem = read_recompute(policy), policy.rstrip("0123456789").rstrip("_")
    if stem not in {*_BLOCKS, *_PARTS}:
        raise RunError(13, f"recompute={policy}: a run does not know it", f"give one of {', '.join(_BLOCKS + _PARTS)}")
    if stem in _BLOCKS:
        return Wraps(every=0 if stem == "none" else found.every, chunk=found.chunk)
    return Wraps(attention=stem == "attention", products=stem == "selective")


def again(function: Callable[..., Tensor], *given: Any) -> Tensor:
    """`function(*given)`, which keeps `given` alone and runs once more in the backward."""
    run = cast("Callable[..., Tensor]", checkpoint)
    return run(function, *given, use_reentrant=False, preserve_rng_state=False)


def remade(product: Tensor, make: Callable[[], Tensor], *, wanted: bool) -> AbstractContextManager[Any]:
    """Where `product` is saved for a backward inside, `make` is kept in its stead and called when it is needed."""
    if not wanted or not torch.is_grad_enabled():
        return nullcontext()
    place = (product.data_ptr(), product.numel())

    def pack(tensor: Tensor) -> Tensor | partial[Tensor]:
        # a product of more than two dims is saved as the matrix that it is viewed as
        same = (tensor.data_ptr(), tensor.numel()) == place
        return partial(_viewed, make, tensor.shape) if same else tensor

    def unpack(kept: Tensor | partial[Tensor]) -> Tensor:
        if isinstance(kept, Tensor):
            return kept
        with torch.no_grad():
            return kept()

    return saved_tensors_hooks(pack, unpack)


def _viewed(make: Callable[[], Tensor], shape: torch.Size) -> Tensor:
    return make().view(shape)
