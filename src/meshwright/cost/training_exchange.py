"""Columns of layouts go in; seconds of the exchanges of training come out: in a layer, and of weights and gradients.

Rounds and bytes are those of the registered programs. A group that reaches over several boxes shares their NICs with
the other groups of the same boxes: with as many NICs as devices a box-wide ring may spread over all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.base.numbers import maximum, minimum, where
from meshwright.base.traced import named
from meshwright.cost.collectives import all_reduce, port_bytes, program_s, send_s
from meshwright.cost.context import context_message_bytes, context_message_s, ring_wait_s
from meshwright.cost.groups import block_nodes, group_along, group_of, rates
from meshwright.cost.kept import gathered, gradient_buffers, updated
from meshwright.cost.pipelines import added
from meshwright.layout.axes import EXPERT_AXES
from meshwright.layout.ownership import fullest_sizes, shard_group_size
from meshwright.layout.placement import boundaries_outside, joined, leaves_node
from meshwright.model.model import block_weights, first_weights, last_weights
from meshwright.workload.context_split import RING_OF_ZIGZAG
from meshwright.workload.expert_rows import EVEN, EVEN_LOADS, ExpertRows, Loads, loads_of
from meshwright.workload.training_messages import training_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Floats, Ints
    from meshwright.cost.groups import Group, Nic
    from meshwright.cost.kept import Kept
    from meshwright.cost.training_work import TrainingWork
    from meshwright.job.recipe import Recipe
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.model.tensors import Tensor
    from meshwright.system.system import System
    from meshwright.workload.context_split import ContextPlan
from meshwright.workload.training_messages import TrainingMessage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerExchange:
    """Columns [rows, kinds + 2] of seconds that computation waits for, one layer and micro-batch, by pass."""

    forward_s: Floats
    backward_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateExchange:
    """Columns [rows, kinds + 2] of seconds of one module, a layer or an end, and of bytes that a rank sends then.

    gather: its weights over dp_shard x cp, as its products read them (zero 3).   refresh: its parameters as they are
    kept, from those who updated them (zero 1 and 2).   reduce: its gradients to their owners.   spread: the owners'
    sums over the other copies, those of dp_replicate.   ends_s: [rows], of the sum of a table that both ends of a
    pipeline have; the first end has its gradients last, so nothing hides it. Its bytes are among those of spread.
    """

    gather_s: Floats
    refresh_s: Floats
    reduce_s: Floats
    spread_s: Floats
    ends_s: Floats
    gather_bytes: Floats
    refresh_bytes: Floats
    reduce_bytes: Floats
    spread_bytes: Floats


def layer_exchange(  # noqa: PLR0917 - the nouns, and the work beside which exchanges run
    model: Model,
    system: System,
    layouts: Layouts,
    sequence: int,
    work: TrainingWork,
    nic: Nic,
    context: ContextPlan = RING_OF_ZIGZAG,
    experts: ExpertRows = EVEN,
) -> LayerExchange:
    """What the layers and ends wait for. cp's ring runs beside attention, round by round (`ring_wait_s`).

    A gather of K and V, the two all_to_alls of Ulysses, and state that passes through the ranks are waited for whole.
    """
    shape = (len(layouts), len(model.kinds) + 2)
    forward: Any = np.zeros(shape)
    backward: Any = np.zeros(shape)
    groups = {axis: group_along(system, layouts, axis, nic) for axis in ("tp", "cp")}
    loads = loads_of(model, experts)
    for message in training_messages(model, context):
        place = {"first": shape[1] - 2, "last": shape[1] - 1}.get(str(message.place), message.place)
        assert isinstance(place, int)
        seconds = _message_s(model, system, layouts, sequence, message, groups, nic, loads)
        if seconds is None:
            continue
        seconds = named(seconds, f"{message.operation}_after_{message.after}_s")
        if message.operation == "ring":
            beside, share = work.attention_s[:, place], work.attention_again_fraction[:, place]
            late = ring_wait_s(model, layouts, sequence, place, beside, seconds, context)
            passes = (late, late * 2 + late * share)
        else:
            again = work.again_fraction[:, place]
            passes = (seconds * message.forward, seconds * (message.backward + message.forward * again))
        forward, backward = added(forward, place, passes[0]), added(backward, place, passes[1])
    return LayerExchange(forward_s=forward, backward_s=backward)


def _message_s(  # noqa: PLR0917 - the nouns and a message
    model: Model,
    system: System,
    layouts: Layouts,
    sequence: int,
    message: TrainingMessage,
    groups: dict[str, Group],
    nic: Nic,
    loads: Loads,
) -> Any:
    """Seconds of one such exchange; None where no row has it."""
    degree = layouts.degree(message.axis)
    if int(layouts.plain().degree(message.axis).max(initial=1)) == 1:
        return None
    none = np.zeros(1)
    if message.axis == "cp":
        rows = _rows(layouts, sequence)
        seconds = context_message_s(model, layouts, rows, layouts.degree("micro_batch"), message, groups["cp"])
        return where(degree > 1, seconds, none)
    sent: Any = message_bytes(model, layouts, sequence, message, loads)
    spread = layouts.degree("ep") * layouts.degree("etp") > layouts.degree("tp")
    spread = spread | layouts.columns["sp"]
    if message.axis == "tp":
        group = groups["tp"]
        whole, ring = all_reduce("auto", group, sent, system).seconds, program_s("ring", "all_gather", group, sent)
        whole = where(layouts.columns["sp"], ring * 2, whole)
        if message.operation == "merge":
            whole = where(spread, where(layouts.columns["sp"], none, ring), whole)
        return where(degree > 1, whole, none)
    if message.axis == "ep":
        width = layouts.degree("ep") * layouts.degree("etp")
        group = group_of(degree, block_nodes(system, layouts, width), *rates(system, nic))
        seconds = program_s("direct", "all_to_all", group, sent)
    else:  # etp lies innermost, as tp does
        inner = layouts.changed({"tp": layouts.degree("etp"), "cp": np.ones(len(layouts), dtype=np.int64)})
        group = group_along(system, inner, "tp", nic)
        seconds = program_s("ring", "all_reduce", group, sent * layouts.degree("etp"))
    return where((degree > 1) & spread, seconds, none)


def message_bytes(
    model: Model, layouts: Layouts, sequence: int, message: TrainingMessage, loads: Loads = EVEN_LOADS
) -> Floats:
    """Bytes of one such exchange of one micro-batch, as its collective counts a message.

    Of an all_reduce its buffer, which under sp a reduce_scatter is given and an all_gather gives; of a ring, a gather
    or a pass over cp what one round sends; of an all_to_all what a rank sends, of experts what the busiest one gets.
    """
    rows = _rows(layouts, sequence)
    if message.axis == "cp":
        return context_message_bytes(model, layouts, rows, layouts.degree("micro_batch"), message)
    if message.axis != "tp":
        rows = rows / layouts.degree("tp")
    element: Any = model.plain.bits / 8
    if message.axis in EXPERT_AXES and isinstance(message.place, int):
        rows = rows * loads.sent(message.place, layouts)
    return rows * (message.row_elements * element)


def _rows(layouts: Layouts, sequence: int) -> Any:
    """Rows of one micro-batch on a rank of cp."""
    return layouts.degree("micro_batch") * (1.0 * sequence) / layouts.degree("cp")


def boundary_s(model: Model, system: System, layouts: Layouts, sequence: int, nic: Nic) -> Floats:
    """Mean seconds of one stage boundary and direction, one micro-batch: a rank sends its rows to its counterpart."""
    sent = boundary_bytes(model, layouts, sequence)
    near: Any = send_s(sent, system.scale_up.latency, system.scale_up.bandwidth)
    far = near
    if system.scale_out is not None and system.nics_per_node:
        nics: Any = system.nics_per_node if nic == "own" else 1
        rate: Any = minimum(system.scale_out.bandwidth, system.scale_out.bandwidth * nics / system.devices_per_node)
        far = send_s(sent, system.nic_latency, rate)
    outside = boundaries_outside(layouts, system.devices_per_node)
    crossings = maximum(layouts.degree("pp") - 1, 1)
    return (near * (crossings - outside) + far * outside) / crossings


def boundary_bytes(model: Model, layouts: Layouts, sequence: int) -> Floats:
    """Bytes that one rank sends over a stage boundary, one micro-batch: its rows, under sp its part of them."""
    rows = _rows(layouts, sequence)
    cut = where(layouts.columns["sp"], layouts.degree("tp"), np.ones(1, dtype=np.int64))
    return rows * (model.hidden * model.plain.bits / 8) / cut


def state_exchange(model: Model, system: System, layouts: Layouts, recipe: Recipe, nic: Nic) -> StateExchange:
    """Gathers and reductions of every module, as if each had its turn alone on the channel.

    Bytes are those of the list of what is kept: FSDP2 gathers a cast copy, and adapters alone have gradients. Source:
    chapter "Training systems", section 10.3.3.
    """
    shard = group_along(system, joined(layouts, "dp_shard", "cp"), "dp_shard", nic)
    copies = group_along(system, layouts, "dp_replicate", nic)
    experts = _expert_shard(model, layouts, shard)
    of_experts = _expert_copies(layouts, copies, experts)
    read, held, summed = (
        module_bytes(model, layouts, recipe, listed) for listed in (gathered, updated, gradient_buffers)
    )
    spread = [(copies, shard, summed[0]), (of_experts, experts, summed[1])]
    ends = (_ends(system, layouts, nic), shard, _shared_ends(model, layouts, recipe))
    none = np.zeros(summed[0].shape)
    return StateExchange(
        gather_s=_gather_s(shard, read[0]) + _gather_s(experts, read[1]),
        refresh_s=_gather_s(shard, held[0]) + _gather_s(experts, held[1]),
        reduce_s=_ring_s("reduce_scatter", shard, summed[0]) + _ring_s("reduce_scatter", experts, summed[1]),
        spread_s=sum((_spread_s(*item) for item in spread), none),
        ends_s=_spread_s(*ends)[:, -2],
        gather_bytes=_sent("all_gather", shard, read[0]) + _sent("all_gather", experts, read[1]),
        refresh_bytes=_sent("all_gather", shard, held[0]) + _sent("all_gather", experts, held[1]),
        reduce_bytes=_sent("reduce_scatter", shard, summed[0]) + _sent("reduce_scatter", experts, summed[1]),
        spread_bytes=sum((_sent("all_reduce", each, _piece(own, size)) for each, own, size in (*spread, ends)), none),
    )


def module_bytes(
    model: Model,
    layouts: Layouts,
    recipe: Recipe,
    listed: Callable[[tuple[Tensor, ...], Recipe], tuple[Kept, ...]],
) -> tuple[Ints, Ints]:
    """[rows, kinds + 2] of bytes that one rank uses of a module, without those of routed experts, and of these."""
    modules = [block_weights(model, kind) for kind in range(len(model.kinds))]
    modules += [first_weights(model), tuple(tensor for tensor in last_weights(model) if tensor.alias is None)]
    items = [listed(module, recipe) for module in modules]
    plain = [_used([item for item in module if not _routed(item.tensor)], layouts) for module in items]
    routed = [_used([item for item in module if _routed(item.tensor)], layouts) for module in items]
    plain[-1] = plain[-1] + _shared(model, layouts, recipe, listed)
    return np.stack(plain, axis=1), np.stack(routed, axis=1)


def _shared(
    model: Model,
    layouts: Layouts,
    recipe: Recipe,
    listed: Callable[[tuple[Tensor, ...], Recipe], tuple[Kept, ...]],
) -> Ints:
    """[rows] of bytes of what the last end shares with the first, where they are on different ranks."""
    shared = tuple(tensor for tensor in last_weights(model) if tensor.alias is not None)
    size = _used(list(listed(shared, recipe)), layouts)
    return where(layouts.degree("pp") > 1, size, np.zeros(1, dtype=np.int64))


def _shared_ends(model: Model, layouts: Layouts, recipe: Recipe) -> Ints:
    """[rows, kinds + 2] of bytes of the gradients that the two ends of a pipeline have of one table."""
    size = _shared(model, layouts, recipe, gradient_buffers)
    none: Any = np.zeros_like(size)
    return np.stack([*(none for _ in model.kinds), size, size], axis=1)


def _ends(system: System, layouts: Layouts, nic: Nic) -> Group:
    """The first and the last rank of a pipeline, or the only one."""
    outside = leaves_node(layouts, "pp", system.devices_per_node)
    return group_of(minimum(layouts.degree("pp"), 2), np.where(outside, 2, 1), *rates(system, nic))


def _used(items: list[Kept], layouts: Layouts) -> Ints:
    total: Any = np.zeros(len(layouts), dtype=np.int64)
    for item in items:
        total = total + item.piece_bytes(fullest_sizes(item.tensor, layouts, "gathered"))
    return total


def _routed(tensor: Tensor) -> bool:
    return tensor.dims[0].role == "experts"


def _expert_shard(model: Model, layouts: Layouts, shard: Group) -> Group:
    """The group as the experts have it: what their own view leaves free of it."""
    weights = [tensor for kind in range(len(model.kinds)) for tensor in block_weights(model, kind)]
    routed = next(filter(_routed, weights), None)
    return shard if routed is None else _of_as_many(shard, shard_group_size(routed, layouts))


def _expert_copies(layouts: Layouts, copies: Group, experts: Group) -> Group:
    """The copies of an expert's shard."""
    spread = layouts.degree("ep") * layouts.degree("etp") * experts.ranks
    ranks = layouts.degree("tp") * layouts.degree("cp") * layouts.degree("dp_shard") * layouts.degree("dp_replicate")
    return _of_as_many(copies, maximum(ranks // spread, 1))


def _of_as_many(group: Group, ranks: Ints) -> Group:
    """Groups of so many ranks, spread as far as the given ones."""
    return group_of(ranks, group.nodes, group.near, group.far)


def _gather_s(group: Group, size: Ints) -> Floats:
    return _ring_s("all_gather", group, size)


def _spread_s(group: Group, shard: Group, size: Ints) -> Floats:
    """An all_reduce of a shard over its copies."""
    return _ring_s("all_reduce", group, _piece(shard, size))


def _ring_s(operation: str, group: Group, size: Any) -> Any:
    """Of every module; nothing where there is no group, or nothing to send."""
    seconds = program_s("ring", operation, group.beside(), size)
    return where((group.ranks[:, None] > 1) & (size > 0), seconds, np.zeros(1))


def _sent(operation: str, group: Group, size: Any) -> Floats:
    """What a rank of a ring sends."""
    return port_bytes("ring", operation, group.beside(), size)


def _piece(shard: Group, size: Ints) -> Any:
    return size / shard.ranks[:, None]
