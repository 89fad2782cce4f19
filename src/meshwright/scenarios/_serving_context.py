"""How ranks of cp serve: a model, layouts and a way to share prompts go in; rules, and what is left out, come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.layout.context import by_weights
from meshwright.layout.layout import CONTEXT_PARALLEL
from meshwright.layout.rules import Rule
from meshwright.scenarios._training_context import dealt_heads, dealt_sentence, followed, followed_sentence

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools
    from meshwright.layout.layout import Layout
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.workload.context_split import ContextPlan

CONTEXT_LEFT_OUT: Final = (
    "cp: cached positions lie round robin, one by one; engines that deal them out in longer runs keep a run more",
    "cp: state of fixed size has no positions: ranks that repeat the weights keep and turn it whole, others by heads",
    "cp: rows of a prompt are dealt out evenly; ranks whose part is shorter by one wait",
)
_INDEXED: Final = "cp: the choice of rows by an indexer over all ranks, which need not choose as many of each"


def context_left_out(model: Model) -> tuple[str, ...]:
    """What no plan says of cp."""
    chosen = any(item.span.top is not None for block in model.kinds for item in block.mixer.pair_products("absorbed"))
    return (*CONTEXT_LEFT_OUT, _INDEXED) if chosen else CONTEXT_LEFT_OUT


def serving_context_rules(context: ContextPlan) -> tuple[Rule, ...]:
    """What forbids a prompt, or experts, over ranks of cp that repeat the weights; those that share them do as tp."""
    return (
        Rule(
            code="LAY050",
            axis="cp",
            keeps=lambda model, layouts: (
                _alone(layouts) | dealt_heads(model, context, layouts.degree("tp"), layouts.degree("cp"))
            ),
            sentence=dealt_sentence,
            reads=("cp", "attention"),
        ),
        Rule(
            code="LAY051",
            axis="cp",
            keeps=lambda model, layouts: _alone(layouts) | followed(model, context),
            sentence=lambda _, row: followed_sentence(context, row),
            reads=("cp", "attention"),
        ),
        Rule(
            code="LAY052",
            axis="attention",
            keeps=_experts_within,
            sentence=_experts_sentence,
            values=(CONTEXT_PARALLEL,),
            reads=("cp", "attention"),
        ),
        Rule(
            code="LAY053",
            axis="dp_replicate",
            keeps=lambda _, layouts: (layouts.degree("cp") == 1) | (layouts.degree("dp_replicate") == 1),
            sentence=lambda _, row: (
                f"dp_replicate={row.dp_replicate} copies of attention, each over cp={row.cp} ranks: plan either"
            ),
            reads=("cp",),
        ),
    )


def _alone(layouts: Layouts) -> Bools:
    """Where no rank of cp repeats the weights of another."""
    found: Any = by_weights(layouts).degree("cp") == 1
    return np.asarray(found, dtype=np.bool_)


def _experts_within(_model: Model, layouts: Layouts) -> Bools:
    """Ranks that repeat the weights have experts of their own: nothing sends their rows to others."""
    spread: Any = layouts.degree("ep") * layouts.degree("etp")
    return _alone(layouts) | (spread <= layouts.degree("tp"))


def _experts_sentence(_model: Model, row: Layout) -> str:
    ranks = f"ep={row.ep} x etp={row.etp} ranks, more than tp={row.tp}"
    return f"experts over {ranks}: ranks of cp={row.cp} that repeat the weights send each other no rows"
