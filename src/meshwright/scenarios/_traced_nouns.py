"""What a saved result states of its inputs goes in; the nouns come out with every number traced to its path.

Numbers are named by the path that `--set` takes (`system.scale_up.latency`, `model.groups.0.block.mixer.heads`). Equal
parts of a model keep the name of the first of them, as they are one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from meshwright.base.errors import MeshwrightError
from meshwright.base.result import Basis
from meshwright.base.traced import leaf
from meshwright.base.units import parse_any

if TYPE_CHECKING:
    from meshwright.base.result import Source
    from meshwright.model.model import Model
    from meshwright.system.system import System

T = TypeVar("T")
Origin = Callable[[str, "int | float"], "tuple[str, str]"]
_OF_BLOCKS: Final = ".groups."
_UNTRACED: Final = frozenset({"facts", "defaulted", "notes", "source", "apart", "rope", "fault_domains"})


def traced_noun(noun: T, name: str, origin: Origin) -> T:
    """The noun with a leaf for every number. origin: basis and source of the number at a path, given the path."""
    return cast("T", _traced(noun, name, origin, {}))


def of_model(model: Model) -> Origin:
    """Numbers of a model are its config's."""
    source = "" if model.source is None else _told(model.source)
    return lambda _path, _value: (Basis.CONFIG.value, source)


def of_system(system: System, sources: Mapping[str, Source]) -> Origin:
    """Numbers of a system are those of its facts, or assumed where somebody set them otherwise."""
    facts = {f"system.{fact.path}": fact for fact in system.facts.facts}

    def found(path: str, value: float) -> tuple[str, str]:
        fact = facts.get(path)
        if fact is None:
            return Basis.DATASHEET.value, ""
        if _number(fact.value) != value:
            return Basis.ASSUMED.value, f"set otherwise than its source's {fact.value}"
        told = "" if fact.source is None or fact.source not in sources else _told(sources[fact.source])
        return fact.basis.value, told

    return found


def given(_path: str, _value: float) -> tuple[str, str]:
    """Numbers of jobs, layouts and options are what was asked or decided."""
    return Basis.ASSUMED.value, "an input of the question"


def _traced(value: Any, path: str, origin: Origin, known: dict[Any, Any]) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        basis, source = origin(path, value)
        return leaf(value, path, basis=basis, source=source)
    if is_dataclass(value) and not isinstance(value, type):
        return _traced_record(value, path, origin, known)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return {key: _traced(item, f"{path}.{key}", origin, known) for key, item in pairs.items()}
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        return tuple(_traced(item, f"{path}.{index}", origin, known) for index, item in enumerate(items))
    return value


def _traced_record(value: Any, path: str, origin: Origin, known: dict[Any, Any]) -> Any:
    key = repr(value) if _OF_BLOCKS in path else path
    if key not in known:
        inside = [item.name for item in fields(value) if item.name not in _UNTRACED]
        known[key] = replace(
            value, **{name: _traced(getattr(value, name), f"{path}.{name}", origin, known) for name in inside}
        )
    return known[key]


def _number(text: str) -> float | None:
    try:
        return float(parse_any(text))
    except MeshwrightError:
        return None


def _told(source: Source) -> str:
    return f"{source.title}, {source.place} (read {source.read})"
