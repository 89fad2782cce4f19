"""Bytes and seconds of a collective go in; algbw and busbw, as nccl-tests defines them, come out.

busbw is a measure that compares operations and rank counts with the hardware's rate; no single link moves at it.
Source: nccl-tests, doc/PERFORMANCE.md; chapter "Supernodes", section 6.4.3.
"""

from __future__ import annotations

from typing import Final, TypeVar

from meshwright.base.errors import CollectiveError, suggest
from meshwright.base.numbers import Number
from meshwright.base.traced import formula

N = TypeVar("N", bound=Number)
_OTHERS: Final = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "all_to_all": 1}
_WHOLE: Final = ("broadcast", "reduce", "send_recv")
OPERATIONS: Final = (*_OTHERS, *_WHOLE)


@formula
def algbw_bytes_per_s(message_bytes: N, time_s: N) -> N:
    """Bytes of the message a second. Source: nccl-tests, doc/PERFORMANCE.md."""
    return message_bytes / time_s


@formula
def busbw_bytes_per_s(message_bytes: N, time_s: N, busbw_over_algbw: N) -> N:
    """Algbw times what an operation must move of each byte of its message. Source: nccl-tests, doc/PERFORMANCE.md."""
    return algbw_bytes_per_s(message_bytes, time_s) * busbw_over_algbw


def busbw_over_algbw(operation: str, ranks: int) -> float:
    """2 (n - 1) / n of an all_reduce; (n - 1) / n of halves of it and of all_to_all; 1 of the rest. Raises COL032.

    Source: nccl-tests, doc/PERFORMANCE.md.
    """
    if operation not in OPERATIONS:
        raise CollectiveError(32, f"{operation!r} is not an operation", suggest(operation, OPERATIONS))
    return 1.0 if operation in _WHOLE else _OTHERS[operation] * (ranks - 1) / ranks
