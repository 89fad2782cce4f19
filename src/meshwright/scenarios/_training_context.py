"""How ranks of cp may share a sequence: a model, a job and columns of degrees go in; which of them can comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from meshwright.layout.rules import head_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.job.train import TrainJob
    from meshwright.layout.layout import Layout
    from meshwright.model.model import Model
    from meshwright.workload.context_split import ContextPlan

Keeps: TypeAlias = "Callable[[Model, TrainJob, ContextPlan, Any, Any], Any]"
Sentence: TypeAlias = "Callable[[Model, TrainJob, ContextPlan, Layout], str]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRule:
    """keeps: True where degrees of tp and cp keep the rule.   sentence: why a layout does not."""

    code: str
    keeps: Keeps
    sentence: Sentence


def takes_cp(model: Model, job: TrainJob, context: ContextPlan, tp: Any, cp: Any) -> Any:
    """Where ranks of cp can share a sequence: one rank always."""
    kept: Any = True
    for rule in _RULES:
        kept = kept & rule.keeps(model, job, context, tp, cp)
    return kept | (cp == 1)


def broken_context_rule(model: Model, job: TrainJob, context: ContextPlan, layout: Layout) -> ContextRule | None:
    """The first rule that a layout breaks."""
    broken = (rule for rule in _RULES if not bool(rule.keeps(model, job, context, layout.tp, layout.cp)))
    return None if layout.cp == 1 else next(broken, None)


def _equal_shards(_model: Model, job: TrainJob, context: ContextPlan, _tp: Any, cp: Any) -> Any:
    plain: Any = job.sequence
    return plain % (context.stretches * cp) == 0


def _shards_sentence(_model: Model, job: TrainJob, context: ContextPlan, layout: Layout) -> str:
    shards = "two equal shards" if context.stretches > 1 else "an equal shard"
    return f"{job.sequence} positions are not {shards} for each of cp={layout.cp} ranks"


def dealt_heads(model: Model, context: ContextPlan, tp: Any, cp: Any) -> Any:
    """Where ulysses finds heads for all ranks."""
    kept: Any = np.asarray(cp) > 0
    if context.exchange == "ulysses":
        for count in head_counts(model):
            kept = kept & (count % (tp * cp) == 0)
    return kept


def dealt_sentence(model: Model, layout: Layout) -> str:
    """Why it does not."""
    ways = layout.tp * layout.cp
    count = next(count for count in head_counts(model) if count % ways)
    return f"ulysses deals out heads, and tp={layout.tp} x cp={layout.cp} does not divide {count} of them"


def followed(model: Model, context: ContextPlan) -> bool:
    """Whether a recurrence meets positions in their order."""
    follows = context.exchange == "ulysses" or context.split == "striped"
    recurrent = any(block.mixer.recurrences() for block in model.kinds)
    return not (follows and recurrent)


def followed_sentence(context: ContextPlan, layout: Layout) -> str:
    """Why it does not."""
    how = "stripes of positions" if context.split == "striped" else "ulysses"
    return f"layers with a recurrence pass their state from one rank of cp={layout.cp} to the next: {how} cannot"


_RULES: Final = (
    ContextRule(code="LAY036", keeps=_equal_shards, sentence=_shards_sentence),
    ContextRule(
        code="LAY050",
        keeps=lambda model, _, context, tp, cp: dealt_heads(model, context, tp, cp),
        sentence=lambda model, _job, _context, layout: dealt_sentence(model, layout),
    ),
    ContextRule(
        code="LAY051",
        keeps=lambda model, _job, context, _tp, cp: (np.asarray(cp) > 0) & followed(model, context),
        sentence=lambda _model, _job, context, layout: followed_sentence(context, layout),
    ),
)
