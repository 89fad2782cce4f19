"""A seed and a number go in; the generator of what is drawn for that number comes out."""

from __future__ import annotations

from typing import Final

import torch

_WIDTH: Final = 2**32
_APART: Final = 0x9E3779B1
"""Odd, so that no two seeds begin at one place; near 2**32 over the golden ratio, so that small seeds lie far apart."""


def generator(seed: int, number: int) -> torch.Generator:
    """Of a CPU. Torch's generator there takes the lower 32 bits of what it is given and drops the rest.

    Source: torch 2.13, ATen/core/MT19937RNGEngine.h, `init_with_uint32`.
    """
    return torch.Generator().manual_seed((number + seed * _APART) % _WIDTH)
