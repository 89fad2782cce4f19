"""Rules a layout must keep: a model, a number of devices and columns of layouts go in; the first broken rule of each row
comes out, with its code, the reason and the nearest degree that keeps it.

A rule is a predicate over columns and a sentence. Rules of one engine (block widths, page sizes) live with the engine;
these hold for any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from meshwright.model.feed_forwards import Dense, Experts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from meshwright.base.numbers import Bools, Ints
    from meshwright.layout.layout import Layout
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model

Check: TypeAlias = "Callable[[Model, Layouts], Bools]"
Sentence: TypeAlias = "Callable[[Model, Layout], str]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """axis: the degree to change.   keeps: True where a row keeps the rule.   sentence: why a row does not."""

    code: str
    axis: str
    keeps: Check
    sentence: Sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first rule that a row breaks."""

    code: str
    reason: str
    nearest: str | None


def first_broken(model: Model, layouts: Layouts, most: int) -> list[Broken | None]:
    """For each row the first broken rule of `RULES`, or None. `most` bounds the search for the nearest degree."""
    found: list[Broken | None] = [None] * len(layouts)
    for rule in reversed(RULES):
        for row in np.flatnonzero(~rule.keeps(model, layouts)).tolist():
            layout = layouts.row(row)
            nearest = _nearest(model, layouts, row, rule.axis, most)
            found[row] = Broken(code=rule.code, reason=rule.sentence(model, layout), nearest=nearest)
    return found


def keeps_all(model: Model, layouts: Layouts) -> Bools:
    """True where a row keeps every rule."""
    kept = np.ones(len(layouts), dtype=np.bool_)
    for rule in RULES:
        kept &= rule.keeps(model, layouts)
    return kept


def _nearest(model: Model, layouts: Layouts, row: int, axis: str, most: int) -> str | None:
    """The degree of `axis` closest to the row's (the smaller of two) with which the row keeps every rule on that axis.

    Expert degrees follow tp, as `ep * etp = tp` leaves them no freedom when tp is what changes.
    """
    value = int(layouts.degree(axis)[row])
    tried = np.arange(1, max(most, 1) + 1)
    tried = tried[np.argsort(np.abs(tried - value), kind="stable")][:_TRIED]
    rows = layouts.take(np.full(len(tried), row))
    changed = {**rows.columns, axis: tried}
    if axis == "tp":
        changed |= {"ep": np.ones_like(tried), "etp": tried} if _has_experts(model) else {}
    probe = type(layouts)(columns=changed)
    good = np.ones(len(tried), dtype=np.bool_)
    for rule in RULES:
        if rule.axis == axis:
            good &= rule.keeps(model, probe)
    best = np.flatnonzero(good)
    return f"{axis}={tried[best[0]]}" if len(best) else None


def _divides(degrees: Ints, sizes: Iterable[int]) -> Bools:
    kept = np.ones(len(degrees), dtype=np.bool_)
    for size in sizes:
        kept &= size % degrees == 0
    return kept


def _heads(model: Model) -> list[int]:
    return sorted({block.mixer.heads for block in model.kinds})


def _kv_heads(model: Model) -> list[int]:
    return sorted({block.mixer.kv_heads for block in model.kinds})


def _dense_widths(model: Model) -> list[int]:
    dense = {block.feed_forward.intermediate for block in model.kinds if isinstance(block.feed_forward, Dense)}
    shared = {
        block.feed_forward.shared.intermediate
        for block in model.kinds
        if isinstance(block.feed_forward, Experts) and block.feed_forward.shared is not None
    }
    return sorted(dense | shared)


def _experts(model: Model) -> list[Experts]:
    return [block.feed_forward for block in model.kinds if isinstance(block.feed_forward, Experts)]


def _has_experts(model: Model) -> bool:
    return bool(_experts(model))


def _kv_kept(model: Model, layouts: Layouts) -> Bools:
    degrees = layouts.degree("tp")
    kept = np.ones(len(degrees), dtype=np.bool_)
    for count in _kv_heads(model):
        kept &= (count % degrees == 0) | (degrees % count == 0)
    return kept


def _experts_cover(model: Model, layouts: Layouts) -> Bools:
    """ep * etp equal to tp where there are experts, and 1 where there are none."""
    spread = layouts.degree("ep") * layouts.degree("etp")
    return spread == (layouts.degree("tp") if _has_experts(model) else 1)


_TRIED: Final = 4096

RULES: Final = (
    Rule(
        code="LAY003",
        axis="tp",
        keeps=lambda model, layouts: _divides(layouts.degree("tp"), _heads(model)),
        sentence=lambda model, row: f"tp={row.tp} does not divide {_heads(model)[0]} attention heads",
    ),
    Rule(
        code="LAY004",
        axis="tp",
        keeps=_kv_kept,
        sentence=lambda model, row: f"tp={row.tp} neither divides {_kv_heads(model)[0]} KV heads nor is a multiple of them",
    ),
    Rule(
        code="LAY005",
        axis="tp",
        keeps=lambda model, layouts: _divides(layouts.degree("tp"), _dense_widths(model)),
        sentence=lambda model, row: f"tp={row.tp} does not divide the feed-forward width {_dense_widths(model)[0]}",
    ),
    Rule(
        code="LAY006",
        axis="etp",
        keeps=lambda model, layouts: _divides(layouts.degree("etp"), [item.intermediate for item in _experts(model)]),
        sentence=lambda model, row: f"etp={row.etp} does not divide the expert width {_experts(model)[0].intermediate}",
    ),
    Rule(
        code="LAY007",
        axis="ep",
        keeps=lambda model, layouts: _divides(layouts.degree("ep"), [item.experts for item in _experts(model)]),
        sentence=lambda model, row: f"ep={row.ep} does not divide {_experts(model)[0].experts} experts",
    ),
    Rule(
        code="LAY008",
        axis="ep",
        keeps=_experts_cover,
        sentence=lambda model, row: (
            f"ep={row.ep} x etp={row.etp} is not tp={row.tp}"
            if _has_experts(model)
            else f"ep={row.ep}, etp={row.etp}: expert parallelism needs experts, and the model is dense"
        ),
    ),
    Rule(
        code="LAY010",
        axis="pp",
        keeps=lambda model, layouts: layouts.degree("pp") <= model.layers,
        sentence=lambda model, row: f"pp={row.pp} is more stages than {model.layers} layers",
    ),
)
