"""`tp=4,pp=2` goes in; the fields of a `Layout` come out: degrees of the mesh axes, what goes with them, and its id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias

from meshwright.base.errors import LayoutError, suggest
from meshwright.base.parse import build
from meshwright.layout.axes import MESH_AXES, world_size

AttentionCopies: TypeAlias = Literal["data_parallel", "replicated", "context_parallel"]
_ID_FIELDS: Final = ("replicas", "dp_replicate", "dp_shard", "tp", "cp", "pp", "ep", "etp")
_CHOICES: Final = ("sp", "zero", "schedule", "virtual_stages", "micro_batch", "recompute", "offload")
CONTEXT_PARALLEL: Final = "context_parallel"
_ALWAYS: Final = frozenset({"replicas", "tp", "pp"})
_RANGE_OF_DEGREES: Final = (1, 1_000_000)
_RANGE_OF_ZERO: Final = (0, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Degrees of the axes (see `axes`) and the choices that belong to them.

    sp: activations between blocks are sharded over the tp group.   zero: state sharded over dp_shard x cp (0 none,
    1 optimizer, 2 gradients, 3 parameters).   attention: whether attention copies see other samples, or the same; or
    whether, where they serve, ranks of cp see other positions of the same while all else is cut over cp x tp.
    schedule, recompute, offload: registry names; None and "none" where a job has no such choice.
    """

    replicas: int = 1
    tp: int = 1
    sp: bool = False
    cp: int = 1
    pp: int = 1
    virtual_stages: int = 1
    ep: int = 1
    etp: int = 1
    dp_shard: int = 1
    dp_replicate: int = 1
    zero: int = 0
    schedule: str | None = None
    micro_batch: int = 1
    recompute: str = "none"
    offload: str = "none"
    attention: AttentionCopies = "replicated"

    @property
    def id(self) -> str:
        """`replicas=4,tp=2,pp=1`: replicas, tp and pp always, the rest where it is not the default."""
        pairs = ((name, getattr(self, name)) for name in (*_ID_FIELDS, *_CHOICES))
        shown = [(name, value) for name, value in pairs if name in _ALWAYS or value != _DEFAULTS[name]]
        shown += [("attention", self.attention)] if self.attention == CONTEXT_PARALLEL else []
        return ",".join(f"{name}={str(value).lower()}" for name, value in shown)

    @property
    def world_size(self) -> int:
        """Ranks of all replicas."""
        return world_size({axis: getattr(self, axis) for axis in MESH_AXES})


_DEFAULTS: Final = {item.name: item.default for item in fields(Layout)}


def fields_of(layout: Layout) -> dict[str, Any]:
    """The fields of a layout by name, in the order of the front door."""
    return {item.name: getattr(layout, item.name) for item in fields(layout)}


def read_fixed(text: str) -> dict[str, Any]:
    """`tp=4,pp=2` as checked fields of a layout.

    Raises LAY001 for a field that no layout has, that has no value or two, or a degree out of range, IO013 for a value
    of the wrong type.
    """
    known = [item.name for item in fields(Layout)]
    given: dict[str, Any] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if name not in known:
            raise LayoutError(1, f"--layout {pair}: not a field of a layout", suggest(name, known))
        if not equals:
            raise LayoutError(1, f"--layout {pair}: no value", f"write as in --layout {name}={_example_of(name)}")
        if given.get(name, value) != value:
            raise LayoutError(1, f"--layout {name}={given[name]},{name}={value}: said twice", f"--layout {pair}")
        given[name] = value
    return checked_fields(given)


def _example_of(name: str) -> str:
    """The value of a field where nothing is chosen."""
    value = _DEFAULTS[name]
    return "one_f_one_b" if value is None else str(value).lower()


def checked_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields by name, as text or as they are, as those of a checked layout. Raises as `read_fixed` does."""
    unknown = [name for name in given if name not in _DEFAULTS]
    if unknown:
        raise LayoutError(1, f"{unknown[0]}: not a field of a layout", suggest(unknown[0], list(_DEFAULTS)))
    layout = checked_layout(build(Layout, dict(given), "layout"))
    return {name: getattr(layout, name) for name in given}


def checked_layout(layout: Layout) -> Layout:
    """The layout itself. Raises LAY001 for a degree out of range, or more ranks than there are devices."""
    least_ranks, most_ranks = _RANGE_OF_DEGREES
    for name, value in fields_of(layout).items():
        least, most = _RANGE_OF_ZERO if name == "zero" else _RANGE_OF_DEGREES
        if type(value) is int and not least <= value <= most:
            raise LayoutError(1, f"--layout {name}={value}: out of range", f"give {name} from {least} to {most}")
    if layout.world_size > most_ranks:
        cause = f"--layout {layout.id}: {layout.world_size} ranks"
        raise LayoutError(1, cause, f"give degrees whose product is from {least_ranks} to {most_ranks}")
    return layout
