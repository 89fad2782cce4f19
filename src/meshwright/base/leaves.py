"""A plain value (what JSON can hold) goes in; its single values, each by its dotted path, come out.

Paths are those of the front door: `memory.per_rank_bytes`, `groups[0].time_s`, and `items[id=hgx-h100].devices` where
every entry of a list has an id of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from meshwright.base.result import Json

Leaf: TypeAlias = "bool | int | float | str | None"


def leaves(value: Json) -> dict[str, Leaf]:
    """Every single value by its path; an empty list or mapping has none."""
    return dict(_leaves(value, ""))


def cells(record: Mapping[str, Json]) -> dict[str, Json]:
    """A mapping of mappings as one row: dotted names, lists left whole; an empty mapping has no cell."""
    found: dict[str, Json] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= {f"{name}.{rest}": item for rest, item in cells(value).items()}
        else:
            found[name] = value
    return found


def records(value: Json) -> list[dict[str, Json]] | None:
    """The entries of a list of mappings, or None for anything else, the empty list included."""
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return cast("list[dict[str, Json]]", value)
    return None


def _leaves(value: Json, path: str) -> Iterator[tuple[str, Leaf]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for key, item in zip(_keys(value), value, strict=True):
            yield from _leaves(item, f"{path}[{key}]")
    else:
        yield path, value


def _keys(items: list[Json]) -> list[str]:
    """`id=...` for entries that each have an id of their own; else their places."""
    ids = [item.get("id") if isinstance(item, dict) else None for item in items]
    if len({item for item in ids if isinstance(item, str)}) == len(items):
        return [f"id={item}" for item in ids]
    return [str(index) for index in range(len(items))]
