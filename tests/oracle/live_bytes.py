"""A training step of a small config goes in; the most bytes that its backward holds at once come out."""

from __future__ import annotations

import weakref
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.oracle.saved_tensors import made_again, no_packing, small_model, storage

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Live(TorchDispatchMode):
    """Every storage that an operator makes and that is let go of again: (its number, bytes)."""

    def __init__(self, given: list[torch.Tensor]) -> None:
        super().__init__()
        self.events: list[tuple[int, int]] = []
        self.number = {storage(item): -1 for item in given}
        self.made = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = operator(*args, **(kwargs or {}))
        for item in tree_leaves(out):
            if isinstance(item, torch.Tensor) and storage(item) not in self.number:
                self._begin(item)
        return out

    def _begin(self, item: torch.Tensor) -> None:
        place, nbytes, number = storage(item), item.untyped_storage().nbytes(), self.made
        self.made += 1
        self.number[place] = number
        self.events.append((number, nbytes))

        def end() -> None:
            self.number.pop(place, None)
            self.events.append((number, -nbytes))

        weakref.finalize(item.untyped_storage(), end)


def peak_of_backward(
    config: Mapping[str, Any], *, dtype: str, attention: str, recompute: str, samples: int, positions: int
) -> int:
    """Bytes of the fullest moment of the backward, without parameters, their gradients, and token numbers."""
    with FakeTensorMode(), no_packing():
        model = small_model(config, dtype=dtype, attention=attention)
        made_again(model, recompute)
        tokens = torch.randint(0, config["vocab_size"], (samples, positions))
        with _Live([*model.parameters(), *model.buffers(), tokens]) as live:
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
            forward = len(live.events)
            loss.backward()
        gradients = {live.number[storage(parameter.grad)] for parameter in model.parameters()}
        held = accumulate(nbytes if number not in gradients else 0 for number, nbytes in live.events)
        return max(list(held)[forward:])
