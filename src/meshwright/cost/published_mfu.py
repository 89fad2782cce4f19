"""A name goes in; the model FLOPs utilisation that a paper reports for its training runs comes out, with its source.

Nothing is predicted from these: they say what an assumed efficiency is to be compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import JobError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.result import Source
from meshwright.base.units import Share

PUBLISHED: Final = Registry(
    kind="published", package="meshwright.cost", folder="published", suffix=".toml", error=JobError, number=63
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. sequence: its length in tokens.   tflops_per_device: model TFLOP/s as reported, 0 where it is not."""

    devices: int
    sequence: int
    tflops_per_device: float
    mfu: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMfu:
    """The runs of one paper. lowest, highest: of their utilisations, on the dense peak."""

    name: str
    model: str
    accelerator: str
    runs: tuple[Run, ...]
    source: Source

    @property
    def lowest(self) -> float:
        """The smallest utilisation of the runs."""
        return min(run.mfu for run in self.runs)

    @property
    def highest(self) -> float:
        """The largest utilisation of the runs."""
        return max(run.mfu for run in self.runs)


def read_published(name: str) -> PublishedMfu:
    """The runs registered as `name`. Raises JOB063 when unknown."""
    data = read_toml(PUBLISHED.text(name), name)
    source = {"key": name, **data.pop("source")}
    return build(PublishedMfu, {"name": name, **data, "source": source}, name)
