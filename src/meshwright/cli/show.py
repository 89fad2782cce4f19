"""A `Result` goes in; it is printed or written in the chosen format, and its exit code comes out."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from meshwright.base.errors import FileError
from meshwright.base.result import as_json

if TYPE_CHECKING:
    from meshwright.base.result import Result
    from meshwright.cli.options import Output

_FILE_WIDTH: Final = 120
_ELSEWHERE: Final = "choose a folder that exists and can be written"
_PLAIN: Final = str.maketrans({"█": "#", "·": "."})


def check_place(file: str | None) -> None:
    """Nothing, where an answer may be written there: told before the work, which may be long.

    file: None for stdout. Raises IO033 (a folder that is missing or is the file itself), IO035 (stdout is closed).
    """
    if file is None:
        if sys.stdout is None:
            raise FileError(35, "cannot write to stdout: it is closed", "give -o FILE")
        return
    path = Path(file)
    try:
        folder, whole = path.parent.is_dir(), path.is_dir()
    except (OSError, ValueError) as problem:
        raise _unwritable(path, problem) from problem
    if whole or not folder:
        cause = "Is a directory" if whole else f"no folder {path.parent}"
        raise FileError(33, f"cannot write {path}: {cause}", _ELSEWHERE)


def check_files(*names: str | None) -> None:
    """No two answers in one file, of which the later would replace the earlier. Raises IO037."""
    paths = [Path(name) for name in names if name is not None]
    files = [path.resolve() for path in paths if path.is_file() or not path.exists()]
    for path in files:
        if files.count(path) > 1:
            raise FileError(37, f"two answers are to be written to {path.name}", "give each a file of its own")


def show(result: Result, output: Output) -> int:
    """Print the answer on stdout, or write it to a file. Raises IO033 (the file), IO035 (stdout)."""
    form = _FORMS[output.style]
    text = form.draw(result, output) + form.line_end
    if output.file is None:
        _print(text)
    else:
        write_file(Path(output.file), text.encode("utf-8", "replace"))
        if not output.quiet:
            click.echo(f"wrote {output.file}", err=True)
    return result.verdict.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One --format. draw: the answer without the end of its last line."""

    draw: Callable[[Result, Output], str]
    line_end: str = "\n"


def _json(result: Result, output: Output) -> str:
    _ = output
    return json.dumps(as_json(result), indent=2, allow_nan=False)


def _csv(result: Result, output: Output) -> str:
    from meshwright.output.csv_rows import as_csv  # noqa: PLC0415 - a form is loaded when it is asked for

    _ = output
    return as_csv(result)


def _markdown(result: Result, output: Output) -> str:
    from meshwright.output.markdown import as_markdown  # noqa: PLC0415 - as csv

    return as_markdown(result).partition("\n")[0] if output.quiet else as_markdown(result)


def _human(result: Result, output: Output) -> str:
    if output.quiet:
        return f"{result.verdict.answer}: {result.verdict.text}"
    from meshwright.output.tables import as_text  # noqa: PLC0415 - rich is loaded only when a table is drawn

    on_terminal = output.file is None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else _FILE_WIDTH
    return as_text(result, width=width, colour=on_terminal and "NO_COLOR" not in os.environ)


_FORMS: Final = {
    "human": Form(draw=_human),
    "json": Form(draw=_json),
    "md": Form(draw=_markdown),
    "csv": Form(draw=_csv, line_end="\r\n"),
}


def _print(text: str) -> None:
    """On stdout. A reader that leaves early changes nothing; what stdout cannot spell is replaced."""
    try:
        try:
            click.echo(text, nl=False)
        except UnicodeEncodeError as problem:
            spelled = text.translate(_PLAIN).encode(problem.encoding, "replace").decode(problem.encoding)
            click.echo(spelled, nl=False)
    except BrokenPipeError:
        _close_stdout()
    except OSError as problem:
        _close_stdout()
        raise FileError(
            35, f"cannot write to stdout: {problem.strerror}", "make room there, or give -o FILE"
        ) from problem


def _close_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter does not fail on it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_file(path: Path, data: bytes) -> None:
    """To a new file beside `path`, renamed onto it when complete; straight to a device or a pipe. Raises IO033."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(data)
        else:
            _replace(path.resolve(), data)
    except (OSError, ValueError) as problem:
        raise _unwritable(path, problem) from problem


def _unwritable(path: Path, problem: Exception) -> FileError:
    return FileError(33, f"cannot write {path}: {getattr(problem, 'strerror', None) or problem}", _ELSEWHERE)


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
