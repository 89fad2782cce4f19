"""DeepSeek-V2: latent attention, queries low-rank or not, a dense layer first, then mixtures with shared experts.

Defaults: transformers 5.24 `DeepseekV2Config`, in which `num_experts` is an alias of `n_routed_experts`, and a number
of experts a token has no default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.model.families._common import read_layers
from meshwright.model.families._latent import Sizes, assemble_latent, read_dense_layers, read_latent

if TYPE_CHECKING:
    from meshwright.model.config import Fields
    from meshwright.model.model import Model

_SIZES: Final = Sizes(
    hidden=4096,
    vocab=102400,
    positions=2048,
    heads=32,
    query_rank=1536,
    intermediate=11008,
    moe_intermediate=1407,
    experts=64,
    count_alias="num_experts",
    shared=2,
    top_k=None,
    dense=0,
)


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `deepseek_v2` config. Raises MOD005..MOD013 for sizes that do not go together."""
    count = read_layers(fields, default=32)
    bias = fields.flag("mlp_bias", default=False)
    mixers = [read_latent(fields, _SIZES)] * count
    return assemble_latent(fields, name, _SIZES, mixers, read_dense_layers(fields, _SIZES, count), bias=bias)
