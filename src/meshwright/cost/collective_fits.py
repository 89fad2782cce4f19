"""A fit, ranks and messages go in; the seconds of the exchange, as its family does it, come out.

A family says by which programs an exchange of its kind is done, and in which protocols; of these the fastest counts, as
the library chooses. A fit adds three numbers (launch, latency of a round, bandwidth) and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from meshwright.base.numbers import N, maximum, minimum
from meshwright.base.traced import formula
from meshwright.cost.program_sizes import program_size

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats
    from meshwright.system.collective_fits import CollectiveFit


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How a library moves the bytes of a program. Factors on the launch, the latency of a round, and the bytes sent."""

    name: str
    launch: float
    latency: float
    traffic: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A way to do and to time an exchange.

    programs: of each operation, the algorithms to choose from.   launch: whether a call's launch comes before the
    exchange, or is a floor that a longer exchange hides.
    """

    name: str
    title: str
    programs: Mapping[str, tuple[str, ...]]
    protocols: tuple[Protocol, ...]
    launch: Literal["first", "floor"] = "first"


PLAIN: Final = (Protocol(name="plain", launch=1.0, latency=1.0, traffic=1.0),)
NCCL: Final = (
    Protocol(name="LL", launch=1.0, latency=1.0, traffic=2.0),
    Protocol(name="LL128", launch=14.0 / 6.6, latency=1.9 / 0.6, traffic=128 / 120),
    Protocol(name="Simple", launch=8.4 / 6.6, latency=3.4 / 0.6, traffic=1.0),
)
"""NCCL's protocols as its own cost model has them: LL sends 4 bytes of flags with 4 of data, LL128 8 with 120; start-up
of a ring 6.6, 14 and 8.4 us, of a round over NVLink 0.6, 1.9 and 3.4 us. Only their ratios are used.
Source: NCCL, src/graph/tuning.cc (baseLat, hwLat); the file not opened: entered from general knowledge, to be checked.
"""
_RINGS: Final = {
    "all_reduce": ("ring",),
    "all_gather": ("ring",),
    "reduce_scatter": ("ring",),
    "all_to_all": ("one_shot",),
    "send_recv": ("send_recv",),
}
_SHOTS: Final = {"all_reduce": ("one_shot", "two_shot")}
FAMILIES: Final[Mapping[str, Family]] = {
    family.name: family
    for family in (
        Family(name="nccl", title="NCCL, timed by nccl-tests or by its kernels", programs=_RINGS, protocols=NCCL),
        Family(
            name="nccl_one_process",
            title="NCCL, one thread that starts the work of every GPU (nccl-tests -g)",
            programs=_RINGS,
            protocols=NCCL,
        ),
        Family(name="framework", title="NCCL, timed through a framework", programs=_RINGS, protocols=NCCL),
        Family(
            name="in_switch",
            title="NCCL with the reduction in the switch (NVLS)",
            programs={"all_reduce": ("in_switch",)},
            protocols=PLAIN,
        ),
        Family(
            name="in_switch_framework",
            title="the same, timed through a framework",
            programs={"all_reduce": ("in_switch",)},
            protocols=PLAIN,
        ),
        Family(
            name="symmetric",
            title="NCCL's kernels on symmetric memory",
            programs={"all_gather": ("one_shot",), "reduce_scatter": ("one_shot",)},
            protocols=PLAIN,
        ),
        Family(name="custom_vllm", title="all_reduce of vLLM, in a CUDA graph", programs=_SHOTS, protocols=PLAIN),
        Family(
            name="custom_trtllm", title="all_reduce of TensorRT-LLM, in a CUDA graph", programs=_SHOTS, protocols=PLAIN
        ),
        Family(
            name="one_shot",
            title="one-shot all_reduce fused with what follows (TensorRT-LLM), its launch included",
            programs={"all_reduce": ("one_shot",)},
            protocols=PLAIN,
            launch="floor",
        ),
        Family(
            name="two_shot",
            title="two-shot all_reduce fused with what follows (TensorRT-LLM), its launch included",
            programs={"all_reduce": ("two_shot",)},
            protocols=PLAIN,
            launch="floor",
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ways:
    """Columns, one row a way to do an exchange: what multiplies launch, latency and bytes over bandwidth."""

    launches: Floats
    rounds: Floats
    bytes_per_byte: Floats


@cache
def ways(family: str, operation: str, ranks: int, boxes: int) -> Ways:
    """Every program of the family for the operation, in every protocol.

    The bytes are those of the busiest device in one box, and of the busiest NIC over several, one for each device.
    Raises KeyError for an operation that the family does not have.
    """
    found = FAMILIES[family]
    sizes = [program_size(operation, name, ranks, boxes) for name in found.programs[operation]]
    pairs = [(size, protocol) for size in sizes for protocol in found.protocols]
    of_device = [
        size.device_bytes_per_byte if boxes == 1 else size.box_bytes_per_byte * boxes / ranks for size, _ in pairs
    ]
    return Ways(
        launches=np.array([protocol.launch for _, protocol in pairs]),
        rounds=np.array([size.rounds * protocol.latency for size, protocol in pairs]),
        bytes_per_byte=np.array(
            [sent * protocol.traffic for sent, (_, protocol) in zip(of_device, pairs, strict=True)]
        ),
    )


def fitted_s(fit: CollectiveFit, ranks: int, message_bytes: N) -> N:
    """Seconds of the fastest way of the fit's family. Holds between the ranks and sizes of the fit's rows."""
    of, way_s = ways(fit.family, fit.operation, ranks, fit.boxes), _WAYS[FAMILIES[fit.family].launch]
    times = [
        way_s(
            of.launches[row],
            fit.launch,
            of.rounds[row],
            fit.latency,
            message_bytes * of.bytes_per_byte[row],
            fit.bandwidth,
        )
        for row in range(len(of.rounds))
    ]
    shortest: Any = times[0]
    for other in times[1:]:
        shortest = minimum(shortest, other)
    return shortest


@formula
def launched_s(  # noqa: PLR0917 - what a time consists of
    launches: Any, launch_s: N, rounds: Any, latency_s: N, busiest_bytes: N, bandwidth_bytes_per_s: N
) -> N:
    """Seconds of one way after its launch: its rounds one after the other, and the bytes of the busiest owner.

    Source: chapter "Supernodes", equation 6-9, with a launch in front. Leaves out contention and start skew.
    """
    return launches * launch_s + rounds * latency_s + busiest_bytes / bandwidth_bytes_per_s


@formula
def floored_s(  # noqa: PLR0917 - what a time consists of
    launches: Any, launch_s: N, rounds: Any, latency_s: N, busiest_bytes: N, bandwidth_bytes_per_s: N
) -> N:
    """The same where the host starts the next call during this one: no less than a launch, which else is hidden.

    Source: chapter "Supernodes", equation 6-9. Leaves out contention and start skew.
    """
    return maximum(rounds * latency_s + busiest_bytes / bandwidth_bytes_per_s, launches * launch_s)


_WAYS: Final = {"first": launched_s, "floor": floored_s}
