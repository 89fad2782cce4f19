"""Is the network used? Measured steps without and with it go in; the rate that they imply, and what it means, come out.

A trainer that finds no fabric falls back to sockets without a word: steps grow with the boxes, and nothing is refused.
What a step sends is known, and how long it waits is measured; a small part of the link's rate is a sign of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from meshwright.base.errors import JobError
from meshwright.base.traced import cell
from meshwright.base.units import Seconds, TokenCount, Tokens
from meshwright.job.recipe import Recipe, checked_recipe
from meshwright.job.serve import check_range
from meshwright.job.train import TrainJob, checked_training
from meshwright.layout.layout import Layout, checked_layout
from meshwright.layout.layouts import table
from meshwright.model.model import Model
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios._training_table import training_table
from meshwright.system.system import System

if TYPE_CHECKING:
    from collections.abc import Mapping

Diagnosis: TypeAlias = Literal["as_the_network_allows", "slow_network", "network_not_used"]
HALF: Final = 0.5
"""Of the datasheet rate: large ring collectives reach more than this on a fabric that works."""
UNUSED: Final = 0.1
"""Of the datasheet rate: below what one of eight NICs carries, so no fault of tuning."""
_MOST_MICRO: Final = 2**16
_TOLD: Final[Mapping[Diagnosis, str]] = {
    "as_the_network_allows": "the wait is no longer than the link explains: fewer bytes or more work a step shorten it",
    "slow_network": "part of the link is lost: one NIC of several, no GPUDirect, or a path that others share",
    "network_not_used": "as over sockets: is InfiniBand switched off (NCCL_IB_DISABLE), peer to peer "
    "(NCCL_P2P_DISABLE), or the wrong interface named (NCCL_SOCKET_IFNAME)?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowExchange:
    """What two measured steps say of a network.

    sent_bytes: of weights and gradients by one rank in a step.   expected_s: how long its channel is busy with them at
    the link's datasheet rate.   waited_s: the step less the one without the network.   implied_bytes_per_s: of a rank,
    if the exchange took no longer than that; less where some is hidden behind computation.   rate_share: of the
    datasheet rate; None where nothing was waited for.   speed_up: over one group, with the same work a rank.
    """

    devices: int
    sent_bytes: float
    expected_s: float
    waited_s: float
    implied_bytes_per_s: float | None
    rate_share: float | None
    speed_up: float
    diagnosis: Diagnosis
    advice: str


def slow_exchange(
    *,
    model: Model,
    system: System,
    recipe: Recipe,
    zero: int,
    sequence: Tokens,
    micro_batch: int,
    micro_batches: int,
    alone_devices: int,
    alone_s: Seconds,
    step_s: Seconds,
) -> SlowExchange:
    """Steps of one data-parallel job, with micro_batches of micro_batch sequences a rank in both.

    alone_devices, alone_s: measured where the network in question carries nothing, as in one box.   step_s: measured on
    all devices of the system.   Raises JOB001 (sizes), JOB041, JOB042 (recipe), JOB085 (times), LAY001 (devices).
    Source: chapter "Training systems", section 10.3.3, for the bytes and the channel.
    """
    check_range("micro_batch", micro_batch, 1, _MOST_MICRO)
    check_range("micro_batches", micro_batches, 1, _MOST_MICRO)
    check_range("alone_devices", alone_devices, 1, system.devices)
    if alone_s <= 0 or step_s <= 0:
        raise JobError(85, f"steps of {alone_s} s and {step_s} s", "give times above zero")
    batch = system.devices * micro_batch * micro_batches
    job = TrainJob(
        tokens=TokenCount(batch * sequence), sequence=sequence, global_batch=batch, recipe=checked_recipe(recipe)
    )
    layout = checked_layout(Layout(dp_shard=system.devices, zero=zero, micro_batch=micro_batch))
    step = training_table(model, system, checked_training(job), TrainOptions(), table([layout])).step
    sent, expected, waited = cell(step.sent_bytes, 0), cell(step.channel_s, 0), step_s - alone_s
    share = expected / waited if waited > 0 else None
    diagnosis = _diagnosis(share)
    return SlowExchange(
        devices=system.devices,
        sent_bytes=sent,
        expected_s=expected,
        waited_s=waited,
        implied_bytes_per_s=sent / waited if waited > 0 else None,
        rate_share=share,
        speed_up=system.devices / alone_devices * alone_s / step_s,
        diagnosis=diagnosis,
        advice=_TOLD[diagnosis],
    )


def _diagnosis(share: float | None) -> Diagnosis:
    if share is None or share >= HALF:
        return "as_the_network_allows"
    return "slow_network" if share >= UNUSED else "network_not_used"
