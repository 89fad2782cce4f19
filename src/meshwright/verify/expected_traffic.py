"""A run and a pipeline rank go in; bytes of messages by (collective, axis) that it is to send come out, as named terms.

Messages within layers, between stages and of modules are those of the planner; what the run sends beside has a name. A
message counts as nccl-tests count it: see `runtime.tape.calls`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from meshwright.cost.kept import gathered, gradient_buffers
from meshwright.cost.training_exchange import boundary_bytes, message_bytes, module_bytes, updated
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.layouts import table
from meshwright.layout.mesh import rank_of
from meshwright.layout.ownership import ZERO_OF_STATE, fullest_sizes, placement, product, state_ways
from meshwright.model.formats import FP32
from meshwright.model.model import block_weights, first_weights, last_weights
from meshwright.runtime.loop.trainer import holders_of
from meshwright.runtime.parallel.sums import is_partial
from meshwright.runtime.pipeline.orders import orders_of
from meshwright.runtime.state.weights import ranges_of, weights_of
from meshwright.verify.setting import held_by, rows_of, sharded, twice_in_a_row
from meshwright.verify.terms import Term, differs, planned
from meshwright.workload.operators import operators
from meshwright.workload.recomputing import repeated
from meshwright.workload.training_messages import training_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.cost.kept import Kept
    from meshwright.job.recipe import Recipe
    from meshwright.model.tensors import Tensor
    from meshwright.verify.setting import Held, Setting

Expected: TypeAlias = dict[tuple[str, str], list[Term]]
"""By (collective, axis); of several axes at once their names joined by `+`, as a tape has them."""
_Listed: TypeAlias = "Callable[[tuple[Tensor, ...], Recipe], tuple[Kept, ...]]"

_SAMPLES: Final = ("dp_replicate", "dp_shard")
_NUMBER_BYTES: Final = 8
_ROWS_OF_LOSS: Final = 3
_FP32_BYTES: Final = FP32.bits // 8


def traffic(setting: Setting, rank: int) -> dict[tuple[str, str], tuple[Term, ...]]:
    """Of the rank at the origin of a pipeline rank's copies and tp group, in one step."""
    found: Expected = defaultdict(list)
    held = held_by(setting, rank)
    if setting.layout.tp > 1:
        _in_layers(setting, held, found)
        _of_loss(setting, held, found)
    if setting.layout.pp > 1:
        _between_stages(setting, rank, found)
    if setting.layout.dp_replicate * setting.layout.dp_shard > 1:
        _of_modules(setting, rank, held, found)
    _sums(setting, rank, found)
    _numbers(setting, found)
    kept = {key: tuple(term for term in terms if term.value) for key, terms in found.items()}
    return {key: terms for key, terms in kept.items() if terms}


def _in_layers(setting: Setting, held: Held, found: Expected) -> None:
    """The exchanges over tp; under sp each is a reduce_scatter and an all_gather of the same message."""
    model, rows = setting.model, rows_of(setting)
    shares = repeated(model, setting.layout.recompute)
    whole = 0.0 if not held.again.any() else min(shares[name] for name in shares if shares[name] > 0)
    names = ("reduce_scatter", "all_gather") if setting.layout.sp else ("all_reduce",)
    for message in training_messages(model):
        if message.axis != "tp":
            continue
        row = rows.get(str(message.place), message.place)
        assert isinstance(row, int)
        size = float(message_bytes(model, setting.layouts, setting.sequence, message)[0])
        passes = int(held.passes[row])
        again = passes * whole if row not in rows.values() else 0.0
        for name in names:
            terms = found[name, "tp"]
            times = passes * (message.forward + message.backward) + again * message.forward
            terms.append(planned(size * times))
            uneven = size * message.forward * (int(held.again[row]) - again)
            terms.append(differs("layers of a stage", uneven, "`every_N` treats whole layers of each stage"))
            if message.after == "feed_forward" and name != "all_gather":
                early = size * int(held.last_again[row])
                terms.append(differs("early stop", -early, "torch's checkpoint stops before a block's last sum"))


def _of_loss(setting: Setting, held: Held, found: Expected) -> None:
    """The largest logit, the sum of exponentials and the label's logit of every row, in float32."""
    rows = setting.layout.micro_batch * setting.sequence
    size = rows * _ROWS_OF_LOSS * _FP32_BYTES * int(held.passes[-1])
    reason = "a vocabulary-parallel loss agrees on three numbers a row"
    found["all_reduce", "tp"].append(differs("loss", size, reason))


def _between_stages(setting: Setting, rank: int, found: Expected) -> None:
    turns = orders_of(setting.slots, rank).turns
    sent = sum(turn.sends is not None for turn in turns)
    size = float(boundary_bytes(setting.model, setting.layouts, setting.sequence)[0])
    found["send_recv", "pp"].append(planned(size * sent))


def _of_modules(setting: Setting, rank: int, held: Held, found: Expected) -> None:
    """Gathers of modules, reductions of their gradients, and sums of these over the other copies."""
    layout, zero = setting.layout, setting.layout.zero
    read, kept, summed = (_sizes(setting, listed) for listed in (gathered, updated, gradient_buffers))
    each = held.passes if zero >= ZERO_OF_STATE["gradients"] else held.modules
    padded = _padded(setting, gradient_buffers)
    if zero == 0:
        _copies_alone(setting, int(summed @ held.modules), found)
        return
    if layout.dp_shard > 1:
        gathers, reduces = found["all_gather", "dp_shard"], found["reduce_scatter", "dp_shard"]
        if zero == ZERO_OF_STATE["parameters"]:
            times = held.passes * 2
            gathers.append(planned(int(read @ times)))
        else:
            times = held.modules
            gathers.append(planned(int(kept @ times)))
            reason = "FSDP2 gathers a cast copy before the first forward; the plan refreshes what was updated"
            gathers.append(differs("cast before", int((read - kept) @ times), reason))
        reason = "FSDP2 fills dim 0 of every tensor up to equal chunks"
        gathers.append(differs("padding", int(_padded(setting, gathered) @ times), reason))
        reduces += [planned(int(summed @ each)), differs("padding", int(padded @ each), reason)]
        reason = "gradients that are not put off go with the first of two reductions in a row"
        missing = int(_kept_early(setting) @ twice_in_a_row(setting, rank))
        reduces.append(differs("with the one before", -missing, reason))
    if layout.dp_replicate > 1:
        pieces = (summed + padded) / layout.dp_shard
        spread = found["all_reduce", "dp_replicate"]
        spread.append(planned(float(summed @ held.modules) / layout.dp_shard))
        spread.append(differs("padding", float(padded @ held.modules) / layout.dp_shard, "as in reduce_scatter"))
        reason = "FSDP2 sums over the other copies behind every reduction, the plan once a step"
        spread.append(differs("every reduction", float(pieces @ (each - held.modules)), reason))


def _kept_early(setting: Setting) -> Any:
    """Of a module of each row, gradients that a split backward does not put off: those of what no product reads."""
    model = setting.model
    read = {tensor for operator in operators(model) for tensor in operator.weights}
    cut = table([sharded(setting.layout)])

    def bytes_of(tensors: tuple[Tensor, ...]) -> int:
        items = gradient_buffers(tuple(item for item in tensors if item not in read), setting.recipe)
        whole = sum(int(np.max(item.piece_bytes(fullest_sizes(item.tensor, cut, "gathered")))) for item in items)
        return whole + sum(_beyond(item, cut) for item in items)

    modules = [block_weights(model, kind) for kind in range(len(model.kinds))]
    return np.array([bytes_of(module) for module in (*modules, first_weights(model), last_weights(model))])


def _copies_alone(setting: Setting, size: int, found: Expected) -> None:
    """Without zero: the plan reduces over dp_shard and sums shards over dp_replicate, a run does both at once."""
    layout = setting.layout
    axes = [axis for axis in _SAMPLES if getattr(layout, axis) > 1]
    found["all_reduce", axes[-1]].append(planned(size))
    if len(axes) > 1:
        reason = "a run without zero sums over all copies at once, the plan axis by axis"
        spread = size / layout.dp_shard
        found["all_reduce", axes[-1]].append(differs("both axes", -size, reason))
        found["all_reduce", axes[0]] += [planned(spread), differs("both axes", -spread, reason)]
        found["all_reduce", "+".join(axes)].append(differs("both axes", size, reason))


def _sizes(setting: Setting, listed: _Listed) -> Any:
    """Of a module of each row, whole."""
    plain, routed = module_bytes(setting.model, setting.layouts, setting.recipe, listed)
    return (plain + routed)[0]


def _padded(setting: Setting, listed: _Listed) -> Any:
    """Of a module of each row, what equal chunks have beyond it."""
    model, cut = setting.model, table([sharded(setting.layout)])
    modules = [block_weights(model, kind) for kind in range(len(model.kinds))]
    modules += [first_weights(model), last_weights(model)]
    return np.array([sum(_beyond(item, cut) for item in listed(module, setting.recipe)) for module in modules])


def _beyond(item: Kept, cut: Any) -> int:
    first, *rest = fullest_sizes(item.tensor, cut, "optimizer_state")
    ways = state_ways(item.tensor, cut, "optimizer_state")
    whole = product(fullest_sizes(item.tensor, cut, "gathered"))
    filled: Any = item.piece_bytes((first * ways, *rest))
    return int(np.max(filled - item.piece_bytes((1, whole))))


def _sums(setting: Setting, rank: int, found: Expected) -> None:
    """Gradients of which several ranks of a tp group, or several stages, have parts."""
    model, layout = setting.model, setting.layout
    origin = rank_of(layout, {**dict.fromkeys(PIPELINE_OUTSIDE, 0), "pp": rank}, PIPELINE_OUTSIDE)
    owned, named = ranges_of(model, layout, origin, "optimizer_state"), weights_of(model)
    over_tp = over_stages = 0
    for name, ranks in holders_of(model, setting.slots).items():
        mine = ranks.count(rank)
        size = product([len(part) for part in owned[name]]) * _FP32_BYTES
        copies = placement(named[name].tensor, layout, "gathered").replicated_on.get("tp", 1)
        if copies > 1 and is_partial(name, layout):
            over_tp += mine * int(size)
        if mine and len(set(ranks)) > 1:
            over_stages += int(size)
    reason = "a weight that tp ranks repeat has a part of its gradient on each"
    found["all_reduce", "tp"].append(differs("repeated weights", over_tp, reason))
    reason = "stages that hold one weight add their gradients up"
    found["all_reduce", "pp"].append(differs("shared weights", over_stages, reason))


def _numbers(setting: Setting, found: Expected) -> None:
    """Labels of a step are counted over copies; losses and squares of gradients are added over all ranks."""
    reason = "the count of labels, the loss and the norm of a step are one number each"
    layout = setting.layout
    active = [axis for axis in PIPELINE_OUTSIDE if getattr(layout, axis) > 1]
    for axes, times in (("dp_replicate", 1), ("dp_shard", 1), ("+".join(active), 2)):
        if set(axes.split("+")) <= set(active):
            found["all_reduce", axes].append(differs("numbers of a step", _NUMBER_BYTES * times, reason))
