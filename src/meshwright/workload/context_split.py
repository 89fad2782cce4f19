"""A sequence and ranks of `cp` go in; which positions each rank keeps comes out, and the pairs of the busiest one.

    contiguous   one stretch of neighbours a rank: under a causal mask the last rank scores far more than the first
    zigzag       2 n stretches: rank r has number r and number 2 n - 1 - r, one from the front and one from the back
    striped      every n-th position

Positions keep their numbers, so masks and rotary embeddings stay right wherever a position lies. Sources: chapter
"Supernodes", section 6.2.4; Brandon et al., "Striped Attention", 2023 (arXiv:2311.09431), section 3; Llama Team, "The
Llama 3 herd of models", 2024 (arXiv:2407.21783), section 3.3.2, whose 2 n chunks are those of zigzag.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from meshwright.base.errors import JobError
from meshwright.model.mixers.told import ALL
from meshwright.workload.pairs import Run, packed_pairs, positions_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.model.mixers.told import Span
    from meshwright.workload.pairs import Mask

ContextSplit: TypeAlias = Literal["contiguous", "zigzag", "striped"]
ContextExchange: TypeAlias = Literal["ring", "all_gather", "ulysses"]
"""How attention meets the positions of other ranks: K and V go round beside it; or are gathered before it; or an
all_to_all gives each rank all positions of some heads, and another brings the outputs back (Jacobs et al., "DeepSpeed
Ulysses", 2023, arXiv:2309.14509, section 3)."""
Parts: TypeAlias = tuple[tuple[Run, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPlan:
    """How the ranks of cp share a sequence. Under `ulysses` every rank scores all positions, whatever the split."""

    split: ContextSplit = "zigzag"
    exchange: ContextExchange = "ring"

    @property
    def stretches(self) -> int:
        """Equal shards of a sequence that each rank of cp keeps."""
        return 2 if self.split == "zigzag" else 1

    def even(self, span: Span) -> bool:
        """Whether equal shards score as many pairs: by heads always, by zigzag where a token sees all before it."""
        return self.exchange == "ulysses" or (self.split == "zigzag" and span == ALL)


RING_OF_ZIGZAG: Final = ContextPlan()


def context_parts(split: ContextSplit, tokens: int, ranks: int) -> Parts:
    """The positions of every rank; together all of them, each once.

    Stretches differ by one position at most, the longer ones first. Raises JOB131 for more ranks than positions.
    """
    if not 1 <= ranks <= tokens:
        raise JobError(131, f"{tokens} positions over {ranks} ranks", f"give 1 to {tokens} ranks")
    return _SPLITS[split](tokens, ranks)


@cache
def busiest_pairs(split: ContextSplit, documents: tuple[int, ...], ranks: int, mask: Mask, span: Span = ALL) -> int:
    """Pairs of the rank that scores most, for which the others wait. Raises JOB130, JOB131.

    Source: chapter "Supernodes", section 6.2.4.
    """
    if ranks == 1:
        return packed_pairs(documents, mask, span)
    parts = context_parts(split, sum(documents), ranks)
    return max(positions_pairs(part, documents, mask, span) for part in parts)


def _contiguous(tokens: int, ranks: int) -> Parts:
    return tuple((run,) for run in _stretches(tokens, ranks))


def _zigzag(tokens: int, ranks: int) -> Parts:
    runs = _stretches(tokens, 2 * ranks)
    pairs = (runs[rank : rank + 1] + runs[2 * ranks - 1 - rank : 2 * ranks - rank] for rank in range(ranks))
    return tuple(tuple(run for run in pair if run.count) for pair in pairs)


def _striped(tokens: int, ranks: int) -> Parts:
    return tuple((Run(first=rank, count=-(-(tokens - rank) // ranks), step=ranks),) for rank in range(ranks))


def _stretches(tokens: int, count: int) -> tuple[Run, ...]:
    """Neighbouring positions in `count` stretches."""
    share, extra = divmod(tokens, count)
    return tuple(Run(first=place * share + min(place, extra), count=share + (place < extra)) for place in range(count))


_SPLITS: Final[dict[ContextSplit, Callable[[int, int], Parts]]] = {
    "contiguous": _contiguous,
    "zigzag": _zigzag,
    "striped": _striped,
}
