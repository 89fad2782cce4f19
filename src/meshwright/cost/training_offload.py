"""Layouts that keep state or activations on the host go in; what a device keeps still, and what a step waits, come out.

A part that is offloaded leaves its device but for what is in use: the module that computes and the one that comes or
goes. It moves over the device's own link to the host, behind the computation, and what does not hide there is waited
for. Each host is shared evenly by its devices.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.numbers import floor, maximum, minimum, where, whole
from meshwright.base.traced import named
from meshwright.cost.offload import (
    activation_offload,
    cast_on_device_s,
    cast_on_host_s,
    optimizer_offload,
    parameter_offload,
    touched_bytes,
    transfer_wait_s,
)
from meshwright.cost.roofline import read_s
from meshwright.cost.training_memory import of_layers
from meshwright.cost.training_state import state_columns
from meshwright.model.formats import FP32, PLAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.cost.memory_even import Shards
    from meshwright.cost.pipelines import Pipelines
    from meshwright.cost.training import TrainingStep
    from meshwright.cost.training_activations import ActivationColumns
    from meshwright.cost.training_state import StateColumns
    from meshwright.job.recipe import Recipe
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model

NONE: Final = "none"
OFFLOADS: Final = (
    NONE, "activations", "optimizer", "optimizer+activations", "parameters", "optimizer+parameters",
)  # fmt: skip
"""Parts that leave the device, joined by `+`, the least first."""
NOT_MODELLED: Final = (
    "NVMe behind the host, copies into pinned buffers, and other users of host memory (loaders, page cache)",
    "gradient clipping by a global norm before an offloaded update, which begins with the first gradients here",
    "that the next forward hides the way back of what an offloaded optimizer updated last",
    "traffic of NICs on the links between devices and host, where devices of a box exchange on links of their own",
)
_AHEAD: Final = 2
"""Pieces that are on the device at once: the one in use, and the one that comes or goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPath:
    """Rates of one device, bytes a second. link: to the host, one way.   host: its share of the host's memory rate.

    device: of its own memory.   shared: devices of a box exchange over the same links.
    """

    link_bytes_per_s: Any
    host_bytes_per_s: Any
    device_bytes_per_s: Any
    shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientCast:
    """Of gradients on their way to an optimizer on the host. narrow, wide: bytes of an element, as kept and as read.

    on_device: the device casts and sends wide, which takes no longer than to send narrow and cast on the host.
    """

    narrow: float
    wide: float
    on_device: bool

    def sent(self, narrow_bytes: Any) -> Any:
        """Bytes over the link of so many bytes as kept."""
        return self.wide_of(narrow_bytes) if self.on_device else narrow_bytes

    def wide_of(self, narrow_bytes: Any) -> Any:
        """Bytes in the format that the optimizer reads."""
        return narrow_bytes * (self.wide / self.narrow)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moved:
    """Columns [rows, entries] of `Pipelines`, bytes of one device of each; zero where a row offloads no such part.

    parameters, optimizer_state, activations: that leave the device, less what stays or comes instead.   host: what is
    kept there.   gradients, returned, update_touched: what an optimizer on the host takes, gives back, and moves in its
    memory.   sent_parameters: once a step.   fetched: of a pass.   saved: of a pass.   kept: of all passes.
    pieces: layers, which move one by one.   layouts, ranks: of the rows.
    """

    layouts: Layouts
    ranks: Ints
    pieces: Ints
    parameters: Any
    optimizer_state: Any
    activations: Any
    host: Any
    sent_gradients: Any
    returned: Any
    update_touched: Any
    state: Any
    sent_parameters: Any
    fetched: Any
    saved: Any
    kept: Any

    def take(self, rows: Ints) -> Moved:
        """The chosen rows."""
        columns = {item.name: getattr(self, item.name) for item in fields(self)}
        layouts = columns.pop("layouts").take(rows)
        return Moved(layouts=layouts, **{name: column[rows] for name, column in columns.items()})

    @property
    def host_bytes(self) -> Any:
        """[rows], of the device that keeps most there."""
        return named(self.host.max(axis=1), "host_bytes")

    def left(self, entries: Mapping[str, Any], activations: Any) -> tuple[dict[str, Any], Any]:
        """State by name and activations, [rows, entries], without what has left."""
        gone = {"parameters": self.parameters, "optimizer_state": self.optimizer_state}
        kept = {name: column - gone[name] if name in gone else column for name, column in entries.items()}
        return kept, activations - self.activations


def has_part(layouts: Layouts, part: str) -> Bools:
    """[rows]: whether a row offloads a part."""
    found = layouts.values_of("offload")
    return np.array([part in name.split("+") for name in found.values], dtype=np.bool_)[found.numbers]


def gradient_cast(recipe: Recipe, path: HostPath) -> GradientCast:
    """Where gradients are cast for the host's optimizer: on the end that makes them readable there sooner.

    Both ways take a time in proportion to the bytes, so the choice is one for all of a plan. Gradients as wide as the
    master, and updates without a master, need no cast. Source: chapter "Training systems", section 10.2.3.
    """
    narrow = PLAIN[recipe.gradients].bits / 8
    wide = FP32.bits / 8 if recipe.master != "none" else narrow
    sizes = (narrow, wide)
    host = cast_on_host_s(*sizes, path.link_bytes_per_s, path.host_bytes_per_s)
    device = cast_on_device_s(*sizes, path.link_bytes_per_s, path.device_bytes_per_s)
    return GradientCast(narrow=narrow, wide=wide, on_device=bool(wide > narrow and device < host))


def moved_columns(  # noqa: PLR0917 - the nouns, and the columns of what is kept
    model: Model,
    layouts: Layouts,
    recipe: Recipe,
    lines: Pipelines,
    state: StateColumns,
    kept: ActivationColumns,
    cast: GradientCast | None,
    shards: Shards,
) -> Moved | None:
    """What leaves the devices of every row; None where no row offloads anything, or nothing is known of the hosts.

    Optimizer state goes for good, and gradients stay, to be sent from where they were added up. Of parameters the
    largest modules stay that are in use and on their way. Of activations two layers of one micro-batch stay, and the
    loss's. Source: chapter "Training systems", section 10.2.3; Ren et al., "ZeRO-Offload" (arXiv 2101.06840).
    """
    if cast is None or has_part(layouts, NONE).all():
        return None
    optimizer, parameters, activations = (has_part(layouts, part)[:, None] for part in _PARTS)
    none = np.zeros(1, dtype=np.int64)
    held = {name: of_layers(lines, getattr(state, name)) for name in ("parameters", "optimizer_state")}
    owned = state_columns(model, _owned(layouts), recipe, shards=shards)
    changed = of_layers(lines, state.written)
    gradients = where(optimizer, of_layers(lines, owned.gradients), none)
    own_parameters = where(optimizer, changed, none)
    wide: Any = cast.wide_of(gradients)
    buffer = where(optimizer, _largest(lines, owned.gradients), none) * (cast.wide / cast.narrow)
    state_bytes = where(optimizer, held["optimizer_state"], none)
    in_use = minimum(held["parameters"], _largest(lines, state.parameters) * _AHEAD)
    flight, layer = _flight(lines, kept)
    saved = where(activations, flight, none)
    stays = minimum(saved * lines.sets, layer * _AHEAD)
    fetched = where(parameters, held["parameters"], none)
    host_gradients = cast.sent(gradients) + (0 if cast.on_device or cast.wide == cast.narrow else wide)
    both = where(optimizer & parameters, none, own_parameters)
    return Moved(
        layouts=layouts,
        ranks=lines.ranks,
        pieces=maximum(lines.layers[:, :, :-2].sum(axis=2), 1),
        parameters=where(parameters, held["parameters"] - in_use, none),
        optimizer_state=state_bytes - (_up(buffer) if cast.on_device else none),
        activations=where(activations, whole(floor(saved * lines.sets - stays)), none),
        host=_up(state_bytes + host_gradients + both + fetched + saved * lines.sets),
        sent_gradients=cast.sent(gradients),
        returned=both,
        update_touched=own_parameters + (wide if cast.on_device else _cast_on_host(cast, gradients, wide)),
        state=state_bytes,
        sent_parameters=where(parameters & ~optimizer, changed, none),
        fetched=fetched,
        saved=saved,
        kept=saved * lines.sets,
    )


_PARTS: Final = ("optimizer", "parameters", "activations")


def _cast_on_host(cast: GradientCast, narrow: Any, wide: Any) -> Any:
    """Traffic of the host's memory until the update has read the gradients."""
    return narrow if cast.wide == cast.narrow else touched_bytes(narrow, wide) + wide


def _up(value: Any) -> Any:
    return whole(-floor(-value))


def _owned(layouts: Layouts) -> Layouts:
    """As if all state were cut: what a device updates under any zero stage that cuts optimizer state."""
    zero: Any = where(layouts.degree("zero") > 0, np.full(1, 3), np.zeros(1, dtype=np.int64))
    return layouts.changed({"zero": zero})


def _largest(lines: Pipelines, columns: Any) -> Any:
    """[rows, entries]: of the largest module that a rank holds."""
    most: Any = np.zeros(lines.layers.shape[:2], dtype=np.int64)
    for kind in range(lines.layers.shape[2]):
        own = where(lines.layers[:, :, kind] > 0, columns[:, kind, None], np.zeros(1, dtype=np.int64))
        most = maximum(most, own)
    return most


def _flight(lines: Pipelines, kept: ActivationColumns) -> tuple[Any, Any]:
    """[rows, entries]: what all layers of a rank keep of one micro-batch, and what the largest of them does."""
    layers: Any = kept.embedding[:, None] * lines.layers[:, :, -2]
    largest: Any = np.zeros(lines.layers.shape[:2], dtype=np.int64)
    for kind in range(kept.saved.shape[1]):
        held = lines.layers[:, :, kind]
        layers = layers + kept.saved[:, kind, None] * held
        largest = maximum(largest, where(held > 0, kept.saved[:, kind, None], np.zeros(1, dtype=np.int64)))
    return layers, largest


def offload_wait_s(moved: Moved, path: HostPath, cast: GradientCast, step: TrainingStep, micro_batches: Ints) -> Floats:
    """[rows]: what a step waits for the host beyond what its update takes anyway; of the device that waits longest.

    Bytes are those of each rank, windows those of the slowest one. Where devices exchange over the same links, the
    channel of weights and gradients takes its time off the windows. An update that leaves the device is not credited:
    what the host does in its stead is charged beyond it. Source: chapter "Training systems", section 10.2.3.
    """
    count: Any = micro_batches[:, None]
    busy = step.channel_s[:, None] / count if path.shared else 0.0
    forward = maximum(step.forward_s[:, None] - busy, 0.0)
    backward = maximum(step.backward_s[:, None] - busy, 0.0)
    link, pieces = path.link_bytes_per_s, moved.pieces
    sent: Any = moved.sent_gradients * 1.0
    cast_s = read_s(touched_bytes(sent * (cast.narrow / cast.wide), sent), path.device_bytes_per_s)
    optimizer = optimizer_offload(
        sent,
        moved.returned,
        moved.state,
        moved.update_touched,
        cast_s if cast.on_device else cast_s * 0.0,
        link,
        path.host_bytes_per_s,
        backward,
        pieces,
    )
    parameters = parameter_offload(moved.fetched, moved.fetched, link, forward, backward, pieces, count)
    activations = activation_offload(moved.saved, moved.kept, link, forward, backward, pieces, count)
    beyond = maximum(optimizer.exposed_wait_s - step.update_s[:, None], 0.0)
    update = where(moved.state + sent > 0, beyond, np.zeros(1))
    down = transfer_wait_s(moved.sent_parameters * 1.0, link, 0.0)
    waits = update + parameters.exposed_wait_s + down + activations.exposed_wait_s
    held = where(moved.ranks > 0, waits, np.zeros(1))
    return named(held.max(axis=1), "offload_wait_s")
