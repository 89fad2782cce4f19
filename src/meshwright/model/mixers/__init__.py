"""Token mixers, one file each; `told` holds what the other floors ask of any of them."""

from __future__ import annotations

from typing import TypeAlias

from meshwright.base.errors import ModelError
from meshwright.model.mixers.attention import Attention
from meshwright.model.mixers.compressed import CompressedAttention
from meshwright.model.mixers.gated_delta import GatedDelta
from meshwright.model.mixers.kimi_delta import KimiDelta
from meshwright.model.mixers.latent import LatentAttention
from meshwright.model.mixers.lightning import Lightning
from meshwright.model.mixers.mamba import Mamba
from meshwright.model.mixers.mamba2 import Mamba2
from meshwright.model.mixers.nothing import LinearMixer, NoMixer

__all__ = ["Attention", "CompressedAttention", "LatentAttention", "Mixer", "NoMixer", "plain_attention"]

Mixer: TypeAlias = (
    Attention
    | CompressedAttention
    | GatedDelta
    | KimiDelta
    | LatentAttention
    | Lightning
    | LinearMixer
    | Mamba
    | Mamba2
    | NoMixer
)


def plain_attention(mixer: Mixer, question: str) -> Attention:
    """The mixer, where it is grouped-query attention over keys and values of its own.

    Raises MOD030 otherwise: the question has no model for it.
    """
    if not isinstance(mixer, Attention) or mixer.shared_kv:
        named = f"{mixer.kind} over another layer's keys" if isinstance(mixer, Attention) else mixer.kind
        raise ModelError(30, f"{question} of {named} are not modelled", "inspect, fit and plan serve take this model")
    return mixer
