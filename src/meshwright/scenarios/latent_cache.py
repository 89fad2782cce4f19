"""How much smaller is a cache of latent vectors? Shapes of two attentions go in; bytes of one context come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.units import Bytes, Tokens
from meshwright.job.serve import check_range
from meshwright.model.mixers import Attention

_MOST: Final = 2**20
_MOST_POSITIONS: Final = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentCache:
    """Bytes of one context under each attention. share: latent over grouped."""

    latent_bytes: int
    grouped_bytes: int
    share: float


def latent_cache(  # noqa: PLR0917 - two shapes and a length
    tokens: Tokens,
    latent_layers: int,
    latent_width: int,
    grouped_layers: int,
    kv_heads: int,
    head_dim: int,
    element_bytes: Bytes,
) -> LatentCache:
    """A context that keeps one vector of latent_width a layer (MLA), beside keys and values of kv_heads heads a layer.

    Raises JOB001 (sizes). Source: chapter "Supernodes", section 6.6.3. Leaves out other state, and padding of pages.
    """
    sizes = {"latent_layers": latent_layers, "latent_width": latent_width, "grouped_layers": grouped_layers}
    sizes |= {"kv_heads": kv_heads, "head_dim": head_dim, "element_bytes": element_bytes}
    for name, size in sizes.items():
        check_range(name, size, 1, _MOST)
    check_range("tokens", tokens, 1, _MOST_POSITIONS)
    attention = Attention(heads=kv_heads, kv_heads=kv_heads, head_dim=head_dim)
    grouped = tokens * grouped_layers * sum(item.tensor.elements for item in attention.token_state()) * element_bytes
    latent = tokens * latent_layers * latent_width * element_bytes
    return LatentCache(latent_bytes=latent, grouped_bytes=grouped, share=latent / grouped)
