"""What is asked of the experts of a model goes in; checked numbers and the layout of their ranks come out."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from meshwright.base.errors import JobError, LayoutError
from meshwright.base.traced import held
from meshwright.base.units import TokenCount
from meshwright.layout.layout import AttentionCopies, Layout
from meshwright.model.feed_forwards import Experts
from meshwright.search.assign import Method
from meshwright.workload.expert_batches import Dedup

if TYPE_CHECKING:
    from meshwright.model.model import Model

Attention: TypeAlias = Literal["data_parallel", "replicated", "pool"]
_MOST_TOKENS: Final = 2**24
_MOST_RANKS: Final = 1024
_MOST_REPLICAS: Final = 2**14
MOST_FACTOR: Final = 1000.0
_LEAST_FACTOR: Final = 0.001
DRAWN_AT_MOST: Final = 1 << 27
"""Random numbers of all layers: some seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsOptions:
    """tokens: of the batch, over all ranks.   routing: as `job.routing` reads it, a word or a file.

    ep, etp: ranks that hold the experts, and that cut each of them.   tp: of attention; None is etp where attention is
    replicated, else 1.   attention: `data_parallel` deals tokens over the ranks of the experts; `replicated` has all
    of them on every group; `pool` deals them over `attention_ranks` others.   replicas: copies of hot experts, in all
    groups together.   placement: a method of `search.assign`.   capacity_factor: of a slot, over the mean; None drops
    nothing.   dedup: how a token's row is sent.   dispatch, combine: formats of the rows sent and returned; `plain` is
    that of the model's activations, `fp8` has a float32 for 128 of a row.   seed: of drawn choices.
    """

    tokens: TokenCount
    routing: str = "uniform"
    ep: int = 1
    etp: int = 1
    tp: int | None = None
    attention: Attention = "data_parallel"
    attention_ranks: int | None = None
    replicas: int = 0
    placement: Method = "greedy"
    capacity_factor: float | None = None
    dedup: Dedup = "rank"
    dispatch: str = "plain"
    combine: str = "plain"
    seed: int = 0


def checked_options(options: ExpertsOptions) -> ExpertsOptions:
    """The options themselves. Raises JOB124 (out of range), LAY043 (ranks of attention without a pool, or too many)."""
    ranges = {
        "tokens": (options.tokens, 1, _MOST_TOKENS),
        "ep": (options.ep, 1, _MOST_RANKS),
        "etp": (options.etp, 1, _MOST_RANKS),
        "replicas": (options.replicas, 0, _MOST_REPLICAS),
        "attention-ranks": (1 if options.attention_ranks is None else options.attention_ranks, 1, _MOST_RANKS),
        "capacity-factor": (
            1.0 if options.capacity_factor is None else options.capacity_factor,
            _LEAST_FACTOR,
            MOST_FACTOR,
        ),
    }
    for name, (value, least, most) in ranges.items():
        if not least <= value <= most:
            raise JobError(124, f"--{name} {value}: out of range", f"give {least} to {most}")
    if (options.attention == "pool") != (options.attention_ranks is not None):
        cause = f"--attention {options.attention} and --attention-ranks {options.attention_ranks}"
        raise LayoutError(43, cause, "a pool of experts has ranks of attention beside it, and nothing else has")
    ranks = options.ep * options.etp + (options.attention_ranks or 0)
    if not 1 <= ranks <= _MOST_RANKS:
        raise LayoutError(43, f"{ranks} ranks of experts and attention", f"give 1 to {_MOST_RANKS}")
    return options


def layout_of(options: ExpertsOptions) -> Layout:
    """The ranks of the experts as a layout. Raises LAY043 where tp does not divide them."""
    ranks = options.ep * options.etp
    tp = options.tp if options.tp is not None else options.etp if options.attention == "replicated" else 1
    if held(tp) < 1 or held(ranks) % held(tp):
        raise LayoutError(43, f"--tp {tp} does not divide the {ranks} ranks of ep x etp", "give a divisor")
    copies: AttentionCopies = "replicated" if options.attention == "replicated" else "data_parallel"
    return Layout(tp=tp, dp_replicate=ranks // tp, ep=options.ep, etp=options.etp, attention=copies)


def expert_layers(model: Model) -> dict[int, tuple[int, Experts]]:
    """The layers with experts: of each its block kind and its mixture."""
    kinds = model.kinds
    found: dict[int, tuple[int, Experts]] = {}
    for layer, kind in enumerate(model.kind_of_layer):
        feed_forward = kinds[kind].feed_forward
        if isinstance(feed_forward, Experts):
            found[layer] = (kind, feed_forward)
    return found


def exact_factor(factor: float) -> Fraction:
    """The factor as it is written: 1.1 is eleven tenths."""
    return Fraction(repr(float(factor)))
