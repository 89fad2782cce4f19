"""What a real training run is asked: the job, its options and how a layout is completed for it. No torch in here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from meshwright.base.errors import RunError
from meshwright.base.result import Defaulted
from meshwright.base.units import FlopsPerSecond, Seconds, Tokens
from meshwright.layout.layout import Layout, checked_layout

Devices: TypeAlias = Literal["cpu", "cuda"]

_ORIGIN: Final = "default of run train"
_PARAMETERS, _GRADIENTS = 3, 2
_MOST_STEPS: Final = 10**7
_MOST_SAMPLES: Final = 2**20
_MOST_POSITIONS: Final = 2**24
_MOST_SECONDS: Final = 86_400.0
_DEFAULT_TIMEOUT: Final = Seconds(60.0)
_DEFAULT_SEQUENCE: Final = Tokens(64)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """steps: of the optimizer.   global_batch: samples of a step over all ranks.   sequence: positions of one.

    recipe: formats and optimizer, by name.   lr: of AdamW.   clip: largest norm of the whole gradient.   seed: of
    weights and samples.   ragged: samples have lengths from 2 to `sequence`.
    """

    steps: int = 10
    global_batch: int = 16
    sequence: Tokens = _DEFAULT_SEQUENCE
    recipe: str = "fp32-adamw"
    lr: float = 8e-4
    clip: float = 1.0
    seed: int = 0
    ragged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """devices: what ranks compute on.   nproc: processes, None for as many as the layout has ranks.

    timeout: the longest a rank may stand in one place.   peak_flops: of one device, None for what the catalog says.
    weights, save: folders of Hugging Face safetensors, to begin with and to write; None for weights from the seed, and
    for none.
    """

    devices: Devices = "cpu"
    nproc: int | None = None
    timeout: Seconds = _DEFAULT_TIMEOUT
    peak_flops: FlopsPerSecond | None = None
    weights: str | None = None
    save: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Of this process, as its environment has it. host, port: of the store that all know.

    serves: whether the launcher keeps that store; else rank 0 does.   attempt: how often the launcher has started anew.
    """

    rank: int
    local_rank: int
    ranks: int
    host: str
    port: int
    serves: bool
    attempt: int


_LAUNCHED: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def launcher_of(environment: Mapping[str, str]) -> Launcher | None:
    """What torchrun, or a launcher like it, says of this process; None where none started it.

    Raises RUN003 where it says no whole number, or a rank beyond the last.
    """
    if not all(name in environment for name in _LAUNCHED):
        return None
    rank, ranks = (_number(environment, name, "") for name in ("RANK", "WORLD_SIZE"))
    if rank >= ranks:
        cause = f"RANK is {rank}, and WORLD_SIZE is {ranks}"
        raise RunError(3, cause, "start it with torchrun, or without these variables")
    return Launcher(
        rank=rank,
        local_rank=_number(environment, "LOCAL_RANK", str(rank)),
        ranks=ranks,
        host=environment["MASTER_ADDR"],
        port=_number(environment, "MASTER_PORT", ""),
        serves=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=_number(environment, "TORCHELASTIC_RESTART_COUNT", "0"),
    )


def _number(environment: Mapping[str, str], name: str, usual: str) -> int:
    text = environment.get(name, usual)
    if not text.isdecimal():
        raise RunError(3, f"{name} is {text!r}", "start it with torchrun, or without that variable")
    return int(text)


def checked_job(job: RunJob) -> RunJob:
    """The job itself. Raises RUN012 for a number out of range."""
    whole = {"steps": _MOST_STEPS, "global_batch": _MOST_SAMPLES, "sequence": _MOST_POSITIONS}
    for name, most in whole.items():
        check_number(name, getattr(job, name), 2 if name == "sequence" else 1, most)
    check_number("lr", job.lr, 0.0, 1e30)
    check_number("clip", job.clip, 1e-30, 1e30)
    check_number("seed", job.seed, 0, 2**31 - 1)
    return job


def checked_options(options: RunOptions) -> RunOptions:
    """The options themselves. Raises RUN012 for a number out of range."""
    if options.nproc is not None:
        check_number("nproc", options.nproc, 1, 10**6)
    check_number("timeout", options.timeout, 0.1, _MOST_SECONDS)
    if options.peak_flops is not None:
        check_number("peak_flops", options.peak_flops, 1.0, 1e30)
    return options


def completed(fixed: Mapping[str, Any], schedule: str | None) -> tuple[Layout, tuple[Defaulted, ...]]:
    """The layout with what a run takes where nothing is said, and what that was. schedule: of `--schedule`.

    State is sharded wherever dp_shard stands: all of it, and without the parameters under pp, where they would be
    gathered for every micro-batch (torchtitan 0.3.0, `reshard_after_forward="default"`). Ranks along the data axes see
    other samples. Raises RUN012 where a schedule is stated twice, LAY001 for a degree out of range.
    """
    stated = fixed.get("schedule")
    if schedule is not None and stated is not None and _plain(stated) != _plain(schedule):
        cause = f"--schedule {schedule}, and --layout says schedule={stated}"
        raise RunError(12, cause, "say it once")
    pp, shards = fixed.get("pp", 1), fixed.get("dp_shard", 1)
    name = _plain(stated or schedule or "one_f_one_b")
    chosen = {"schedule": name, "attention": "data_parallel", "zero": _zero(pp, shards)}
    chosen["virtual_stages"] = 2 if name == "interleaved" else 1
    given = {**fixed, **({} if schedule is None and stated is None else {"schedule": name})}
    layout = checked_layout(replace(Layout(), **{**chosen, **given}))
    told = [key for key in chosen if key not in given and getattr(layout, key) != getattr(Layout(), key)]
    return layout, tuple(
        Defaulted(field=f"layout.{key}", value=getattr(layout, key), origin=_ORIGIN) for key in sorted(told)
    )


def _zero(pp: int, shards: int) -> int:
    if shards == 1:
        return 0
    return _PARAMETERS if pp == 1 else _GRADIENTS


def _plain(name: str) -> str:
    return name.strip().replace("-", "_")


def check_alone(flag: str, others: Mapping[str, object], reason: str) -> None:
    """Raises RUN012 where a flag is given beside one that it has no use for. others: by flag, what was given."""
    beside = next((name for name, value in others.items() if value), None)
    if beside is not None:
        raise RunError(12, f"{flag} with {beside}: {reason}", "leave one of them out")


def check_number(name: str, value: float, least: float, most: float) -> None:
    """Raises RUN012 for a number of a flag that is out of range."""
    if not least <= value <= most:  # not a number is neither
        flag = f"--{name.replace('_', '-')}"
        raise RunError(12, f"{flag} is {value:g}", f"give {flag} from {least:g} to {most:g}")
