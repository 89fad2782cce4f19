"""A model and a layout go in; by Hugging Face name, which part of each weight a rank has, and its values, come out."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import torch
from torch.distributed.tensor import DTensor

from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.ownership import index_ranges
from meshwright.model.model import block_weights, first_weights, last_weights
from meshwright.runtime.draws import generator
from meshwright.runtime.modules.decoder import LAYER

if TYPE_CHECKING:
    from meshwright.layout.layout import Layout
    from meshwright.layout.ownership import State
    from meshwright.model.model import Model
    from meshwright.model.tensors import Tensor
    from meshwright.runtime.modules.decoder import Ranges, Stage

Values: TypeAlias = Callable[[str, tuple[range, ...]], torch.Tensor]
"""The values of a part of a weight, by its name and the index range of each dim."""

_SPREAD: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A weight of a model under its full name. layer: None for those of the two ends."""

    name: str
    tensor: Tensor
    layer: int | None


def weights_of(model: Model) -> dict[str, Named]:
    """Every weight of a model by its Hugging Face name, in the order of the layers; a tied head is listed too."""
    found = [Named(name=f"model.{item.name}", tensor=item, layer=None) for item in first_weights(model)]
    for layer, kind in enumerate(model.kind_of_layer):
        items = block_weights(model, kind)
        found += [Named(name=LAYER.format(layer=layer, name=item.name), tensor=item, layer=layer) for item in items]
    ends = {item.name: item for item in last_weights(model)}
    head = ends.pop("lm_head.weight")
    found += [Named(name=f"model.{name}", tensor=item, layer=None) for name, item in ends.items()]
    found.append(Named(name="lm_head.weight", tensor=head, layer=None))
    return {item.name: item for item in found}


def shapes_of(model: Model) -> dict[str, tuple[int, ...]]:
    """Every weight that is kept, by name, whole; a tied head is kept as the token table."""
    return {name: item.tensor.shape for name, item in weights_of(model).items() if item.tensor.alias is None}


def ranges_of(model: Model, layout: Layout, rank: int, state: State) -> Ranges:
    """By name, the index range of each dim that a rank has of a weight kept as `state`, were it of the rank's stage."""
    named = weights_of(model)
    known: dict[Tensor, tuple[range, ...]] = {}
    for item in named.values():
        if item.tensor not in known:
            known[item.tensor] = index_ranges(item.tensor, layout, rank, state, PIPELINE_OUTSIDE)
    return {name: known[item.tensor] for name, item in named.items()}


def made_up(model: Model, seed: int) -> Values:
    """Weights from a seed, the same for every layout: norms are 1, the rest is normal with a spread of 0.02.

    A weight is drawn whole by its own name and then cut.
    """
    named = weights_of(model)

    def values(name: str, ranges: tuple[range, ...]) -> torch.Tensor:
        tensor = named[name].tensor
        if tensor.part == "norms":
            return torch.ones([len(part) for part in ranges], dtype=torch.float64)
        source = f"model.{tensor.alias}" if tensor.alias else name
        draw = generator(seed, zlib.crc32(source.encode()))
        whole = torch.randn(tensor.shape, generator=draw, dtype=torch.float64) * _SPREAD
        return whole[tuple(slice(part.start, part.stop) for part in ranges)]

    return values


def fill(stage: Stage, ranges: Ranges, values: Values) -> None:
    """Write a rank's part of every parameter of a stage. ranges: of what it keeps, cut by tp and by `zero`."""
    with torch.no_grad():
        for name, parameter in stage.named_parameters():
            local = kept(parameter)
            local.copy_(values(name, ranges[name]).reshape(local.shape))


def kept(parameter: torch.Tensor) -> torch.Tensor:
    """What this rank has of a parameter, or of its gradient."""
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter
