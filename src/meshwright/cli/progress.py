"""The options of a verb go in; who is told how far it is comes out: a bar on stderr, or nobody without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from meshwright.cli.options import Output

Told: TypeAlias = Callable[[int, int], None]


@contextmanager
def progress(output: Output, what: str) -> Generator[Told | None]:
    """Yields what to call with how many are done, of how many; None under -q and where stderr is no terminal."""
    if output.quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def told(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield told


@contextmanager
def lines(output: Output, text: Callable[[object], str]) -> Generator[Callable[[object], None]]:
    """Yields what to call with each thing that was done: a line on stderr; nothing under -q or without a terminal."""
    shown = not output.quiet and sys.stderr.isatty()

    def told(thing: object) -> None:
        if shown:
            print(text(thing), file=sys.stderr, flush=True)  # noqa: T201 - progress, not an answer

    yield told
