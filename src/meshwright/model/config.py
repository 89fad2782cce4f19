"""A Hugging Face `config.json` goes in; checked fields come out, and a list of those that took a class default."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from reprlib import Repr
from typing import TYPE_CHECKING, Any, Final, cast

from meshwright.base.errors import ModelError
from meshwright.base.result import Defaulted

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST: Final = 10**9
_SHOWN_CHARACTERS: Final = 100


@dataclass(slots=True, kw_only=True)
class Fields:
    """The fields of one config under reading; each is checked when it is asked for, and only then.

    A null stands for "not said" only where a method says so. Every method raises MOD006, naming the field, for a value
    of another type and for a number that is not finite or out of range; MOD005 for a missing field without a default.

    family: the `model_type`, named in errors.   origin: whose defaults are taken, as text for `defaulted`.
    prefix: the dotted place of a nested object.   defaulted, notes: grow while a family is read.
    """

    data: Mapping[str, Any]
    family: str
    origin: str
    prefix: str = ""
    defaulted: list[Defaulted] = field(default_factory=list[Defaulted])
    notes: list[str] = field(default_factory=list[str])

    def integer(self, name: str, *aliases: str, default: int | None = None, least: int = 1) -> int:
        """A whole number, at most 1e9. Of several names present the last one counts, as in transformers' setters."""
        for present in reversed((name, *aliases)):
            if present in self.data:
                return self._whole(present, self.data[present], least)
        return cast("int", self._default(name, default))

    def derived(self, name: str, *, default: int) -> int:
        """As `integer`, for a field that its class derives from others: null, too, takes the default."""
        if self.data.get(name) is None:
            return cast("int", self._default(name, default))
        return self.integer(name)

    def optional(self, name: str, *, default: int | None) -> int | None:
        """As `integer`, where null is an answer of its own, and may be the default."""
        if name in self.data:
            return None if self.data[name] is None else self.integer(name)
        self.defaulted.append(Defaulted(field=self.prefix + name, value=default, origin=self.origin))
        return default

    def number(self, name: str) -> float | None:
        """A finite number; None when missing or null."""
        value: object = self.data.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not -LARGEST <= value <= LARGEST:
            raise self.wrong(name, value, "a finite number")
        return float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """true or false."""
        value: object = self.data[name] if name in self.data else self._default(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def text(self, *names: str) -> str | None:
        """The word under the first of `names` that is neither missing nor null; None when there is none."""
        for name in names:
            value: object = self.data.get(name)
            if value is None:
                continue
            if not isinstance(value, str):
                raise self.wrong(name, value, "text")
            return value
        return None

    def indices(self, name: str) -> frozenset[int]:
        """A list of layer numbers; missing or null is none of them."""
        if name not in self.data:
            self.defaulted.append(Defaulted(field=self.prefix + name, value=(), origin=self.origin))
        items = self._list(name, "a list of layer numbers") or []
        if not all(type(item) is int for item in items):
            raise self.wrong(name, items, "a list of layer numbers")
        return frozenset(cast("list[int]", items))

    def words(self, name: str) -> tuple[str, ...] | None:
        """A list of words; None when missing or null."""
        items = self._list(name, "a list of words")
        if items is None:
            return None
        if not all(isinstance(item, str) for item in items):
            raise self.wrong(name, items, "a list of words")
        return tuple(cast("list[str]", items))

    def section(self, name: str) -> Fields | None:
        """The fields of a nested object; None when missing or null."""
        value: object = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(name, value, "an object")
        nested = cast("dict[str, Any]", value)
        return Fields(data=nested, family=self.family, origin=self.origin, prefix=f"{self.prefix}{name}.")

    def wrong(self, name: str, value: object, wanted: str) -> ModelError:
        """The error for a field whose value is not `wanted`."""
        return ModelError(6, f"{self.family}: {self.prefix}{name} is {shown(value)}", f"give {wanted}")

    def _whole(self, name: str, value: object, least: int) -> int:
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(name, value, "a whole number")
        if not least <= value <= LARGEST:
            raise self.wrong(name, value, f"a whole number from {least} to {LARGEST}")
        return value

    def _list(self, name: str, wanted: str) -> list[object] | None:
        value: object = self.data.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, value, wanted)
        return cast("list[object] | None", value)

    def _default(self, name: str, default: object) -> object:
        place = self.prefix + name
        if default is None:
            cause = f"{self.family}: the config has no {place}, and {self.origin} gives no default for it"
            raise ModelError(5, cause, f"add {place} to the config")
        self.defaulted.append(Defaulted(field=place, value=default, origin=self.origin))
        return default


def shown(value: object) -> str:
    """A value of a config as one short piece of text, spelled as in JSON where the two differ."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = _SHORT.repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


class _Short(Repr):
    """Long texts are cut in the middle, deep and long values after a few items."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = _SHOWN_CHARACTERS

    def repr_int(self, x: int, level: int) -> str:
        """The number, or how long it is: Python does not print every one."""
        return f"a number of {x.bit_length()} bits" if abs(x) > LARGEST**2 else super().repr_int(x, level)


_SHORT: Final = _Short()
