"""The fields of a `Model`, as a TOML file holds them, go in; the checked model comes out: a what-if model.

Formats are names (`--weights` and `--kv` take the same) or tables. TOML has no null: what a model may not know is left
out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from meshwright.base.parse import build
from meshwright.model.checks import checked_model
from meshwright.model.formats import BF16, Format, kv_format, plain_format, weight_format
from meshwright.model.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MAY_BE_MISSING: Final[dict[str, tuple[str, ...]]] = {
    "rope": ("factor", "original_positions"),
    "apart": ("parameters",),
}


def read_description(data: Mapping[str, Any], name: str) -> Model:
    """A `Model` of the fields in `data`; called `name`, of the family "described", unless it says otherwise.

    Raises MOD020 and MOD023 (an unknown format), IO013 (a wrong or missing value), IO015 (a key that no field has),
    each with its place, and the codes of `checked_model`.
    """
    given: dict[str, Any] = {"name": name, "family": "described", "max_positions": None, **data}
    for key, missing in _MAY_BE_MISSING.items():
        if key in given:
            given[key] = _with_nothing(given[key], missing)
    plain = _plain(given)
    readers: dict[str, Callable[[str], Format]] = {
        "plain": plain_format,
        "weights": lambda word: weight_format(word, plain),
        "kv": kv_format,
    }
    for key, read in readers.items():
        if isinstance(given.get(key), str):
            given[key] = read(given[key])
    given.setdefault("weights", plain)
    given.setdefault("kv", plain)
    return checked_model(build(Model, given, name), name)


def _plain(given: dict[str, Any]) -> Format:
    """The format that scales and the rest take by default."""
    stated = given.setdefault("plain", BF16)
    if isinstance(stated, str):
        return plain_format(stated)
    return build(Format, stated, f"{given['name']}.plain")


def _with_nothing(value: object, missing: tuple[str, ...]) -> object:
    if isinstance(value, list):
        return [_with_nothing(item, missing) for item in cast("list[object]", value)]
    return {**dict.fromkeys(missing), **cast("dict[str, object]", value)} if isinstance(value, dict) else value
