"""TEMPORARY: replaced by the coefficients that are reduced from programs (branch h-programs)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSize:
    rounds: float
    busiest_bytes_per_byte: float


def program_size(operation: str, algorithm: str, ranks: int, boxes: int) -> ProgramSize:
    n = ranks
    share = 1.0 if boxes == 1 else boxes / n
    table = {
        ("all_reduce", "ring"): (2 * (n - 1), 2 * (n - 1) / n * share),
        ("all_gather", "ring"): (n - 1, (n - 1) / n),
        ("reduce_scatter", "ring"): (n - 1, (n - 1) / n),
        ("all_to_all", "one_shot"): (1, (n - 1) / n),
        ("send_recv", "send_recv"): (1, 1.0),
        ("all_gather", "one_shot"): (1, (n - 1) / n),
        ("reduce_scatter", "one_shot"): (1, (n - 1) / n),
        ("all_reduce", "one_shot"): (1, n - 1),
        ("all_reduce", "two_shot"): (2, 2 * (n - 1) / n),
        ("all_reduce", "in_switch"): (4, 1.0 + 1.0 / n),
    }
    rounds, sent = table[operation, algorithm]
    return ProgramSize(rounds=rounds, busiest_bytes_per_byte=sent)
