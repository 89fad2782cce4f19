"""A model and the shape of a batch go in; the tensors that a forward pass makes come out, every dim with its role.

The ownership table cuts them under the state `activations`: samples over the data-parallel copies, positions over cp,
heads, intermediate and vocabulary over tp, and under sp the positions of what tp does not cut.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from meshwright.model.model import Model
    from meshwright.model.tensors import Part


def activations(model: Model, kind: int, samples: int, positions: int) -> tuple[Tensor, ...]:
    """What one block of a kind makes for [samples, positions] rows, in the plain format.

    hidden: between operators.   query, mixed: heads of attention.   key, value, or what else a position adds to the
    cache; of a mixer that keeps nothing of positions, what its matrices make.   gate, up: of the feed-forward every row
    goes through. Leaves out rows routed to experts: the routing decides who holds them.
    """
    block = model.kinds[kind]
    rows = _rows(samples, positions)
    found = [Tensor(name="hidden", part="norms", dims=(*rows, _hidden(model)))]
    queries = [(item.scores, item.values) for item in block.mixer.pair_products("expanded")]
    made = (*chain.from_iterable(queries), *(item.tensor for item in block.mixer.token_state()))
    found += [
        Tensor(name=item.name.removesuffix("_cache"), part="attention", dims=(*rows, *item.dims)) for item in made
    ]
    if not queries:
        wide = [item for item in block.mixer.weights(model.hidden) if item.quantized and item.dims[0].role != "hidden"]
        names = [item.name.removesuffix(".weight").rpartition("self_attn.")[2] for item in wide]
        found += [
            Tensor(name=name, part="attention", dims=(*rows, item.dims[0]))
            for name, item in zip(names, wide, strict=True)
        ]
    layer = block.feed_forward
    if isinstance(layer, Dense):
        found += _intermediates(layer, rows, "feed_forward")
    if isinstance(layer, Experts) and layer.shared is not None:
        found += _intermediates(layer.shared, rows, "experts")
    return tuple(found)


def routed(model: Model, kind: int, samples: int, positions: int) -> tuple[Tensor, ...]:
    """What the experts of a block make for [samples, positions] rows, a copy of a row each expert that it visits.

    As a grouped kernel keeps them: every visit of these rows, whichever rank has the expert. Empty without experts.
    Source: vLLM 0.11, fused_moe `fused_experts_impl`, whose caches hold rows x top_k.
    """
    layer = model.kinds[kind].feed_forward
    if not isinstance(layer, Experts):
        return ()
    visits = _rows(samples, positions * layer.top_k)
    inside = _hidden(model) if layer.latent is None else Dim(role="hidden", size=layer.latent)
    width = Dim(role="expert_intermediate", size=layer.intermediate)
    names = ("routed_gate", "routed_up") if layer.gated else ("routed_up",)
    inner = [Tensor(name=name, part="experts", dims=(*visits, width)) for name in names]
    return (*inner, Tensor(name="routed_out", part="experts", dims=(*visits, inside)))


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
