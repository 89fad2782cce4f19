"""Candidates and Pareto points of a continuous batch go in; cells of a table for a terminal come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from meshwright.base.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meshwright.base.result import Candidate

T = TypeVar("T")


def batch_row(item: Candidate) -> tuple[str, ...]:
    """Layout, fits, batch, limited by, tpot, ttft, tokens/s/GPU, memory, why not."""
    measures = item.measures
    return (
        item.id,
        "yes" if item.fits else "no",
        _cell(measures["batch"], str),
        measures["limited_by"] or "",
        _cell(measures["tpot_s"], show_seconds),
        _cell(measures["ttft_s"], show_seconds),
        _cell(measures["tokens_per_s_per_gpu"], "{:,.1f}".format),
        show_bytes(item.memory["per_rank_bytes"]) if item.memory else "",
        "" if item.excluded is None else f"{item.excluded.code} {item.excluded.reason}",
    )


def pareto_row(point: Mapping[str, Any]) -> tuple[str, ...]:
    """Layout, batch, tokens/s/user, tokens/s/GPU, tpot, limited by, breaks."""
    return (
        point["id"],
        str(point["batch"]),
        f"{point['tokens_per_s_per_user']:,.1f}",
        f"{point['tokens_per_s_per_gpu']:,.1f}",
        show_seconds(point["tpot_s"]),
        point["limited_by"] or "",
        ", ".join(point["breaks"]),
    )


def spread(items: Sequence[T], most: int) -> list[T]:
    """At most `most` (two or more) of the items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[place * (len(items) - 1) // (most - 1)] for place in range(most)]


def _cell(value: Any, shown: Any) -> str:
    return "" if value is None else shown(value)
