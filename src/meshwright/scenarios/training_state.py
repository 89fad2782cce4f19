"""What does training keep, and where does it fit? A model and a recipe go in; bytes by state, rank and fit come out.

Everything is read off the list of what is kept (`cost/kept`) and the columns of training state under the ownership
table. Activations, and the buffers that exist in a step only, are not state: they are given, or stand beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes
from meshwright.cost.kept import kept, model_kept
from meshwright.cost.memory_even import Shards
from meshwright.cost.training_state import StageState, stage_totals, state_columns
from meshwright.job.recipe import Recipe, checked_recipe
from meshwright.job.serve import check_range
from meshwright.layout.layout import Layout, checked_layout
from meshwright.layout.layouts import table
from meshwright.layout.ownership import ZERO_OF_STATE
from meshwright.model.formats import BF16
from meshwright.model.model import Model, parameter_counts
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshwright.cost.kept import Kept
    from meshwright.layout.ownership import State

_MOST_BYTES: Final = 2**60
_MOST_ROWS: Final = 2**24
_MOST_COUNTS: Final = 64
_MOST_ZERO: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptState:
    """One thing that is kept: parameters, fp8_copy, gradients, master, or what the optimizer calls its state."""

    name: str
    bytes: int
    bytes_per_parameter: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """All that is kept, whole. weight_copies: the total in copies of the weights in bf16.

    parameters: of the model, without adapters.   optimizer_bytes: the master and what the optimizer keeps.
    """

    parameters: int
    rows: tuple[KeptState, ...]
    optimizer_bytes: int
    total_bytes: int
    bytes_per_parameter: float
    weight_copies: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResidency:
    """One ZeRO stage. sharded_bytes_per_parameter: what it shards, whole_bytes_per_parameter: what every rank repeats.

    gathered_bytes, gradient_buffer_bytes: the largest module's parameters brought together (from stage 3 on), and its
    gradients before they are reduced to their owners (from 2 on).   least_peak_bytes: the state and both, which live
    together in that module's backward; activations come on top.
    """

    zero: int
    parameters_bytes: int
    gradients_bytes: int
    optimizer_state_bytes: int
    state_bytes: int
    sharded_bytes_per_parameter: float
    whole_bytes_per_parameter: float
    gathered_bytes: int
    gradient_buffer_bytes: int
    least_peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """Bytes on the fullest rank at each stage. devices: shards times replicas."""

    devices: int
    parameters: int
    stages: tuple[StageResidency, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRow:
    """One number of devices. left_bytes: usable, less the state.   total_bytes: state and extra.

    shortfall_bytes, reserve_bytes: how far the total is above the usable memory, or below it; one of them is 0.
    """

    devices: int
    state_bytes: int
    left_bytes: int
    total_bytes: int
    shortfall_bytes: int
    reserve_bytes: int
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityFit:
    """fewest_devices: of those asked about, that fit; None where none does."""

    rows: tuple[FitRow, ...]
    parameters: int
    fewest_devices: int | None


def model_state(model: Model, recipe: Recipe) -> StateTable:
    """The persistent state of a whole model by what it is: `w + g + master + m1 + m2` bytes a parameter.

    Every expert counts; a tied head counts once. Raises JOB041, JOB042, JOB043 (recipe). Source: chapter "Training
    systems", section 10.1.2. Checkpoints hold less: no gradients.
    """
    return _state_table(model_kept(model, checked_recipe(recipe)), parameter_counts(model)["total"])


def matrix_state(recipe: Recipe, rows: int, columns: int) -> StateTable:
    """The persistent state of one matrix of a block, [rows, columns]: what a parameter of a product costs.

    Raises JOB001 (sizes), JOB041, JOB042 (recipe); adapters belong to a model's matrices: JOB047.
    """
    for name, size in (("rows", rows), ("columns", columns)):
        check_range(name, size, 1, _MOST_ROWS)
    if checked_recipe(recipe).lora_rank:
        raise JobError(47, "one matrix alone is not adapted", "leave lora_rank and lora_targets out, or ask of a model")
    dims = (Dim(role="hidden", size=rows), Dim(role="hidden", size=columns))
    matrix = Tensor(name="matrix.weight", part="feed_forward", dims=dims, quantized=True)
    return _state_table([(item, 1) for item in kept((matrix,), recipe)], matrix.elements)


def zero_residency(
    *, model: Model, recipe: Recipe, shards: int, replicas: int, stages: tuple[int, ...], form: Shards
) -> Residency:
    """State of a rank at ZeRO stages over `shards` ranks, each repeated over `replicas` of them (HSDP).

    form: `strict` or `even`, as in `state_columns`. Raises JOB001 (stages), LAY001 (ranks), JOB041, JOB042, JOB043
    (recipe). Source: Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 5; chapter "Training systems", 10.2.1.
    """
    _check_counts("stages", stages, 0, _MOST_ZERO)
    layouts = [checked_layout(Layout(dp_shard=shards, dp_replicate=replicas, zero=zero)) for zero in stages]
    held = _held(model, recipe, layouts, form)
    whole = _held(model, recipe, [Layout()], form)
    parameters = parameter_counts(model)["total"]
    sizes: dict[State, int] = {state: getattr(whole, state)[0].item() for state in ZERO_OF_STATE}
    rows: list[StageResidency] = []
    for row, zero in enumerate(stages):
        cut = sum(size for state, size in sizes.items() if zero >= ZERO_OF_STATE[state])
        buffers = {
            "gathered_bytes": held.gathered[row].item() if zero >= ZERO_OF_STATE["parameters"] else 0,
            "gradient_buffer_bytes": held.gradient_buffer[row].item() if zero >= ZERO_OF_STATE["gradients"] else 0,
        }
        state = held.total[row].item()
        rows.append(
            StageResidency(
                zero=zero,
                parameters_bytes=held.parameters[row].item(),
                gradients_bytes=held.gradients[row].item(),
                optimizer_state_bytes=held.optimizer_state[row].item(),
                state_bytes=state,
                sharded_bytes_per_parameter=cut / parameters,
                whole_bytes_per_parameter=(sum(sizes.values()) - cut) / parameters,
                **buffers,
                least_peak_bytes=state + sum(buffers.values()),
            )
        )
    return Residency(devices=shards * replicas, parameters=parameters, stages=tuple(rows))


def capacity_fit(
    *,
    model: Model,
    recipe: Recipe,
    devices: tuple[int, ...],
    usable_bytes: Bytes,
    extra_bytes: Bytes,
    zero: int,
    form: Shards,
) -> CapacityFit:
    """Whether the state over so many devices, and `extra_bytes` of everything else, stay within `usable_bytes` of one.

    A test of capacity alone, which comes before any comparison of time: more devices change the groups, recompute adds
    work. Raises JOB001 (counts), LAY001 (devices), JOB041, JOB042, JOB043 (recipe). Source: chapter "Training systems",
    section 10.2.4: `16 N / d + extra <= usable`.
    """
    check_range("zero", zero, 0, _MOST_ZERO)
    for name, size in (("usable_bytes", usable_bytes), ("extra_bytes", extra_bytes)):
        check_range(name, size, 0, _MOST_BYTES)
    _check_counts("devices", devices, 1, _MOST_ROWS)
    layouts = [checked_layout(Layout(dp_shard=count, zero=zero)) for count in devices]
    held = _held(model, recipe, layouts, form)
    rows: list[FitRow] = []
    for row, count in enumerate(devices):
        state = held.total[row].item()
        over = state + extra_bytes - usable_bytes
        rows.append(
            FitRow(
                devices=count,
                state_bytes=state,
                left_bytes=usable_bytes - state,
                total_bytes=state + extra_bytes,
                shortfall_bytes=max(over, 0),
                reserve_bytes=max(-over, 0),
                fits=over <= 0,
            )
        )
    return CapacityFit(
        rows=tuple(rows),
        parameters=parameter_counts(model)["total"],
        fewest_devices=min((row.devices for row in rows if row.fits), default=None),
    )


def _held(model: Model, recipe: Recipe, layouts: list[Layout], form: Shards) -> StageState:
    rows = table(layouts)
    return stage_totals(model, rows, state_columns(model, rows, checked_recipe(recipe), shards=form))


def _state_table(items: Iterable[tuple[Kept, int]], parameters: int) -> StateTable:
    """Whole sizes by name, in the order in which the names first come."""
    sizes: dict[str, int] = {}
    optimizer = 0
    for item, count in items:
        size = count * int(item.piece_bytes(item.tensor.shape))
        sizes[item.name] = sizes.get(item.name, 0) + size
        optimizer += size if item.state == "optimizer_state" else 0
    total = sum(sizes.values())
    rows = tuple(
        KeptState(name=name, bytes=size, bytes_per_parameter=size / parameters) for name, size in sizes.items()
    )
    return StateTable(
        parameters=parameters,
        rows=rows,
        optimizer_bytes=optimizer,
        total_bytes=total,
        bytes_per_parameter=total / parameters,
        weight_copies=total / (parameters * BF16.bits // 8),
    )


def _check_counts(name: str, counts: tuple[int, ...], least: int, most: int) -> None:
    check_range(f"the number of {name}", len(counts), 1, _MOST_COUNTS)
    for count in counts:
        check_range(name, count, least, most)
