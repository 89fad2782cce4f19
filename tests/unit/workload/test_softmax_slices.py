"""Slices of a softmax told as numbers: what no slice can say is refused."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.base.errors import JobError
from meshwright.workload.softmax_merge import slices_of


@pytest.mark.parametrize(
    ("maxima", "sums", "vectors"),
    [
        pytest.param([], [], [], id="none"),
        pytest.param([1.0], [1.0, 2.0], [1.0], id="not one of each"),
        pytest.param([1.0], [0.0], [1.0], id="a maximum of no position"),
        pytest.param([-np.inf], [1.0], [1.0], id="positions without a maximum"),
        pytest.param([1.0], [np.inf], [1.0], id="an endless sum"),
        pytest.param([1.0], [np.nan], [1.0], id="a sum that is no number"),
        pytest.param([1.0], [1.0], [np.nan], id="a vector that is no number"),
    ],
)
def test_slices_that_no_softmax_makes_are_refused(maxima, sums, vectors):
    with pytest.raises(JobError, match="JOB132"):
        slices_of(maxima, sums, vectors)
