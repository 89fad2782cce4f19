"""GLM-5: latent attention over positions that an indexer chooses; some layers may use what a layer before them chose.

Defaults: transformers 5.24 `GlmMoeDsaConfig`, in which `num_local_experts` is an alias of `n_routed_experts`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import ModelError
from meshwright.model.families._apart import read_predictors
from meshwright.model.families._common import read_layers
from meshwright.model.families._latent import (
    Sizes,
    assemble_latent,
    read_indexer,
    read_latent,
    read_listed_dense_layers,
    with_corrections,
)

if TYPE_CHECKING:
    from meshwright.model.config import Fields
    from meshwright.model.model import Model

_SIZES: Final = Sizes(
    hidden=6144,
    vocab=154880,
    positions=202752,
    heads=64,
    query_rank=2048,
    nope_dim=192,
    value_dim=256,
    intermediate=12288,
    moe_intermediate=2048,
    experts=256,
    count_alias="num_local_experts",
)
_MODES: Final = {"F": "full", "S": "shared"}


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `glm_moe_dsa` config. Raises MOD005..MOD013 for sizes that do not go together."""
    count, extra = read_layers(fields, default=78), read_predictors(fields, default=0)
    indexer, top_k = read_indexer(fields, heads=32)
    chosen = replace(read_latent(fields, _SIZES), top_k=top_k)
    mixers = [replace(chosen, indexer=indexer) if runs else chosen for runs in _read_indexed(fields, count)]
    dense = read_listed_dense_layers(fields, _SIZES, count)
    return with_corrections(assemble_latent(fields, name, _SIZES, mixers, dense, extra=extra))


def _read_indexed(fields: Fields, layers: int) -> list[bool]:
    """Whether each layer has an indexer: as listed, or as a pattern or an interval of layers says.

    Raises MOD009 for a mode that is not known, a count that is not that of the layers, and a first layer without one.
    """
    name = "indexer_types" if fields.data.get("indexer_types") is not None else "index_topk_pattern"
    said: object = fields.data.get(name)
    if said is None:
        every = fields.integer("index_topk_freq", default=1, least=0) if "index_topk_freq" in fields.data else 1
        offset = fields.integer("index_skip_topk_offset", least=0) if "index_skip_topk_offset" in fields.data else 2
        found = [max(layer - offset + 1, 0) % max(every, 1) == 0 for layer in range(layers)]
    else:
        spelled = [_MODES.get(item, item) for item in said] if isinstance(said, str) else None
        modes = spelled if spelled is not None else list(fields.words(name) or ())
        unknown = sorted(set(modes) - set(_MODES.values()))
        if unknown or len(modes) != layers:
            what = f"holds {unknown[0]!r}" if unknown else f"has {len(modes)} entries for {layers} layers"
            raise ModelError(9, f"{fields.family}: {name} {what}", "give full or shared, one entry a layer")
        found = [mode == "full" for mode in modes]
    if not found[0]:
        raise ModelError(9, f"{fields.family}: {name}: no layer before the first chooses positions", "begin with full")
    return found
