"""Cases about training go in; what the command line says to each of their checks comes out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from tests.golden.paths import select
from tests.measured.ask import GIB, table
from tests.ui.program import answer_of

CASES: Final = "training-cases"


def checks() -> list[tuple[str, int, Mapping[str, Any]]]:
    """Every check with its case and number."""
    return [(name, at, check) for name, case in table(CASES).items() for at, check in enumerate(case.get("checks", ()))]


def asked(check: Mapping[str, Any]) -> Any:
    """The field of the answer; less, or divided by, another field or that of a second command."""
    found = select(answer(check["command"], check.get("code", 0)), check["path"])
    if "minus" in check:
        return found - select(answer(check["minus"], 0), check["path"])
    if "over" in check:
        return found / select(answer(check["over"], 0), check["path"])
    if "over_path" in check:
        return found / select(answer(check["command"], 0), check["over_path"])
    return found


def stated(check: Mapping[str, Any]) -> Any:
    """What the case states, in the unit of the field."""
    return check["expected_gib"] * GIB if "expected_gib" in check else check.get("expected")


@cache
def answer(command: str, code: int) -> Any:
    """The JSON answer of `meshwright COMMAND`, which must end with that exit code."""
    return answer_of(*shlex.split(command), code=code)
