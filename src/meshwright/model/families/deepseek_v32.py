"""DeepSeek-V3.2: DeepSeek-V3 with an indexer on every layer, which chooses the positions that a token reads.

Defaults: transformers 5.24 `DeepseekV32Config`, in which `num_local_experts` is an alias of `n_routed_experts`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.model.families._apart import read_predictors
from meshwright.model.families._common import read_layers
from meshwright.model.families._latent import (
    assemble_latent,
    read_indexer,
    read_latent,
    read_listed_dense_layers,
    with_corrections,
)
from meshwright.model.families.deepseek_v3 import SIZES

if TYPE_CHECKING:
    from meshwright.model.config import Fields
    from meshwright.model.model import Model

_SIZES: Final = replace(SIZES, positions=163840)


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `deepseek_v32` config. Raises MOD005..MOD013 for sizes that do not go together."""
    count, extra = read_layers(fields, default=61), read_predictors(fields, default=0)
    indexer, top_k = read_indexer(fields, heads=64)
    mixer = replace(read_latent(fields, _SIZES), indexer=indexer, top_k=top_k)
    dense = read_listed_dense_layers(fields, _SIZES, count)
    return with_corrections(assemble_latent(fields, name, _SIZES, [mixer] * count, dense, extra=extra))
