"""Weights that several ranks hold go in; whether they are the same to the bit comes out, naming the first that is not.

Copies that drift apart fail nowhere by themselves: every rank goes on training, and a save keeps one rank's copy.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from meshwright.base.errors import RunError
from meshwright.runtime.state.weights import kept

if TYPE_CHECKING:
    from meshwright.runtime.modules.decoder import Ranges
    from meshwright.runtime.world import World


def check_replicas(world: World, parameters: Sequence[tuple[str, torch.Tensor]], owned: Ranges) -> None:
    """Every part of a weight that two modules or ranks hold is the same. All ranks call this.

    parameters: of this rank, by name.   owned: the index ranges that it keeps. Raises RUN015 on every rank.
    """
    mine = [(name, str(owned[name]), _digest(value)) for name, value in parameters]
    found: list[list[tuple[str, str, int]]] = [mine]
    if world.mesh is not None:
        found = [[] for _ in range(world.layout.world_size)]
        dist.all_gather_object(found, mine)
    known: dict[tuple[str, str], tuple[int, int]] = {}
    for rank, items in enumerate(found):
        for name, part, digest in items:
            first, expected = known.setdefault((name, part), (rank, digest))
            if digest != expected:
                cause = f"{name} differs between ranks {first} and {rank}, which hold the same part of it"
                raise RunError(
                    15,
                    cause,
                    "verify parity tells what differs first: a gradient may not be summed",
                )


def _digest(value: torch.Tensor) -> int:
    """Of the bits."""
    bits = kept(value).detach().cpu().contiguous()
    return zlib.crc32(bits.view(torch.uint8).numpy().tobytes()) if bits.numel() else 0
