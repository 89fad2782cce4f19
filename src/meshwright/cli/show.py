"""A `Result` goes in; it is printed or written in the chosen format, and its exit code comes out."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from meshwright.base.errors import FileError
from meshwright.base.result import as_json

if TYPE_CHECKING:
    from meshwright.base.result import Result
    from meshwright.cli.options import Output

_FILE_WIDTH = 120


def show(result: Result, output: Output) -> int:
    """Print the answer on stdout, or write it to a file (to a temporary name, then renamed). Raises IO033."""
    text = _text(result, output)
    if output.file is None:
        click.echo(text)
    else:
        _write(Path(output.file), text + "\n")
        if not output.quiet:
            click.echo(f"wrote {output.file}", err=True)
    return result.verdict.exit_code


def _text(result: Result, output: Output) -> str:
    if output.style == "json":
        return json.dumps(as_json(result), indent=2)
    if output.quiet:
        return f"{result.verdict.answer}: {result.verdict.text}"
    from meshwright.output.tables import as_text  # noqa: PLC0415 - rich is loaded only when a table is drawn

    on_terminal = output.file is None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else _FILE_WIDTH
    return as_text(result, width=width, colour=on_terminal and "NO_COLOR" not in os.environ)


def _write(path: Path, text: str) -> None:
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except (OSError, ValueError) as problem:
        raise _unwritable(path, problem) from problem
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).replace(path)
    except OSError as problem:
        Path(name).unlink(missing_ok=True)
        raise _unwritable(path, problem) from problem


def _unwritable(path: Path, problem: Exception) -> FileError:
    return FileError(33, f"cannot write {path}: {problem}", "choose a folder that exists and can be written")
