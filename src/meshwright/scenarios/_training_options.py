"""What a training plan is told beside its four nouns: every assumption is a field here, and stands in `inputs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds, Share
from meshwright.cost.memory_even import Shards
from meshwright.cost.training import Prefetch, TrainingAssumptions
from meshwright.cost.training_exchange import Nic
from meshwright.cost.training_work import EfficiencyKind

TrainObjective: TypeAlias = Literal["date", "cost", "gpu_hours"]
NO_TIME: Final = Seconds(0.0)
NO_SHARE: Final = Share(0.0)
_MOST_KEPT: Final = 10_000
WORKSPACE: Final = Bytes(2 * 2**30)
RESTART: Final = Seconds(120.0)
INTERVAL: Final = Seconds(1800.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """Assumptions; what is None or zero adds nothing.

    efficiency, efficiency_kind, prefetch, nic: of the estimator.   input_wait: of every step; or prep_workers, each
    preparing prep_rate sequences a second, beside the step.   activation_budget: in place of the computed activations,
    gathers and workspace.   usable_memory: of a device, in place of its capacity.   workspace: kept free (assumed).
    card_mtbf, job_mtbf: mean time between failures of one device, or of all of them; without either none fails.
    checkpoint_interval: useful time between saves; storage_write: how quickly one is written, training standing;
    restart: from a failure to the first step.   straggler_sigma: spread of a device's compute time over steps.
    spike_interval: between loss spikes, each of which goes back to the last save.   kernel: of attention.   loss:
    whether logits are stored.   shards: how zero cuts: `even` a flat buffer (DeepSpeed, Megatron), `strict` dim 0 of
    every tensor in chunks rounded up (FSDP2).   price: of a device for an hour.   objective: what
    ranks.   flips: whether the values at which another layout is best are searched for.   keep: candidates shown.
    layout: fixed fields, the rest is searched.
    """

    objective: TrainObjective = "date"
    efficiency: Share | None = None
    efficiency_kind: EfficiencyKind = "model_flops"
    prefetch: Prefetch = "on"
    nic: Nic = "own"
    input_wait: Seconds | None = None
    prep_workers: int | None = None
    prep_rate: float | None = None
    activation_budget: Bytes | None = None
    usable_memory: Bytes | None = None
    workspace: Bytes = WORKSPACE
    kernel: Literal["flash", "materialised"] = "flash"
    loss: Literal["materialised", "fused"] = "materialised"
    shards: Shards = "even"
    card_mtbf: Seconds | None = None
    job_mtbf: Seconds | None = None
    checkpoint_interval: Seconds = INTERVAL
    storage_write: BytesPerSecond | None = None
    restart: Seconds = RESTART
    straggler_sigma: Share = NO_SHARE
    spike_interval: Seconds | None = None
    price: float | None = None
    flips: Literal["search", "none"] = "search"
    basis: Literal["datasheet"] = "datasheet"
    keep: int = 20
    layout: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def assumptions(self) -> TrainingAssumptions:
        """The estimator's part."""
        return TrainingAssumptions(
            efficiency=self.efficiency,
            efficiency_kind=self.efficiency_kind,
            prefetch=self.prefetch,
            nic=self.nic,
        )


def checked_options(options: TrainOptions) -> TrainOptions:
    """The options themselves. Raises JOB021 for two that say the same, or one without its other half."""
    pairs = (
        (options.card_mtbf is not None and options.job_mtbf is not None, "--card-mtbf and --job-mtbf", "give one"),
        (
            options.input_wait is not None and options.prep_workers is not None,
            "--input-wait and --prep-workers",
            "give one",
        ),
        (
            (options.prep_workers is None) != (options.prep_rate is None),
            "--prep-workers and --prep-rate, one without the other",
            "give both, as in --prep-workers 4 --prep-rate 2",
        ),
        (options.efficiency is not None and options.efficiency <= 0, "--efficiency 0%", "give a share above zero"),
        (options.checkpoint_interval <= 0, "--checkpoint-interval 0s", "give a time above zero"),
        (not 1 <= options.keep <= _MOST_KEPT, f"--keep {options.keep}", "give 1 to 10000"),
    )
    for wrong, cause, fix in pairs:
        if wrong:
            raise JobError(21, cause, fix)
    return options
