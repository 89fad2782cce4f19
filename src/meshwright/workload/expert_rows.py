"""How tokens choose, and what an expert takes at most, go in; rows of the busiest ranks come out, as columns.

The even dealing of dropless training is the special case that changes nothing. A routing makes the busiest group
decide: what it is sent, what it runs. A capacity bounds the rows of every expert, and fills them up to it with rows of
zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.numbers import divide_up
from meshwright.base.result import Basis
from meshwright.base.traced import held, stated, values
from meshwright.model.feed_forwards import Experts
from meshwright.workload.expert_reach import likelihoods
from meshwright.workload.feed_forward import by_group

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.job.routing import TokenRouting
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model

NOT_MODELLED: Final = (
    "ep: hierarchical exchange (the all_to_all sends a row for every choice that is kept)",
    "routing: how far the busiest rank of one micro-batch lies above its expectation; layers count at their mean",
    "capacity: tokens whose choices are dropped pass by the layer, and are counted as trained on",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertRows:
    """How rows fall on experts.

    routing: `even` deals rows in turn; `uniform` is as even in expectation.   capacity_factor: of an expert's rows in a
    micro-batch over the mean, of the ranks that share a copy of the experts; None drops nothing.
    """

    routing: TokenRouting = "even"
    capacity_factor: float | None = None


EVEN: Final = ExpertRows()
SAID_OF_EVEN: Final = ("ep: skewed routing", "uneven routing")
"""How what is not modelled of even rows begins, where a plan has others."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KindLoad:
    """likely: [layers, experts], how likely a token chooses each."""

    likely: Floats
    experts: int
    top_k: int

    def busiest(self, groups: int, limit: float) -> float:
        """Rows of the fullest group over an even share, where no expert has more than `limit` times the mean.

        The mean over the layers of the kind.
        """
        mean = self.top_k / self.experts
        kept = np.minimum(self.likely, mean * limit)
        return float(by_group(kept, groups).max(axis=1).mean()) * groups / self.top_k


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loads:
    """Of every block kind with experts; none where rows are even and nothing is dropped."""

    kinds: Mapping[int, KindLoad] = field(default_factory=dict[int, KindLoad])
    factor: Fraction | None = None

    def sent(self, kind: int | None, layouts: Layouts) -> Any:
        """Rows that the busiest group is sent over an even share: a column, or 1."""
        if kind is None or kind not in self.kinds:
            return 1
        degrees, place = np.unique(values(layouts.degree("ep")), return_inverse=True)
        limit = np.inf if self.factor is None else float(self.factor)
        found = np.array([self.kinds[kind].busiest(degree, limit) for degree in degrees.tolist()])
        told = {"basis": Basis.FORMULA.value, "source": "expected of the routing, experts in order over the groups"}
        return stated(found[place], layouts.degree("ep"), "busiest_over_even", **told)

    def capacity(self, kind: int, layouts: Layouts, rows: Any) -> Ints:
        """Rows of an expert at most, of `rows` that each copy of attention brings, whole ones, in a micro-batch.

        floor(factor x tokens x top_k / experts), over the ranks that share a copy of the experts. Source: chapter
        "Training systems", section 10.3.4.
        """
        assert self.factor is not None, "without a factor there is no capacity"
        over, under = self._choices(kind, layouts, rows)
        return over // under

    def run(self, kind: int | None, layouts: Layouts, rows: Any, even_rows: Any) -> Any:
        """Rows that the busiest group runs, those of zeros among them. even_rows: an even share of all choices."""
        if kind is None or kind not in self.kinds:
            return even_rows
        if self.factor is None:
            return even_rows * self.sent(kind, layouts)
        held_experts: Any = self.kinds[kind].experts / layouts.degree("ep")
        return self.capacity(kind, layouts, rows) * held_experts

    def saved(self, kind: int | None, layouts: Layouts, rows: Any, even_rows: Any) -> Any:
        """As `run`, in whole rows, rounded up."""
        if kind is None or kind not in self.kinds:
            return even_rows
        if self.factor is None:
            return np.ceil(values(even_rows) * values(self.sent(kind, layouts)) * (1 - 1e-12)).astype(np.int64)
        over, under = self._choices(kind, layouts, rows)
        return divide_up(over, under) * divide_up(np.full(len(layouts), self.kinds[kind].experts), layouts.degree("ep"))

    def _choices(self, kind: int, layouts: Layouts, rows: Any) -> tuple[Any, Any]:
        """factor x rows x top_k x copies over experts, as a whole number over another."""
        assert self.factor is not None, "without a factor there is no capacity"
        own = self.kinds[kind]
        over = rows * (own.top_k * self.factor.numerator) * layouts.degree("ep") * layouts.degree("etp")
        return over, layouts.degree("tp") * (own.experts * self.factor.denominator)


EVEN_LOADS: Final = Loads()


@cache
def loads_of(model: Model, rows: ExpertRows) -> Loads:
    """The loads of a model's layers."""
    even = isinstance(rows.routing, str)
    if even and rows.capacity_factor is None:
        return EVEN_LOADS
    reads = "expected" if isinstance(rows.routing, str) else rows.routing
    kinds: dict[int, KindLoad] = {}
    for kind, block in enumerate(model.kinds):
        layer = block.feed_forward
        if isinstance(layer, Experts):
            experts, top_k = int(held(layer.experts)), int(held(layer.top_k))
            kinds[kind] = KindLoad(likely=likelihoods(model, kind, reads), experts=experts, top_k=top_k)
    factor = None if rows.capacity_factor is None else Fraction(repr(float(held(rows.capacity_factor))))
    return Loads(kinds=kinds, factor=factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Expected of one micro-batch and layer, over the ranks that share a copy of the experts.

    capacity_rows: of one expert, None without a bound.   choices: of all tokens.   dropped, padding, run_rows: choices
    that no expert runs, rows of zeros, and all rows that are run.
    """

    tokens: int
    choices: int
    capacity_rows: int | None
    dropped: float
    padding: float
    run_rows: float


def dropped_rows(likely: Floats | None, experts: int, top_k: int, tokens: int, capacity: int | None) -> Dropped:
    """What a capacity drops of `tokens` tokens. likely: [experts]; None deals choices in turn, exactly.

    Tokens choose apart from each other, so the rows of an expert are binomial.
    """
    choices = tokens * top_k
    if capacity is None:
        return Dropped(
            tokens=tokens, choices=choices, capacity_rows=None, dropped=0.0, padding=0.0, run_rows=float(choices)
        )
    if likely is None:
        each, more = divmod(choices, experts)
        lost = float(max(0, each + 1 - capacity) * more + max(0, each - capacity) * (experts - more))
    else:
        distinct, count = np.unique(likely, return_counts=True)
        lost = sum(excess(tokens, chance, capacity) * many for chance, many in zip(distinct, count, strict=True))
    run = float(capacity * experts)
    return Dropped(
        tokens=tokens,
        choices=choices,
        capacity_rows=capacity,
        dropped=lost,
        padding=run - (choices - lost),
        run_rows=run,
    )


_WIDE: Final = 12.0


def excess(tokens: int, chance: float, capacity: int) -> float:
    """Expected rows beyond `capacity` of an expert that each of `tokens` tokens chooses with probability `chance`.

    The sum of (x - capacity) P(x) over x above it, of the binomial distribution, as far as P is not nothing.
    """
    if chance <= 0.0 or capacity >= tokens:
        return 0.0
    if chance >= 1.0:
        return float(tokens - capacity)
    mean = tokens * chance
    spread = _WIDE * (mean * (1 - chance)) ** 0.5 + _WIDE
    first, last = max(0, int(mean - spread)), min(tokens, int(mean + spread) + 1)
    if first > capacity:  # all of them, surely
        return mean - capacity
    rows = np.arange(first, last + 1)
    steps = np.log((tokens - rows[1:] + 1) / rows[1:]) + np.log(chance / (1 - chance))
    weight = np.concatenate([np.zeros(1), np.cumsum(steps)])
    weight = np.exp(weight - weight.max())
    return float((np.maximum(rows - capacity, 0) * weight).sum() / weight.sum())
