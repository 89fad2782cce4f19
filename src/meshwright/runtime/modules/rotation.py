"""Positions go in; the cosines and sines that turn queries and keys by them come out.

Source: Su et al., "RoFormer", 2021 (arXiv:2104.09864), in the half-split form of Hugging Face's Llama; stretching as
transformers 5.24, `modeling_rope_utils`. Angles are in float32, as there, whatever the weights are in.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from meshwright.model.arithmetic import Rotation


def turns(rotation: Rotation, head_dim: int, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines [positions, head_dim] in `dtype`; both halves of a head turn alike."""
    steps = torch.arange(0, head_dim, 2, dtype=torch.int64, device=positions.device).float()
    inverse = _stretched(rotation, 1.0 / rotation.theta ** (steps / head_dim))
    angles = positions.float()[:, None] * inverse[None, :]
    both = torch.cat((angles, angles), dim=-1)
    return both.cos().to(dtype), both.sin().to(dtype)


def turned(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """[batch, heads, positions, head_dim], turned."""
    first, second = heads.chunk(2, dim=-1)
    return heads * cosines + torch.cat((-second, first), dim=-1) * sines


def _stretched(rotation: Rotation, inverse: Tensor) -> Tensor:
    if rotation.kind == "default":
        return inverse
    if rotation.kind == "linear":
        return inverse / rotation.factor
    waves = 2 * math.pi / inverse
    share = (rotation.original / waves - rotation.low) / (rotation.high - rotation.low)
    between = (1 - share) * inverse / rotation.factor + share * inverse
    long = torch.where(waves > rotation.original / rotation.low, inverse / rotation.factor, inverse)
    middle = (waves >= rotation.original / rotation.high) & (waves <= rotation.original / rotation.low)
    return torch.where(middle, between, long)
