"""A model and the shape of a batch go in; the tensors that a forward pass makes come out, every dim with its role.

The ownership table cuts them under the state `activations`: samples over the data-parallel copies, positions over cp,
heads, intermediate and vocabulary over tp, and under sp the positions of what tp does not cut.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from meshwright.model.feed_forwards import Dense
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from meshwright.model.model import Model
    from meshwright.model.tensors import Part


def activations(model: Model, kind: int, samples: int, positions: int) -> tuple[Tensor, ...]:
    """What one block of a kind makes for [samples, positions] rows, in the plain format.

    hidden: between operators.   query, mixed: heads of attention.   key, value, or what else a position adds to the
    cache.   gate, up: of the feed-forward every row goes through. Leaves out rows routed to experts: the routing
    decides who holds them.
    """
    block = model.kinds[kind]
    rows = _rows(samples, positions)
    found = [Tensor(name="hidden", part="norms", dims=(*rows, _hidden(model)))]
    queries = [(item.scores, item.values) for item in block.mixer.pair_products("expanded")]
    made = (*chain.from_iterable(queries), *(item.tensor for item in block.mixer.token_state()))
    found += [
        Tensor(name=item.name.removesuffix("_cache"), part="attention", dims=(*rows, *item.dims)) for item in made
    ]
    layer = block.feed_forward
    dense, part = (layer, "feed_forward") if isinstance(layer, Dense) else (layer.shared, "experts")
    return (*found, *(() if dense is None else _intermediates(dense, rows, part)))


def routed(model: Model, kind: int, samples: int, positions: int) -> tuple[Tensor, ...]:
    """What the experts of a block make for [samples, positions] rows, a copy of a row each expert that it visits.

    As a grouped kernel keeps them: every visit of these rows, whichever rank has the expert. Empty without experts.
    Source: vLLM 0.11, fused_moe `fused_experts_impl`, whose caches hold rows x top_k.
    """
    layer = model.kinds[kind].feed_forward
    if isinstance(layer, Dense):
        return ()
    visits = _rows(samples, positions * layer.top_k)
    width = Dim(role="expert_intermediate", size=layer.intermediate)
    names = ("routed_gate", "routed_up") if layer.gated else ("routed_up",)
    inner = [Tensor(name=name, part="experts", dims=(*visits, width)) for name in names]
    return (*inner, Tensor(name="routed_out", part="experts", dims=(*visits, _hidden(model))))


def logits(model: Model, samples: int, positions: int) -> Tensor:
    """What the head makes for [samples, positions] rows."""
    return Tensor(name="logits", part="head", dims=(*_rows(samples, positions), Dim(role="vocab", size=model.vocab)))


def _rows(samples: int, positions: int) -> tuple[Dim, Dim]:
    return Dim(role="samples", size=samples), Dim(role="positions", size=positions)


def _hidden(model: Model) -> Dim:
    return Dim(role="hidden", size=model.hidden)


def _intermediates(layer: Dense, rows: tuple[Dim, Dim], part: Part) -> list[Tensor]:
    names = ("gate", "up") if layer.gated else ("up",)
    width = Dim(role="intermediate", size=layer.intermediate)
    return [Tensor(name=name, part=part, dims=(*rows, width)) for name in names]
