"""A recompute policy's name goes in; what it keeps of a block, and what it runs again in the backward, come out.

A policy is one file of `recompute/`. Names with a number, as `uniform_4`, are the file `uniform` with 4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

from meshwright.base.errors import LayoutError, suggest
from meshwright.base.registry import Registry
from meshwright.workload.operators import operators

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meshwright.model.model import Model
    from meshwright.workload.operators import Operator
    from meshwright.workload.saved import BlockSet
    from meshwright.workload.saved_entries import Saved

RECOMPUTE: Final = Registry(
    kind="recompute policies", package="meshwright.workload", folder="recompute", error=LayoutError, number=30
)
_MOST: Final = 10_000
_COUNTED: Final = re.compile(r"(.+)_(\d{1,6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompute:
    """What a policy does to a layer.

    kept: of a treated layer, what is kept.   repeats: whether an operator of a treated layer runs again in the
    backward.   every: one of so many layers is treated.   chunk: so many neighbours keep one set `kept` among them, and
    are made again together.   rebuilt: what is made again is there from the start of the layer's backward (`layer`), or
    of the backward of its half of the layer (`half`), or one tensor after the other (`tensor`).
    """

    kept: Callable[[BlockSet], tuple[Saved, ...]]
    repeats: Callable[[Operator], bool]
    every: int = 1
    chunk: int = 1
    rebuilt: Literal["layer", "half", "tensor"] = "layer"

    @property
    def spread(self) -> bool:
        """Whether layers of a stage keep different things."""
        return self.every * self.chunk > 1


class Policy(Protocol):
    """What a file of `recompute/` holds. COUNTED: its name takes a number."""

    TITLE: str
    SOURCE: str
    COUNTED: bool

    def recompute(self, count: int, /) -> Recompute:
        """The policy, with its number, or 1."""
        ...


@cache
def read_recompute(name: str) -> Recompute:
    """The policy of a name: `full`, `uniform_4`. Raises LAY030 for one that is not known, or a number out of place."""
    found = _COUNTED.fullmatch(name)
    stem, count = (name, None) if found is None else (found.group(1), int(found.group(2)))
    if stem not in RECOMPUTE.names():
        raise RECOMPUTE.unknown(name)
    policy = cast("Policy", RECOMPUTE.module(stem))
    if (count is not None) != policy.COUNTED or (count is not None and not 1 <= count <= _MOST):
        number = f"{stem}_N with N from 1 to {_MOST}" if policy.COUNTED else suggest(stem, [stem])
        raise LayoutError(30, f"{name!r} is not one of the recompute policies", f"give {number}")
    return policy.recompute(1 if count is None else count)


def repeated(model: Model, recompute: str) -> Mapping[str, float]:
    """Of each operator's forward FLOPs, the share that a policy runs again in the backward, by operator name.

    A treated block runs again from its first operator to its last; torch's checkpoint stops before a last product whose
    result nothing keeps, which is left out here, as in published counts of hardware FLOPs. Raises LAY030.
    """
    policy = read_recompute(recompute)
    share = 1 / policy.every
    return {item.name: share if item.kind is not None and policy.repeats(item) else 0.0 for item in operators(model)}
