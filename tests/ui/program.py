"""Arguments go in; the program runs in this process; its exit code and what it printed come out."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshwright.cli.main import main

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
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit as left:
            code = left.code
    assert isinstance(code, int)
    return Outcome(code=code, out=out.getvalue(), err=err.getvalue())


def answer_of(*arguments: str, code: int = 0) -> Any:
    """The JSON answer of a command that must end with `code`."""
    found = meshwright(*arguments, "--format", "json")
    assert found.code == code, found.err or found.out[:500]
    return found.answer


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
