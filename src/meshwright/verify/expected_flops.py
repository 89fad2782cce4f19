"""A run and a pipeline rank go in; the FLOPs that it is to compute in a step come out, as named terms.

From the operator table, as the estimate of a step takes them: `model_flops` is without what recompute runs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.cost.model_flops import PASSES
from meshwright.cost.training_work import operator_flops
from meshwright.verify.setting import held_by, rows_of
from meshwright.verify.terms import differs, planned
from meshwright.workload.operators import operators
from meshwright.workload.recomputing import repeated

if TYPE_CHECKING:
    from meshwright.verify.setting import Setting
    from meshwright.verify.terms import Term

_SCORES = 0.5
"""Of attention's two products, the one that a flash backward makes again."""


def model_flops(setting: Setting, rank: int) -> int:
    """Forward, and twice as much backward, of the rank at the origin of a stage."""
    held, last, total = held_by(setting, rank), rows_of(setting)["last"], 0.0
    for operator in operators(setting.model):
        row = last if operator.kind is None else operator.kind
        flops = float(operator_flops(setting.layouts, setting.sequence, operator)[0])
        total += flops * int(held.passes[row]) * PASSES
    return planned(total).value


def hardware_flops(setting: Setting, rank: int) -> tuple[Term, ...]:
    """All that is computed, by that rank."""
    held, model = held_by(setting, rank), setting.model
    shares = repeated(model, setting.layout.recompute)
    again = early = scores = uneven = 0.0
    for operator in operators(model):
        if operator.kind is None:
            continue
        flops = float(operator_flops(setting.layouts, setting.sequence, operator)[0])
        passes = int(held.passes[operator.kind])
        again += flops * passes * shares[operator.name]
        whole = int(held.again[operator.kind])
        uneven += flops * (whole - passes * shares[operator.name]) if whole else 0.0
        if operator.scores.dims:
            scores += flops * passes * _SCORES
        elif operator.name == "mlp.down_proj" and not held.splits:
            early -= flops * int(held.last_again[operator.kind])
    found = [
        planned(model_flops(setting, rank) + again),
        differs("scores again", scores, "a flash backward makes the scores again from queries and keys"),
        differs("layers of a stage", uneven, "`every_N` treats whole layers of each stage, the plan a share of them"),
        differs("early stop", early, "torch's checkpoint stops before a last product whose result nothing keeps"),
    ]
    return tuple(term for term in found if term.value or term is found[0])
