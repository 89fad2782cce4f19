"""A JSON document and a path like `candidates[id=replicas=4,tp=2,pp=1].finish_times_s[0]` go in; a value comes out."""

from __future__ import annotations

import re
from typing import Any, Final

_STEP: Final = re.compile(r"\[([^\]]+)\]|([^.\[\]]+)")


def select(document: Any, path: str) -> Any:
    """A name opens an object, `[2]` is an element, `[key=value]` keeps the elements of a list that have it.

    Raises KeyError with the path when a step finds nothing, or filters leave another number of elements than one.
    """
    value, filtered = document, False
    for bracket, name in _STEP.findall(path):
        if "=" in bracket:
            key, _, wanted = bracket.partition("=")
            value, filtered = [item for item in value if str(item[key]) == wanted], True
            continue
        if filtered:
            value, filtered = _only(value, path), False
        try:
            value = value[int(bracket)] if bracket else value[name]
        except (KeyError, IndexError, TypeError, ValueError) as problem:
            raise KeyError(f"{path}: nothing at {bracket or name}") from problem
    return _only(value, path) if filtered else value


def _only(found: list[Any], path: str) -> Any:
    if len(found) != 1:
        raise KeyError(f"{path}: {len(found)} elements match")
    return found[0]
