"""Arguments go in; the program runs in this process; its exit code and what it printed come out.

`drawn` works an answer out once a session, for all workers, and has `show` draw it in every form that is asked for.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest import mock

import click

from meshwright.cli import show as shows
from meshwright.cli.main import main
from meshwright.cli.options import Output, output_options

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
CODED = re.compile(r"error\[(?:MOD|SYS|JOB|LAY|SCH|COL|RUN|CKP|ENG|IO|WEB)\d{3}\]: \S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run of the program."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        """The one JSON document on stdout, read as strictly as the standard has it."""
        return json.loads(self.out, parse_constant=_refuse)


def meshwright(*arguments: str) -> Outcome:
    """`meshwright ARGUMENTS`, up to and with its exit."""
    return _ended(lambda: main(list(arguments)))


def _ended(run: Callable[[], object]) -> Outcome:
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            run()
        except SystemExit as left:
            code = left.code
    assert isinstance(code, int)
    return Outcome(code=code, out=out.getvalue(), err=err.getvalue())


def drawn(*line: str, form: tuple[str, ...] = ()) -> Outcome:
    """As `meshwright(*line, *form)`. line: without output options, of a verb that has an answer; form: these alone.

    The line itself runs under the first form that is asked for; what it answered is then shown in the others, by what
    shows every answer. A line that answers nothing, or more than once, runs each time.
    """
    kept = answers_folder() / f"{hashlib.sha256(repr(line).encode()).hexdigest()}.pickle"
    if not kept.is_file():
        found, answers = _watched(line, form)
        if len(answers) == 1 and not found.err.removeprefix(_told(form)):
            _keep(answers[0], kept)
        return found
    result = pickle.loads(kept.read_bytes())  # noqa: S301 - written above

    @click.command()
    @output_options
    def again(output: Output) -> None:
        raise SystemExit(shows.show(result, output))

    return _ended(lambda: again.main(list(form), standalone_mode=False))


def _keep(result: Any, file: Path) -> None:
    """For all workers; what cannot be kept (an answer with a function in it) is worked out each time."""
    try:
        kept = pickle.dumps(result)
    except (pickle.PicklingError, AttributeError, TypeError):
        return
    part = file.with_suffix(f".{os.getpid()}")
    part.write_bytes(kept)
    part.replace(file)


def _told(form: tuple[str, ...]) -> str:
    """What stands on stderr where the answer goes to a file."""
    return f"wrote {form[form.index('-o') + 1]}\n" if "-o" in form and "-q" not in form else ""


def _watched(line: tuple[str, ...], form: tuple[str, ...]) -> tuple[Outcome, list[Any]]:
    """A run, and the results that it drew."""
    seen: list[Any] = []

    def watching(draw: Callable[..., str]) -> Callable[..., str]:
        def noted(result: Any, output: Output) -> str:
            seen.append(result)
            return draw(result, output)

        return noted

    forms = {name: replace(each, draw=watching(each.draw)) for name, each in shows._FORMS.items()}
    with mock.patch.dict(shows._FORMS, forms):
        return meshwright(*line, *form), seen


_PLACES: list[Path] = []


def keep_answers_in(folder: Path) -> None:
    """Where answers are kept, for all workers of a session."""
    _PLACES.append(folder)


@cache
def answers_folder() -> Path:
    """Where answers are kept: a folder of this process where nobody named one."""
    if _PLACES:
        return _PLACES[-1]
    _OWN.append(TemporaryDirectory())
    return Path(_OWN[-1].name)


_OWN: list[TemporaryDirectory[str]] = []
"""Removed when the interpreter ends."""


def answer_of(*arguments: str, code: int = 0) -> Any:
    """The JSON answer of a command that must end with `code`."""
    found = meshwright(*arguments, "--format", "json")
    assert found.code == code, found.err or found.out[:500]
    return found.answer


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
