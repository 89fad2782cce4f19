"""The one error tree: a code, a cause and a fix go in; one coded message comes out.

The tree, with the prefix of each branch's codes:

    MeshwrightError
      UserError            exit 2: the input is wrong, and the message says how to mend it
        ModelError         MOD   a model description
        SystemSpecError    SYS   accelerators, links, systems
        JobError           JOB   what is to be served or trained
        LayoutError        LAY   degrees, placement, ownership
        ScheduleError      SCH   slot orders
        CollectiveError    COL   collective algorithms
        RunError           RUN   real processes
        CheckpointError    CKP   checkpoints
        EngineError        ENG   serving and training engines
        FileError          IO    files, results, options
        WebError           WEB   the web page
      InternalError        exit 101: our bug
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class MeshwrightError(Exception):
    """Root of the tree. `code` is stable text, `cause` says what is wrong, `fix` says what to type instead."""

    exit_code: ClassVar[int] = 101

    def __init__(self, code: str, cause: str, fix: str = "") -> None:
        super().__init__(f"error[{code}]: {cause}")
        self.code = code
        self.cause = cause
        self.fix = fix

    @property
    def message(self) -> str:
        """The two lines a user reads: the error, and the fix when there is one."""
        return f"{self}\nfix: {self.fix}" if self.fix else str(self)


class UserError(MeshwrightError):
    """The input is wrong. Every subclass owns one prefix of codes."""

    exit_code: ClassVar[int] = 2
    prefix: ClassVar[str] = ""

    def __init__(self, number: int, cause: str, fix: str = "") -> None:
        super().__init__(f"{self.prefix}{number:03d}", cause, fix)


class ModelError(UserError):
    """A model description that is missing, unknown or contradicts itself."""

    prefix = "MOD"


class SystemSpecError(UserError):
    """An accelerator, link or system that is unknown or contradicts itself."""

    prefix = "SYS"


class JobError(UserError):
    """A job that asks for something that cannot be asked."""

    prefix = "JOB"


class LayoutError(UserError):
    """A layout that breaks a rule of the model, the system or the axes."""

    prefix = "LAY"


class ScheduleError(UserError):
    """A schedule that cannot take these stages or micro-batches."""

    prefix = "SCH"


class CollectiveError(UserError):
    """A collective algorithm that cannot take this group."""

    prefix = "COL"


class RunError(UserError):
    """A real run that cannot start or did not finish."""

    prefix = "RUN"


class CheckpointError(UserError):
    """A checkpoint that is incomplete or unreadable."""

    prefix = "CKP"


class EngineError(UserError):
    """An engine that is unknown or refuses this layout."""

    prefix = "ENG"


class FileError(UserError):
    """A file, an option or a field that cannot be read."""

    prefix = "IO"


class WebError(UserError):
    """The web page was asked for something it does not have."""

    prefix = "WEB"


class InternalError(MeshwrightError):
    """Our bug: a state that the code says cannot be."""

    exit_code: ClassVar[int] = 101

    def __init__(self, cause: str) -> None:
        super().__init__("BUG", cause, "please report this with the command that you ran")


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known names closest to `name`, best first; case does not matter, ties in the order of `known`."""
    by_lower = {item.lower(): item for item in known}
    found = get_close_matches(name.lower(), by_lower, n=count, cutoff=0.4)
    return [by_lower[item] for item in found]


def suggest(name: str, known: Iterable[str]) -> str:
    """A fix line for an unknown name: the nearest known names, or all of them when none is near."""
    items = list(known)
    close = nearest(name, items)
    if close:
        return f"did you mean {', '.join(close)}?"
    return f"known: {', '.join(items)}" if items else "none is known here"
