"""A call of a collective goes in; its name, the axis of its group, and the bytes of its message come out.

Bytes are those of nccl-tests: an all_reduce counts its buffer, an all_gather its output, a reduce_scatter its input, a
send what it sends. What a rank sends of them is counted in the program of a ring. Source: nccl-tests, PERFORMANCE.md;
chapter "Supernodes", section 6.3.2.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
import torch.distributed as dist

from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.mesh import coordinates
from meshwright.runtime.tape.record import Traffic
from meshwright.workload.collectives import ring
from meshwright.workload.programs import sent_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meshwright.layout.layout import Layout
    from meshwright.runtime.tape.record import Phase

_c10d: Any = torch.ops.c10d


class _Kind(NamedTuple):
    """message, group: places of the arguments that hold the message and the process group."""

    name: str
    message: int
    group: int


_KINDS: Final[dict[Any, _Kind]] = {
    _c10d.allreduce_.default: _Kind("all_reduce", 0, 1),
    _c10d._allgather_base_.default: _Kind("all_gather", 0, 2),
    _c10d._reduce_scatter_base_.default: _Kind("reduce_scatter", 1, 2),
    _c10d.broadcast_.default: _Kind("broadcast", 0, 1),
    _c10d.send.default: _Kind("send_recv", 0, 1),
}
RECEIVES: Final = _c10d.recv_.default
_INSTEAD: Final = {"gloo": {"reduce_scatter": "all_reduce"}}
"""By backend, what really runs. Source: torch 2.13, ProcessGroupGloo.cpp, whose _reduce_scatter_base reduces to all."""


class Call(NamedTuple):
    """One call of a collective. ranks: of its group.   backend: of that group."""

    name: str
    ranks: tuple[int, ...]
    phase: Phase
    nbytes: int
    backend: str


def call_of(operator: Any, args: Sequence[Any], phase: Phase) -> Call | None:
    """The call; None for operators that are none, and for the receiving end of a send."""
    kind = _KINDS.get(operator)
    if kind is None:
        assert operator.namespace != "c10d" or operator is RECEIVES, f"a tape does not know {operator}"
        return None
    message = args[kind.message]
    tensors = [message] if isinstance(message, torch.Tensor) else message
    group = dist.ProcessGroup.unbox(args[kind.group])
    return Call(
        kind.name,
        tuple(sorted(dist.get_process_group_ranks(group))),
        phase,
        sum(tensor.nbytes for tensor in tensors),
        dist.get_backend(group),
    )


def sent_bytes(name: str, ranks: int, message_bytes: int) -> int:
    """What the busiest rank of a ring sends of a message; of a send, all."""
    sent, pieces = (1, 1) if name == "send_recv" else _of_a_ring(name, ranks)
    return message_bytes * sent // pieces


@cache
def _of_a_ring(name: str, ranks: int) -> tuple[int, int]:
    """Pieces that the busiest rank sends, and those of the message."""
    program = ring.program(name, ranks)
    return int(sent_pieces(program).max()), program.message_pieces


def axis_of(layout: Layout, ranks: Iterable[int]) -> str:
    """The axes along which the ranks of a group differ, joined by `+`; of all ranks together `world`."""
    places = [coordinates(layout, rank, PIPELINE_OUTSIDE) for rank in ranks]
    axes = [axis for axis in PIPELINE_OUTSIDE if len({place[axis] for place in places}) > 1]
    return "+".join(axes)


def traffic_of(layout: Layout, calls: Iterable[Call]) -> tuple[Traffic, ...]:
    """The sums of calls by collective, axis and phase."""
    sums: defaultdict[tuple[str, str, Phase], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for call in calls:
        key = call.name, axis_of(layout, call.ranks), call.phase
        really = _INSTEAD.get(call.backend, {}).get(call.name, call.name)
        sent = (sent_bytes(name, len(call.ranks), call.nbytes) for name in (call.name, really))
        sums[key] = [so_far + more for so_far, more in zip(sums[key], (1, call.nbytes, *sent), strict=True)]
    return tuple(
        Traffic(
            collective=collective,
            axis=axis,
            phase=phase,
            calls=calls,
            message_bytes=message,
            sent_bytes=sent,
            backend_bytes=backend,
        )
        for (collective, axis, phase), (calls, message, sent, backend) in sorted(sums.items())
    )
