"""What a training plan is told beside its four nouns: every assumption is a field here, and stands in `inputs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds, Share
from meshwright.cost.groups import Nic
from meshwright.cost.memory_even import Shards
from meshwright.cost.training import Prefetch, TrainingAssumptions
from meshwright.cost.training_work import EfficiencyKind
from meshwright.job.routing import TokenRouting
from meshwright.layout.layout import checked_fields
from meshwright.workload.context_split import ContextExchange, ContextPlan, ContextSplit
from meshwright.workload.expert_rows import ExpertRows

TrainObjective: TypeAlias = Literal["date", "cost", "gpu_hours"]
NO_TIME: Final = Seconds(0.0)
NO_SHARE: Final = Share(0.0)
_MOST_KEPT: Final = 10_000
_MOST_RUNS: Final = 100_000
_LEAST_FACTOR, _MOST_FACTOR = 1e-3, 1e3
SLOW_SIGMAS: Final = 3.0
WORKSPACE: Final = Bytes(2 * 2**30)
RESTART: Final = Seconds(120.0)
INTERVAL: Final = Seconds(1800.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """Assumptions; what is None or zero adds nothing.

    efficiency, efficiency_kind, prefetch, nic: of the estimator.   cp_split, cp_exchange: which positions each rank of
    cp keeps, and how attention meets the others'.   routing: how tokens choose experts.   capacity_factor: of an
    expert's rows in a micro-batch, over the mean; None drops nothing.   input_wait: of every step; or prep_workers,
    each preparing prep_rate sequences a second, beside the step.   activation_budget: in place of the computed
    activations, gathers and workspace.   usable_memory: of a device, in place of its capacity.   workspace: kept free
    (assumed).
    card_mtbf, job_mtbf: mean time between failures of one device, or of all of them; without either none fails.
    common_mode_mtbf: beside card_mtbf, of each thing that stops all devices.   checkpoint_interval: useful time between
    saves; storage_write: how quickly one is written, training standing, or beside training once checkpoint_copy is
    over; restart: from a failure to the first step.   straggler_sigma: spread of a device's compute time over steps;
    slow_sigmas, slow_steps: of one slow device, how far above the mean, and for how many steps.   runs, seed: of the
    whole run, drawn; 0 runs for none.
    spike_interval: between loss spikes, each of which goes back to the last save.   kernel: of attention.   loss:
    whether logits are stored.   elementwise: whether norms and gated units are one kernel each.   shards: how zero
    cuts: `even` a flat buffer (DeepSpeed, Megatron), `strict` dim 0 of every tensor in chunks rounded up (FSDP2).
    price: of a device for an hour; host_memory, host_bandwidth: of a box; host_link: of a device to it; all in place
    of the system's.   objective: what ranks.   flips: whether the values at which another layout is best are searched
    for.   engine: whose rules the layouts must keep, by registry name.   keep: candidates shown.   finalists: of these,
    the first that are simulated.   layout: fixed fields, the rest, and a schedule of None as one stage has it, is
    searched.
    """

    objective: TrainObjective = "date"
    efficiency: Share | None = None
    efficiency_kind: EfficiencyKind = "model_flops"
    prefetch: Prefetch = "on"
    nic: Nic = "own"
    cp_split: ContextSplit = "zigzag"
    cp_exchange: ContextExchange = "ring"
    routing: TokenRouting = "even"
    capacity_factor: float | None = None
    input_wait: Seconds | None = None
    prep_workers: int | None = None
    prep_rate: float | None = None
    activation_budget: Bytes | None = None
    usable_memory: Bytes | None = None
    workspace: Bytes = WORKSPACE
    kernel: Literal["flash", "materialised"] = "flash"
    loss: Literal["materialised", "fused"] = "materialised"
    elementwise: Literal["eager", "fused"] = "eager"
    shards: Shards = "even"
    card_mtbf: Seconds | None = None
    job_mtbf: Seconds | None = None
    common_mode_mtbf: tuple[Seconds, ...] = ()
    checkpoint_interval: Seconds = INTERVAL
    storage_write: BytesPerSecond | None = None
    checkpoint_copy: Seconds | None = None
    restart: Seconds = RESTART
    straggler_sigma: Share = NO_SHARE
    slow_sigmas: float = SLOW_SIGMAS
    slow_steps: int = 1
    spike_interval: Seconds | None = None
    price: float | None = None
    host_memory: Bytes | None = None
    host_bandwidth: BytesPerSecond | None = None
    host_link: BytesPerSecond | None = None
    runs: int = 1000
    seed: int = 0
    flips: Literal["search", "none"] = "search"
    engine: str | None = None
    basis: Literal["datasheet"] = "datasheet"
    keep: int = 20
    finalists: int = 3
    layout: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def assumptions(self) -> TrainingAssumptions:
        """The estimator's part."""
        return TrainingAssumptions(
            efficiency=self.efficiency,
            efficiency_kind=self.efficiency_kind,
            prefetch=self.prefetch,
            nic=self.nic,
            context=self.context,
            experts=self.experts,
        )

    @property
    def experts(self) -> ExpertRows:
        """How rows fall on experts."""
        return ExpertRows(routing=self.routing, capacity_factor=self.capacity_factor)

    @property
    def context(self) -> ContextPlan:
        """How ranks of cp share a sequence."""
        return ContextPlan(split=self.cp_split, exchange=self.cp_exchange)


def checked_options(options: TrainOptions) -> TrainOptions:
    """The options with checked fields of the layout.

    Raises JOB021 for two that say the same, or one without its other half; LAY001 and IO013 (layout).
    """
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
        (
            options.job_mtbf is not None and bool(options.common_mode_mtbf),
            "--job-mtbf is of all that stops the job, and --common-mode-mtbf of a part of it",
            "leave one out",
        ),
        (
            options.checkpoint_copy is not None and options.storage_write is None,
            "--checkpoint-copy without --storage-write",
            "give both, as in --checkpoint-copy 2s --storage-write 7GB/s",
        ),
        (not 0 <= options.runs <= _MOST_RUNS, f"--runs {options.runs}", f"give 0 to {_MOST_RUNS}"),
        (
            not 0 <= options.slow_sigmas < float("inf") or options.slow_steps < 1,
            f"--slow-sigmas {options.slow_sigmas:g} and --slow-steps {options.slow_steps}",
            "give sigmas from 0 on, and at least one step",
        ),
        (
            options.capacity_factor is not None and not _LEAST_FACTOR <= options.capacity_factor <= _MOST_FACTOR,
            f"--capacity-factor {options.capacity_factor}",
            f"give {_LEAST_FACTOR:g} to {_MOST_FACTOR:g}",
        ),
        (not 1 <= options.keep <= _MOST_KEPT, f"--keep {options.keep}", "give 1 to 10000"),
        (not 0 <= options.finalists <= _MOST_KEPT, f"--finalists {options.finalists}", "give 0 to 10000"),
    )
    for wrong, cause, fix in (*pairs, *_amounts(options)):
        if wrong:
            raise JobError(21, cause, fix)
    fixed = {name: value for name, value in options.layout.items() if value is not None}
    return replace(options, layout=checked_fields(fixed))


_ABOVE_ZERO: Final = (
    "card_mtbf",
    "job_mtbf",
    "storage_write",
    "spike_interval",
    "usable_memory",
    "host_memory",
    "host_bandwidth",
    "host_link",
)
_LEAST, _MOST_AMOUNT, _MOST_BYTES = 1e-9, 1e12, 2**50


def _amounts(options: TrainOptions) -> list[tuple[bool, str, str]]:
    """Whether each amount is one that a run can have, by its flag, with what it may be."""
    given = [(name, getattr(options, name)) for name in _ABOVE_ZERO]
    given += [("common_mode_mtbf", time) for time in options.common_mode_mtbf]
    found = [(name, value, value is not None and value <= 0, "an amount above zero") for name, value in given]
    for name in ("prep_workers", "prep_rate"):
        value = getattr(options, name)
        right = value is None or _LEAST <= value <= _MOST_AMOUNT
        found.append((name, value, not right, f"a number above zero, from {_LEAST:g} to {_MOST_AMOUNT:g}"))
    right = options.price is None or 0 <= options.price <= _MOST_AMOUNT
    found.append(("price", options.price, not right, f"a number from 0 on, to {_MOST_AMOUNT:g}"))
    for name in ("workspace", "activation_budget"):
        value = getattr(options, name)
        found.append((name, value, value is not None and value > _MOST_BYTES, f"at most {_MOST_BYTES}B"))
    return [(wrong, f"--{name.replace('_', '-')} {value}", f"give {rule}") for name, value, wrong, rule in found]
