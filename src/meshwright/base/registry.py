"""A kind of thing goes in (families, accelerators, collectives); its names and, on demand, its files come out.

Built-in files are found by listing a folder, without importing them: the file name is the registry name. Outsiders add
theirs through the entry-point group `meshwright`, under the name `KIND.NAME`; for code its value is a module, for data
a package that holds `NAME.toml`. A file is imported or read when its name is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import MeshwrightError, UserError, suggest

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from types import ModuleType

_GROUP: Final = "meshwright"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """All things of one kind.

    kind: plural word, as in `meshwright list KIND`.   package: where the folder of built-in files lies.
    folder: below the package, with `/`; empty for the package itself.   suffix: `.py` or `.toml`.
    error, number: the code of an unknown name.
    """

    kind: str
    package: str
    folder: str = ""
    suffix: str = ".py"
    error: type[UserError]
    number: int

    def names(self) -> tuple[str, ...]:
        """Every registered name, built-in and outsiders', sorted."""
        return tuple(sorted({*self._built_in(), *self._outside()}))

    def module(self, name: str) -> ModuleType:
        """Import the module registered as `name`. Raises the registry's error for an unknown or broken name."""
        if name in self._built_in():
            dotted = self.folder.replace("/", ".")
            return import_module(".".join(part for part in (self.package, dotted, name) if part))
        entry = self._outside_entry(name)
        try:
            return import_module(entry.value)
        except ImportError as problem:
            raise self._broken(name, entry, problem) from problem

    def text(self, name: str) -> str:
        """The text of the data file registered as `name`. Raises the registry's error for an unknown or broken name."""
        if name in self._built_in():
            return (_folder(self.package, self.folder) / f"{name}{self.suffix}").read_text(encoding="utf-8")
        entry = self._outside_entry(name)
        try:
            return (files(entry.value) / f"{name}{self.suffix}").read_text(encoding="utf-8")
        except (ImportError, OSError, UnicodeDecodeError) as problem:
            raise self._broken(name, entry, problem) from problem

    def unknown(self, name: str) -> MeshwrightError:
        """The error for a name that is not registered, with the nearest known ones."""
        return self.error(self.number, f"{name!r} is not one of the {self.kind}", suggest(name, self.names()))

    def _built_in(self) -> frozenset[str]:
        return _listed(self.package, self.folder, self.suffix)

    def _outside(self) -> dict[str, EntryPoint]:
        prefix = f"{self.kind}."
        return {entry.name.removeprefix(prefix): entry for entry in _installed() if entry.name.startswith(prefix)}

    def _outside_entry(self, name: str) -> EntryPoint:
        entry = self._outside().get(name)
        if entry is None:
            raise self.unknown(name)
        return entry

    def _broken(self, name: str, entry: EntryPoint, problem: Exception) -> MeshwrightError:
        cause = f"{name!r} of the {self.kind} is registered as {entry.value!r}, which cannot be read: {problem}"
        return self.error(self.number, cause, "mend or remove the package that registers it")


def _folder(package: str, folder: str) -> Traversable:
    return files(package).joinpath(*filter(None, folder.split("/")))


@cache
def _listed(package: str, folder: str, suffix: str) -> frozenset[str]:
    """The names of the built-in files; listed once a process, as they do not change while it runs."""
    found = (item.name for item in _folder(package, folder).iterdir())
    named = (name for name in found if name.endswith(suffix) and not name.startswith("_"))
    return frozenset(name.removesuffix(suffix) for name in named)


@cache
def _installed() -> tuple[EntryPoint, ...]:
    """The entry points of our group; looked up once a process, as packages do not come and go while it runs."""
    return tuple(entry_points(group=_GROUP))
