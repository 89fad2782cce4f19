"""DeepSeek-V3 and R1: latent attention, dense layers first, then mixtures with a shared expert and corrected routers.

Defaults: transformers 5.24 `DeepseekV3Config`, in which `num_local_experts` is an alias of `n_routed_experts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.model.families._apart import read_predictors
from meshwright.model.families._common import read_layers
from meshwright.model.families._latent import (
    Sizes,
    assemble_latent,
    read_dense_layers,
    read_latent,
    with_corrections,
)

if TYPE_CHECKING:
    from meshwright.model.config import Fields
    from meshwright.model.model import Model

SIZES: Final = Sizes(
    hidden=7168,
    vocab=129280,
    positions=4096,
    heads=128,
    query_rank=1536,
    intermediate=18432,
    moe_intermediate=2048,
    experts=256,
    count_alias="num_local_experts",
)


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `deepseek_v3` config. Raises MOD005..MOD013 for sizes that do not go together."""
    count, extra = read_layers(fields, default=61), read_predictors(fields)
    mixers, dense = [read_latent(fields, SIZES)] * count, read_dense_layers(fields, SIZES, count)
    return with_corrections(assemble_latent(fields, name, SIZES, mixers, dense, extra=extra))
