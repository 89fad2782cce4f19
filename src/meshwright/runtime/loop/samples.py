"""A step and a global index go in; the tokens of that sample come out, the same for every layout and every rank."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from meshwright.runtime.draws import generator
from meshwright.runtime.parallel.vocabulary import NO_LABEL

_SHORTEST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTokens:
    """Tokens from a seed. ragged: samples have lengths from 2 to `sequence`, the rest is padding without a label."""

    seed: int
    vocab: int
    sequence: int
    ragged: bool

    def sample(self, index: int) -> tuple[Tensor, Tensor]:
        """Tokens and labels [sequence] of the sample at a global index: each label is the token that follows."""
        draw = generator(self.seed, index)
        tokens = torch.randint(self.vocab, (self.sequence + 1,), generator=draw)
        length = self.sequence
        if self.ragged:
            length = int(torch.randint(_SHORTEST, self.sequence + 1, (1,), generator=draw))
        labels = tokens[1:].clone()
        labels[length:] = NO_LABEL
        return tokens[:-1], labels
