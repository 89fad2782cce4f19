"""Matrices cut over a grid of devices go in; bytes that each device sends to gather them, and seconds, come out."""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N, maximum
from meshwright.base.traced import formula


@formula
def gathered_bytes(matrix_bytes: N, devices_count: Any, along_count: Any) -> N:
    """What each device sends while one line of the grid gathers its part of a matrix.

    Every device starts with an equal part of the whole matrix, and a line has `along` of them: each part reaches the
    others of its line. Source: chapter "Supernodes", section 6.2.2 and note 4.
    """
    return matrix_bytes / devices_count * (along_count - 1)


@formula
def independent_s(row_bytes: N, column_bytes: Any, link_bytes_per_s: Any) -> N:
    """Both directions at once, each over links of its own. Source: chapter "Supernodes", section 6.2.2."""
    return maximum(row_bytes, column_bytes) / link_bytes_per_s


@formula
def shared_s(row_bytes: N, column_bytes: Any, link_bytes_per_s: Any) -> N:
    """One direction after the other over the same links. Source: chapter "Supernodes", section 6.2.2."""
    return (row_bytes + column_bytes) / link_bytes_per_s
