"""Which positions should each rank of cp keep? Documents, ranks and a mask go in; pairs of every rank come out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from meshwright.job.serve import MOST_TOKENS, check_range
from meshwright.model.mixers.told import Span
from meshwright.workload.context_split import ContextSplit, context_parts
from meshwright.workload.pairs import Mask, Run, packed_pairs, positions_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_RANKS: Final = 65_536
_MOST_SHOWN: Final = 64
LEFT_OUT: Final = (
    "seconds: `study run context-parallel` has them, with the exchange",
    "kernels that compute pairs of a block which their mask hides",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPart:
    """What one rank keeps. positions: counted from 1, as `1-2,7-8`; `1+4k` is every fourth.   pairs: that it scores."""

    rank: int
    tokens: int
    positions: str
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextShares:
    """A split of one packed sequence. pairs: of all ranks.   busiest_over_*: of the busiest rank's pairs.

    ranks: the first 64. The mean is what a rank would score if all scored alike.
    """

    split: str
    tokens: int
    pairs: int
    busiest_pairs: int
    least_pairs: int
    mean_pairs: float
    busiest_over_least: float
    busiest_over_mean: float
    ranks: tuple[RankPart, ...]
    not_modelled: tuple[str, ...]


def context_split(documents: tuple[int, ...], ranks: int, split: ContextSplit, mask: Mask, span: Span) -> ContextShares:
    """Pairs by rank of documents packed into one sequence, none of which sees another.

    span: positions that one sees under a causal mask: a window, chunks, or rows of a stride. Raises JOB001 (sizes),
    JOB130 (documents, a span), JOB131 (ranks). Source: chapter "Supernodes", section 6.2.4; chapter
    "Training systems", section 10.3.4.
    """
    check_range("documents", sum(documents), 1, MOST_TOKENS)
    check_range("ranks", ranks, 1, _MOST_RANKS)
    parts = context_parts(split, sum(documents), ranks)
    pairs = [positions_pairs(part, documents, mask, span) for part in parts]
    rows = tuple(
        RankPart(rank=rank, tokens=sum(run.count for run in part), positions=_written(part), pairs=count)
        for rank, (part, count) in enumerate(islice(zip(parts, pairs, strict=True), _MOST_SHOWN))
    )
    total = packed_pairs(documents, mask, span)
    return ContextShares(
        split=split,
        tokens=sum(documents),
        pairs=total,
        busiest_pairs=max(pairs),
        least_pairs=min(pairs),
        mean_pairs=total / ranks,
        busiest_over_least=max(pairs) / min(pairs),
        busiest_over_mean=max(pairs) * ranks / total,
        ranks=rows,
        not_modelled=LEFT_OUT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Two ways to fill a sequence. more_pairs_fraction: of the first against the other, less one."""

    tokens: int
    pairs: int
    against_tokens: int
    against_pairs: int
    more_pairs_fraction: float


def packing(documents: tuple[int, ...], against: tuple[int, ...], mask: Mask, span: Span) -> Packing:
    """Pairs of packed documents against those of another packing: at equal tokens, lengths alone move them.

    Raises JOB001 (sizes), JOB130. Source: chapter "Training systems", section 10.3.4.
    """
    for given in (documents, against):
        check_range("documents", sum(given), 1, MOST_TOKENS)
    pairs, others = (packed_pairs(item, mask, span) for item in (documents, against))
    return Packing(
        tokens=sum(documents),
        pairs=pairs,
        against_tokens=sum(against),
        against_pairs=others,
        more_pairs_fraction=pairs / others - 1,
    )


def _written(runs: Sequence[Run]) -> str:
    """Positions counted from 1."""
    return ",".join(f"{run.first + 1}+{run.step}k" if run.step > 1 else _stretch(run) for run in runs)


def _stretch(run: Run) -> str:
    return f"{run.first + 1}" if run.count == 1 else f"{run.first + 1}-{run.last + 1}"
