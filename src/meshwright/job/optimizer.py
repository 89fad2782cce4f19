"""A weight's part and shape go in; the state that an optimizer keeps beside it comes out, as rules over shapes.

One file an optimizer under `optimizers/`, whose function `moments` is the rule: the file name is the registry name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast

from meshwright.base.errors import JobError
from meshwright.base.registry import Registry

OPTIMIZERS: Final = Registry(
    kind="optimizers", package="meshwright.job", folder="optimizers", suffix=".py", error=JobError, number=41
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What a rule looks at. part: where the model counts it.   dims: of one matrix or vector, experts counted apart.

    elements: of the whole parameter, all experts together.
    """

    part: str
    dims: int
    elements: int

    @property
    def is_matrix(self) -> bool:
        """Two dims: rows (outputs) and columns (inputs)."""
        return self.dims == 2  # noqa: PLR2004 - rows, columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One tensor of state, of the weight's shape. bits: of an element.

    without: the dim of the matrix that it lacks, being a statistic over it.   block: elements in a row, over rows, that
    share one float32 scale; 0 where there is none.
    """

    name: str
    bits: int = 32
    without: Literal["none", "rows", "columns"] = "none"
    block: int = 0


def moments(optimizer: str, weight: Weight) -> tuple[Moment, ...]:
    """The state that an optimizer keeps beside a weight. Raises JOB041 for an unknown optimizer."""
    return cast("tuple[Moment, ...]", OPTIMIZERS.module(optimizer).moments(weight))
