"""What does sp save? A shape and a tp group go in; bytes of an activation, whole and in shards, come out."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from meshwright.base.units import Bytes
from meshwright.job.serve import check_range
from meshwright.layout.layout import Layout
from meshwright.layout.ownership import index_ranges
from meshwright.model.tensors import Dim, Tensor
from meshwright.workload.messages import row_bytes

_MOST: Final = 2**31
_MOST_RANKS: Final = 1024
LEFT_OUT: Final = (
    "weights, and activations that tp cuts anyway: sp changes neither",
    "the exchange: an all_gather and a reduce_scatter in place of each all_reduce, the same bytes in all",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationShare:
    """whole_bytes: of the activation.   rank_bytes: on one rank under sp.   sharded_*, replicated_*: on all ranks."""

    whole_bytes: float
    rank_bytes: float
    sharded_bytes: float
    replicated_bytes: float
    not_modelled: tuple[str, ...]


def sequence_parallel(rows: int, hidden: int, element_bytes: Bytes, tp: int) -> ActivationShare:
    """An activation [rows, hidden] between matrix products, in shards of rows over the tp group or whole on each rank.

    The ownership table cuts it. rank_bytes is of the fullest rank. Raises JOB001. Source: chapter "Supernodes", section
    6.2.3; Korthikanti et al., 2022 (arXiv:2205.05198), section 4.2.2.
    """
    for name, size in {"rows": rows, "hidden": hidden, "element_bytes": element_bytes}.items():
        check_range(name, size, 1, _MOST)
    check_range("tp", tp, 1, _MOST_RANKS)
    tensor = Tensor(
        name="hidden", part="norms", dims=(Dim(role="positions", size=rows), Dim(role="hidden", size=hidden))
    )
    cut, whole = (
        [_elements(index_ranges(tensor, Layout(tp=tp, sp=sp), rank, "activations")) for rank in range(tp)]
        for sp in (True, False)
    )
    return ActivationShare(
        whole_bytes=row_bytes(rows, hidden, element_bytes),
        rank_bytes=max(cut) * element_bytes,
        sharded_bytes=sum(cut) * element_bytes,
        replicated_bytes=sum(whole) * element_bytes,
        not_modelled=LEFT_OUT,
    )


def _elements(ranges: tuple[range, ...]) -> int:
    return prod(len(item) for item in ranges)
