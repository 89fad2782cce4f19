"""One setting of a quantization goes in; its value comes out, when what it says is known to change no byte or how many.

Every function raises MOD021, naming the setting, for a value that is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from meshwright.base.errors import ModelError
from meshwright.model.config import shown
from meshwright.model.coverage import UNQUANTIZED
from meshwright.model.formats import WHOLE

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_LARGEST_BLOCK: Final = 2**20


def usual(settings: Fields, name: str, known: tuple[object, ...]) -> None:
    """A setting that could change what is stored says one of the `known`; None stands for missing and null."""
    value: object = settings.data.get(name)
    if not any(value is item or (type(value) is type(item) and value == item) for item in known):
        raise ModelError(21, f"{place(settings, name)} is {shown(value)}", UNQUANTIZED)


def one_of(settings: Fields, name: str, *known: int) -> int:
    """The whole number of a setting, one of the known."""
    value: object = settings.data.get(name)
    if type(value) is not int or value not in known:
        cause = f"{place(settings, name)} is {shown(value)}"
        raise ModelError(21, cause, f"known: {', '.join(map(str, known))}; {UNQUANTIZED}")
    return value


def group_size(settings: Fields, name: str) -> int:
    """Elements of a row that share a scale; -1 is the whole row."""
    value: object = settings.data.get(name)
    if value == -1:
        return WHOLE
    if type(value) is not int or not 0 < value <= _LARGEST_BLOCK:
        raise ModelError(21, f"{place(settings, name)} is {shown(value)}", f"give a size, or -1; {UNQUANTIZED}")
    return value


def said(settings: Fields, name: str) -> bool:
    """Whether a setting, or the one that transformers writes with an underscore before it, is true."""
    return any(settings.data.get(key) is True for key in (name, f"_{name}"))


def is_block(block: object) -> bool:
    """Whether it is a list of two sizes: rows and columns."""
    if not isinstance(block, list):
        return False
    items = cast("list[object]", block)
    return len(items) == 2 and all(type(item) is int and 0 < item <= _LARGEST_BLOCK for item in items)  # noqa: PLR2004 - rows, columns


def place(settings: Fields, name: str) -> str:
    """A setting as errors name it."""
    return f"{settings.family}: {settings.prefix}{name}"
