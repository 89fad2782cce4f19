"""Is a tensor parallel group wider than a box worth it? Its step over boxes, and in one domain, against one box's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from meshwright.base.errors import LayoutError
from meshwright.base.units import Bytes, Tokens
from meshwright.cost.collectives import MEASURED, check_choice
from meshwright.cost.estimate import Assumptions, WeightReads, estimate_step
from meshwright.layout.layouts import table
from meshwright.model.model import Model
from meshwright.scenarios.fit import check_layout, replica_layout
from meshwright.scenarios.tensor_parallel import exchanges_per_step
from meshwright.system.system import System
from meshwright.workload.batches import decode

LEFT_OUT: Final = (
    "what software adds to an exchange: by formula it is latency and bytes on wires, a bound (see `measured`)",
    "a larger domain's own latency: its rounds take the time of a round inside a box",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStep:
    """One decode step on tp ranks. all_reduce_s: one exchange; exchange_s: all of the step.

    archived_bytes: the measured size that answered, None by formula.   slower_s, all_reduce_ratio: against the group of
    one box; both are 0 and 1 for itself.
    """

    tp: int
    algorithm: str
    rounds: int
    archived_bytes: Bytes | None
    all_reduce_s: float
    local_s: float
    exchange_s: float
    step_s: float
    slower_s: float
    all_reduce_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WideGroup:
    """The steps side by side.

    one_box: tp over the devices of one box.   over_boxes: the wide tp, its rounds over the NICs.   measured: with the
    archived time, None without one.   one_domain: as if one box held them all.   break_even_s: the all_reduce at which
    the wide step is as long as one box's; the wide group loses at any longer one.
    """

    one_box: GroupStep
    over_boxes: GroupStep
    measured: GroupStep | None
    one_domain: GroupStep
    break_even_s: float
    not_modelled: tuple[str, ...]


def wide_group(  # noqa: PLR0917 - the nouns, the degree and two assumptions
    model: Model, system: System, tp: int, context: Tokens, all_reduce: str, weight_reads: WeightReads
) -> WideGroup:
    """The first decode step at `context`, tp over several boxes. Raises COL001, LAY002 and the codes of the rules.

    Source: chapter "Supernodes", sections 6.5.1 and 6.5.3.
    """
    check_choice(all_reduce)
    if tp <= system.devices_per_node:
        cause = f"tp={tp} lies inside one box of {system.devices_per_node} devices"
        raise LayoutError(2, cause, f"give tp={2 * system.devices_per_node}, with boxes for it (--set system='ID x2')")
    chosen = Assumptions(all_reduce=all_reduce, weight_reads=weight_reads)
    box = _step(model, system, system.devices_per_node, context, chosen, None)
    wide = _step(model, system, tp, context, chosen, box)
    archived = _step(model, system, tp, context, replace(chosen, all_reduce=MEASURED), box)
    domain = replace(system, nodes=1, devices_per_node=tp)
    return WideGroup(
        one_box=box,
        over_boxes=wide,
        measured=None if archived.archived_bytes is None else archived,
        one_domain=_step(model, domain, tp, context, chosen, box),
        break_even_s=(box.step_s - wide.local_s) / exchanges_per_step(model),
        not_modelled=LEFT_OUT,
    )


def _step(  # noqa: PLR0917 - as `wide_group`
    model: Model, system: System, tp: int, context: Tokens, assumptions: Assumptions, box: GroupStep | None
) -> GroupStep:
    layout = replica_layout(model, tp, 1, 1)
    check_layout(model, system, layout)
    step = estimate_step(model, system, table([layout]), decode(context, 1), assumptions)
    exchange = next(found for message, found in step.exchanges if not message.boundary)
    archived, one, total = exchange.measured[0], float(exchange.seconds[0]), float(step.total_s[0])
    return GroupStep(
        tp=tp,
        algorithm=exchange.algorithm[0],
        rounds=int(exchange.rounds[0]),
        archived_bytes=None if archived is None else archived.size,
        all_reduce_s=one,
        local_s=float(step.local_s[0]),
        exchange_s=float(step.exchange_s[0]),
        step_s=total,
        slower_s=0.0 if box is None else total - box.step_s,
        all_reduce_ratio=1.0 if box is None else one / box.all_reduce_s,
    )
