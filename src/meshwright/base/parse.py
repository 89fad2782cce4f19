"""Untyped data (TOML, JSON, option text) goes in; frozen, checked dataclasses come out. The only file with pydantic.

Text with a unit is read by the unit type of its field (`Bytes`, `Seconds`, ...). A key that no field has, a bare number
where a unit is needed and a value of the wrong type are errors that name the place and the right spelling.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from meshwright.base.errors import FileError, suggest
from meshwright.base.units import DIMENSIONS, parse_quantity

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")
Reader: TypeAlias = Callable[[str, Any, str], Any]
"""Reads one quantity: its dimension, the value, the place to name in errors."""
_NAKED: Final = frozenset({"share", "length", "count"})
_LIMIT_BYTES: Final = 64 * 2**20
_DEEPEST: Final = 64
_ARGUMENTS_OF_A_MAPPING: Final = 2


def read_text(path: Path) -> str:
    """The text of a file. Raises IO010 when it is missing, a folder, too large or not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT_BYTES + 1)
        if len(data) > _LIMIT_BYTES:
            raise FileError(10, f"{path} is larger than {_LIMIT_BYTES >> 20} MiB", "is this the right file?")
        return data.decode("utf-8-sig")
    except OSError as problem:
        raise FileError(10, f"cannot read {path}: {problem.strerror}", "check the path") from problem
    except ValueError as problem:  # not UTF-8, or a name that no file can have
        raise FileError(10, f"cannot read {path!s}: {problem}", "give a text file in UTF-8") from problem


def read_toml(text: str, what: str) -> dict[str, Any]:
    """Parse TOML. Raises IO011 with the place of the fault."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise FileError(11, f"{what} is not TOML: {problem}", "mend the line named above") from problem
    if _too_deep(data):
        raise FileError(11, f"{what} is nested deeper than {_DEEPEST} levels", "flatten it")
    return data


def read_json(text: str, what: str) -> Any:
    """Parse JSON; `NaN` and `Infinity` are read, as Hugging Face configs hold them. Raises IO012."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise FileError(12, f"{what} is not JSON: {problem}", "mend the line named above") from problem
    if _too_deep(data):
        raise FileError(12, f"{what} is nested deeper than {_DEEPEST} levels", "flatten it")
    return data


def build(cls: type[T], data: object, what: str) -> T:
    """A checked instance of `cls` (a frozen dataclass, or any type a field may have) from plain data.

    what: the place to name in errors. Raises IO001..003 (quantities), IO013 (a wrong or missing value) and IO015 (a key
    that no field has).
    """
    return _validated(cls, _resolve(cls, data, what, _quantity), what)


def rebuild(cls: type[T], data: object, what: str) -> T:
    """As `build`, from what a saved result states: its numbers are in SI units and bare. Raises IO013, IO015."""
    return _validated(cls, _resolve(cls, data, what, lambda _dimension, value, _what: value), what)


def _validated(cls: type[T], resolved: object, what: str) -> T:
    try:
        return cast("T", _adapter(cls).validate_python(resolved))
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join([what, *(str(part) for part in first["loc"])])
        raise FileError(13, f"{place}: {first['msg']}", _example(first)) from problem


def set_path(record: T, path: str, text: str) -> T:
    """`record` with the field at a dotted `path` replaced by `text`, read with its unit.

    An item of a tuple is named by its place, from 0: `groups.0.count` or `groups[0].count`. Raises IO014 (no such
    field), and the codes of `build`.
    """
    parts = re.sub(r"\[(\d+)\]", r".\1", path).split(".")
    return cast("T", _set(type(record), record, parts, text, path))


def put_path(record: T, path: str, value: object) -> T:
    """`record` with the field at a dotted `path` replaced by a value of its type. Raises IO014 (no such field)."""
    head, _, rest = path.partition(".")
    inner = _child(record, head, path)
    return _with(record, head, put_path(inner, rest, value) if rest else value)


def get_path(record: object, path: str) -> object:
    """The value at a dotted `path` of dataclasses, mappings and tuples. Raises IO014."""
    value = record
    for part in path.split("."):
        value = _child(value, part, path)
    return value


def _set(hint: Any, record: Any, parts: Sequence[str], text: str, path: str) -> Any:
    head, *rest = parts
    inner = _child(record, head, path)
    child_hint = _child_hint(hint, record, head)
    value = _set(child_hint, inner, rest, text, path) if rest else build(child_hint, _literal(child_hint, text), path)
    return _with(record, head, value)


def _with(record: Any, name: str, value: object) -> Any:
    if is_dataclass(record):
        return replace(cast("Any", record), **{name: value})
    if isinstance(record, tuple):
        items = list(cast("tuple[object, ...]", record))
        items[int(name)] = value
        return tuple(items)
    return {**cast("Mapping[str, Any]", record), name: value}


def _child(record: Any, part: str, path: str) -> Any:
    known: list[str] = []
    if is_dataclass(record):
        known = [item.name for item in fields(record)]
    elif isinstance(record, Mapping):
        known = [str(key) for key in cast("Mapping[str, Any]", record)]
    elif isinstance(record, tuple):
        known = [str(place) for place in range(len(cast("tuple[object, ...]", record)))]
    if part not in known:
        raise FileError(14, f"{path}: there is no field {part!r}", suggest(part, known))
    if isinstance(record, tuple):
        return cast("tuple[object, ...]", record)[int(part)]
    mapped = isinstance(record, Mapping)
    return cast("Mapping[str, Any]", record)[part] if mapped else getattr(cast("object", record), part)


def _child_hint(hint: Any, record: object, part: str) -> Any:
    if is_dataclass(record):
        return _hints(type(record))[part]
    arguments = get_args(_bare(hint))
    if isinstance(record, tuple):
        return arguments[0] if arguments else type(cast("tuple[object, ...]", record)[int(part)])
    mapped = len(arguments) == _ARGUMENTS_OF_A_MAPPING
    return arguments[1] if mapped else type(cast("Mapping[str, object]", record)[part])


def _literal(hint: Any, text: str) -> object:
    """Option text as the plain value its field wants: text stays text, the rest is read as JSON when it can be."""
    bare = _bare(hint)
    if bare in DIMENSIONS or bare is str:
        return text
    if get_origin(bare) is tuple and not text.startswith("["):
        return [item.strip() for item in text.split(",")]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _resolve(hint: Any, value: Any, what: str, quantity: Reader) -> Any:
    """Replace unit text by numbers, following the types; refuse unknown keys. The rest is pydantic's to check."""
    bare = _bare(hint)
    if value is None or bare is Any:
        return value
    if bare in DIMENSIONS:
        return quantity(DIMENSIONS[bare], value, what)
    if isinstance(value, Mapping):
        return _resolve_table(bare, cast("Mapping[str, Any]", value), what, quantity)
    origin, arguments = get_origin(bare), get_args(bare)
    if origin is tuple and isinstance(value, Sequence) and not isinstance(value, str) and arguments:
        items = cast("Sequence[Any]", value)
        return [_resolve(arguments[0], item, f"{what}[{index}]", quantity) for index, item in enumerate(items)]
    return cast("Any", value)


def _resolve_table(hint: Any, value: Mapping[str, Any], what: str, quantity: Reader) -> Any:
    """A table as a record, as the member of a union that it means, or as a mapping."""
    if is_dataclass(hint):
        return _resolve_record(hint, value, what, quantity)
    arguments = get_args(hint)
    if get_origin(hint) in {Union, UnionType}:
        record = _record_of(arguments, value)
        return value if record is None else _validated(record, _resolve(record, value, what, quantity), what)
    if len(arguments) == _ARGUMENTS_OF_A_MAPPING:
        return {key: _resolve(arguments[1], item, f"{what}.{key}", quantity) for key, item in value.items()}
    return value


def _record_of(members: Sequence[Any], value: Mapping[str, Any]) -> Any:
    """The dataclass of a union that a table means: the one whose fields name most of its keys, the first of equals.

    None where no member is a dataclass.
    """
    records = [member for member in members if is_dataclass(member)]
    known = [{item.name for item in fields(member)} for member in records]
    scores = [len(names & set(value)) for names in known]
    return records[scores.index(max(scores))] if records else None


def _resolve_record(cls: Any, data: Mapping[str, Any], what: str, quantity: Reader) -> Any:
    hints = _hints(cls)
    known = [item.name for item in fields(cls)]
    for key in data:
        if key not in hints or key not in known:
            raise FileError(15, f"{what}: there is no field {key!r}", suggest(str(key), known))
    return {key: _resolve(hints[key], value, f"{what}.{key}", quantity) for key, value in data.items()}


def _quantity(dimension: str, value: Any, what: str) -> float | int:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise FileError(1, f"{what}: {value!r} is not a quantity", "write a number and its unit in quotes")
    if isinstance(value, str) or dimension in _NAKED:
        return parse_quantity(str(value), dimension, what)
    if value == 0:
        return value
    return parse_quantity(repr(value), dimension, what)


def _too_deep(data: Any) -> bool:
    """Whether data of lists and tables is nested too deep for the functions here, which call themselves."""
    level = [data]
    for _ in range(_DEEPEST):
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return False
    return True


def _inside(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return list(cast("dict[str, Any]", item).values())
    return cast("list[Any]", item) if isinstance(item, list) else []


def _bare(hint: Any) -> Any:
    """The one real type of `X | None`; other hints as they are."""
    if get_origin(hint) in {Union, UnionType}:
        real = [item for item in get_args(hint) if item is not NoneType]
        return real[0] if len(real) == 1 else hint
    return hint


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def _example(error: Any) -> str:
    if error["type"] == "dataclass_type":
        return "name a field of it, behind a dot"
    expected = re.sub(r"^Input should be |, (unable to|got a) .*$", "", str(error["msg"]))
    return f"give {expected}" if expected != error["msg"] else "see the field's documentation"
