"""What is asked of a machine goes in; the list of single measurements, the same on every rank, comes out.

Every process measures at once, as they do in a run; of each round the slowest process counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from meshwright.base.errors import RunError
from meshwright.base.units import Seconds
from meshwright.cost.roofline import matmul_flops
from meshwright.workload.attention import score_flops
from meshwright.workload.batches import prefill

Devices: TypeAlias = Literal["cpu", "cuda"]
Depth: TypeAlias = Literal["full", "quick"]
COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
PLAIN: Final = "plain"
KINDS: Final = (PLAIN, "zero=0", "zero=1", "zero=2", "zero=3")
"""How a probe's parameters are kept: by the module itself, or behind FSDP2 under each zero stage."""
MIB: Final = 2**20
FP32_BYTES: Final = 4
_MOST_CALLS: Final = 100
_WORTH: Final = 10_000_000
_SIZES: Final[Mapping[Depth, tuple[int, ...]]] = {
    "full": (1024, 8192, 65536, 2**19, 4 * MIB, 16 * MIB, 64 * MIB),
    "quick": (1024, 65536, MIB),
}
_SMALL_BYTES: Final = 65536
_PAIRED: Final[Mapping[Depth, tuple[int, ...]]] = {"full": (4 * MIB, 64 * MIB), "quick": (4 * MIB,)}
_COPIED: Final[Mapping[Depth, tuple[int, ...]]] = {"full": (MIB, 16 * MIB, 64 * MIB), "quick": (MIB, 8 * MIB)}
_UPDATED: Final = (65536, 262144, 1048576)
_REPEATS: Final[Mapping[Depth, int]] = {"full": 5, "quick": 3}
_TINY: Final = ((64, 64, 64), (64, 64, 192), (256, 64, 512))
_PRODUCTS: Final[Mapping[Devices, Mapping[Depth, tuple[tuple[int, int, int], ...]]]] = {
    "cpu": {
        "full": (*_TINY, (256, 256, 256), (512, 512, 512)),
        "quick": (*_TINY, (256, 256, 256)),
    },
    "cuda": {
        "full": (*_TINY, (1024, 1024, 1024), (4096, 4096, 4096), (8192, 8192, 8192)),
        "quick": (*_TINY, (1024, 1024, 1024), (4096, 4096, 4096)),
    },
}
_ATTENTION: Final = ((1, 8, 64, 16), (1, 8, 128, 64), (1, 8, 512, 64))
PROBED: Final[Mapping[Depth, tuple[int, ...]]] = {"full": (1, 4), "quick": (1, 3)}
"""Layers, and as many micro-batches, of probes."""
PROBE_SEQUENCE: Final = 8
MOST_PROCESSES: Final = 64
TIMEOUT: Final = Seconds(1800.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """nproc: processes, each with a device of its own on cuda.   groups: ranks that exchange; empty for 2 and nproc.

    depth: `full`, sizes from 1 KiB to 64 MiB, medians of five; `quick`, three sizes to 1 MiB, medians of three.
    seed: of the order of the measurements.   timeout: after which a process that is not done is ended, with the rest.
    """

    nproc: int = 4
    devices: Devices = "cpu"
    groups: tuple[int, ...] = ()
    depth: Depth = "full"
    seed: int = 0
    timeout: Seconds = TIMEOUT

    @property
    def repeats(self) -> int:
        """Rounds of every measurement."""
        return _REPEATS[self.depth]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Group sizes, ascending."""
        return tuple(sorted(set(self.groups or (2, self.nproc))))


def checked_local(options: LocalOptions) -> LocalOptions:
    """The options themselves. Raises RUN031 for a number of processes, or groups of them, that cannot be."""
    if not 2 <= options.nproc <= MOST_PROCESSES:  # noqa: PLR2004 - an exchange has two ends
        cause = f"--nproc {options.nproc}: exchanges need two processes, and at most {MOST_PROCESSES} are started"
        raise RunError(31, cause, f"give --nproc from 2 to {MOST_PROCESSES}")
    for size in options.sizes:
        if size < 2 or options.nproc % size:  # noqa: PLR2004 - as above
            cause = f"groups of {size}: {options.nproc} processes are not a number of such groups"
            raise RunError(31, cause, f"give --groups that divide {options.nproc}, or another --nproc")
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One measurement. operation: what runs.   format: of its numbers, or how a probe keeps parameters.

    ranks: of the group, for exchanges.   amount: bytes of the message, FLOPs, bytes moved, or elements updated.
    shape: of the operands.   calls: in a row, of which the mean is taken.
    """

    operation: str
    format: str = "fp32"
    ranks: int = 1
    amount: int = 0
    shape: tuple[int, ...] = ()
    calls: int = 1

    @property
    def id(self) -> str:
        """`all_reduce fp32 x4`: that of its line."""
        return f"{self.operation} {self.format}" + (f" x{self.ranks}" if self.ranks > 1 else "")


def check_whole(options: LocalOptions) -> None:
    """Nothing, where the group of all processes is measured: its link is that of a system. Raises RUN031."""
    if options.nproc not in options.sizes:
        cause = f"the link of a system is that of all {options.nproc} processes"
        raise RunError(31, cause, f"--groups {','.join(map(str, (*options.sizes, options.nproc)))}")


def cases_of(options: LocalOptions) -> tuple[Case, ...]:
    """All of them, in the order of the answer."""
    return (
        *_exchanges(options),
        *_products(options),
        *_memory(options),
        *_pairs(options),
        *_probes(options),
    )


def _exchanges(options: LocalOptions) -> list[Case]:
    return [
        Case(operation=name, ranks=ranks, amount=_shared(size, ranks), calls=5 if size <= _SMALL_BYTES else 1)
        for ranks in options.sizes
        for name in COLLECTIVES
        for size in _SIZES[options.depth]
    ]


def _shared(size: int, ranks: int) -> int:
    """Bytes near `size` of which every rank has an equal share of numbers."""
    return max(1, size // (ranks * FP32_BYTES)) * ranks * FP32_BYTES


def _products(options: LocalOptions) -> list[Case]:
    found: list[Case] = []
    for name in ("fp32", "bf16", "fp64"):
        for shape in _PRODUCTS[options.devices][options.depth]:
            rows, inner, columns = shape
            flops = int(matmul_flops(inner * columns, rows))
            found.append(Case(operation="matmul", format=name, amount=flops, shape=shape, calls=_calls(flops)))
    for name in ("fp32",) if options.devices == "cpu" else ("fp32", "bf16"):
        for shape in _ATTENTION:
            batch, heads, positions, width = shape
            flops = int(score_flops(heads * width, heads * width, batch * prefill(positions).pairs(None)))
            found.append(Case(operation="attention", format=name, amount=flops, shape=shape, calls=_calls(flops)))
    return found


def _calls(flops: int) -> int:
    return max(1, min(_MOST_CALLS, _WORTH // flops))


def _memory(options: LocalOptions) -> list[Case]:
    copies = [Case(operation="copy", amount=2 * size, shape=(size // FP32_BYTES,)) for size in _COPIED[options.depth]]
    return [*copies, *(Case(operation="update", amount=size, shape=(size,)) for size in _UPDATED)]


def _pairs(options: LocalOptions) -> list[Case]:
    modes = ("communication", "computation", "together")
    return [
        Case(operation=f"overlap {mode}", ranks=options.nproc, amount=size)
        for size in _PAIRED[options.depth]
        for mode in modes
    ]


def _probes(options: LocalOptions) -> list[Case]:
    return [
        Case(operation="step", format=kind, shape=(layers, micro_batches))
        for kind in KINDS
        for layers in PROBED[options.depth]
        for micro_batches in PROBED[options.depth]
    ]
