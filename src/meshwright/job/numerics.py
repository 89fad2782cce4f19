"""A name goes in; a published figure of training in low precision comes out, with what it is of and its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import JobError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.result import Source

NUMERICS: Final = Registry(
    kind="numerics", package="meshwright.job", folder="numerics", suffix=".toml", error=JobError, number=44
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """One figure that someone measured or chose. what: of which network and format.   unit: empty for plain numbers."""

    name: str
    what: str
    value: float
    unit: str
    source: Source


def read_figure(name: str) -> PublishedFigure:
    """The figure registered as `name`. Raises JOB044 when unknown."""
    data = read_toml(NUMERICS.text(name), name)
    return build(PublishedFigure, {**data, "name": name, "source": {"key": name, **data["source"]}}, name)
