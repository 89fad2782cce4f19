"""Sizes with bus bandwidths go in; a file as a program of nccl-tests prints it comes out."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.cost.collectives import busbw_factor

_HEAD = """#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"""
_END = """# Out of bounds values : 0 OK
# Avg bus bandwidth    : {average:.4f}
#
"""
_SUMS = {"all_reduce", "reduce_scatter", "reduce"}
_NAMES = {"all_to_all": "alltoall", "send_recv": "sendrecv"}


def text(
    rates: Sequence[tuple[int, float]],
    *,
    operation: str,
    hosts: int,
    ranks_per_host: int,
    device: str,
    named: bool = True,
) -> str:
    """rates: bytes, and GB/s of busbw."""
    ranks = hosts * ranks_per_host
    lines = [f"# Collective test starting: {_NAMES.get(operation, operation)}_perf"] if named else []
    lines += ["# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20"]
    lines += ["#", "# Using devices"]
    for rank in range(ranks):
        host, place = divmod(rank, ranks_per_host)
        lines.append(
            f"#  Rank {rank:2d} Group  0 Pid {4000 + rank} on node{host} device {place:2d} [0x{place:02x}] {device}"
        )
    lines.append(_HEAD)
    lines += [row(size, rate, operation, ranks) for size, rate in rates]
    average = sum(rate for _, rate in rates) / len(rates)
    return "\n".join(lines) + "\n" + _END.format(average=average)


def row(size: int, rate: float, operation: str, ranks: int) -> str:
    """One line of the table, times and rates with the digits that the program prints."""
    algbw = rate / busbw_factor(operation, ranks)
    time = size / algbw / 1e3
    shown = f"{time:8.2f}" if time < 1e4 else f"{time:8.0f}"
    redop, root = ("sum" if operation in _SUMS else "none"), (0 if operation in {"reduce", "broadcast"} else -1)
    timed = f"{shown}  {algbw:6.2f}  {rate:6.2f}"
    return f"{size:12d}  {size // 4:12d}     float  {redop:>6}  {root:6d} {timed}      0  {timed}      0"
