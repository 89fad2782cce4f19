"""Adafactor: a weight goes in; row and column statistics of a matrix, or all of a vector's, come out in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.job.optimizer import Moment

if TYPE_CHECKING:
    from meshwright.job.optimizer import Weight


def moments(weight: Weight) -> tuple[Moment, ...]:
    """The second moment of a matrix as one number a row and one a column; of a vector whole. No first moment.

    Source: Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost" (arXiv 1804.04235),
    algorithm 4, as transformers' `Adafactor` with `beta1=None` keeps it (`exp_avg_sq_row`, `exp_avg_sq_col`,
    `exp_avg_sq`). Leaves out a number a parameter (its RMS).
    """
    if weight.is_matrix:
        return Moment(name="row_statistics", without="columns"), Moment(name="column_statistics", without="rows")
    return (Moment(name="second_moment"),)
