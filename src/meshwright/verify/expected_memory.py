"""A run and a pipeline rank go in; the bytes of state that it is to keep between steps come out, as named terms.

State is that of the ledger, cut as FSDP2 cuts (`strict`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.cost.training_state import state_columns
from meshwright.layout.layouts import table
from meshwright.runtime.loop.trainer import holders_of
from meshwright.verify.setting import held_by, sharded
from meshwright.verify.terms import Term, differs, planned

if TYPE_CHECKING:
    from meshwright.cost.training_state import StateColumns
    from meshwright.layout.layout import Layout
    from meshwright.verify.setting import Held, Setting

_COUNTER_BYTES: Final = 4


def resident(setting: Setting, rank: int) -> dict[str, tuple[Term, ...]]:
    """By category: parameters and optimizer state when a step is over, gradients when its update begins."""
    layout, held = setting.layout, held_by(setting, rank)
    own, cut = (state_of(setting, item) for item in (layout, sharded(layout)))
    names = ("parameters", "gradients", "optimizer_state")
    found = {name: [planned(sum_over(getattr(own, name), held))] for name in names}
    for name in ("parameters", "gradients"):
        less = sum_over(getattr(cut, name), held) - sum_over(getattr(own, name), held)
        reason = "FSDP2 keeps its shard alone from zero 1 on, and the rest in a step"
        found[name].append(differs("shards", less, reason))
    reason = "torch's AdamW counts its steps once a tensor"
    found["optimizer_state"].append(differs("step counters", counter_bytes(setting, rank), reason))
    return {name: tuple(term for term in terms if term.value) for name, terms in found.items()}


def state_of(setting: Setting, layout: Layout) -> StateColumns:
    """What the ledger keeps of a layer of each kind and of the ends, under a layout."""
    return state_columns(setting.model, table([layout]), setting.recipe, shards="strict")


def sum_over(columns: Any, held: Held) -> int:
    """Of all modules that a rank holds."""
    return int(columns[0] @ held.modules)


def counter_bytes(setting: Setting, rank: int) -> int:
    """Of AdamW's steps: one float32 a tensor."""
    return _COUNTER_BYTES * sum(ranks.count(rank) for ranks in holders_of(setting.model, setting.slots).values())
