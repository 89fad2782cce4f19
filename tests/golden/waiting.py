"""`waiting.toml` goes in; the capabilities that are built, and the rows that wait for a mechanism, come out."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from tests.golden.context import HERE


def built() -> tuple[str, ...]:
    """The capabilities whose every row is answered or waiting."""
    return tuple(_table()["capabilities"])


def waiting() -> dict[str, str]:
    """The mechanism that each waiting row needs."""
    return {name: entry["mechanism"] for entry in _table()["waiting"] for name in entry["rows"]}


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((HERE / "waiting.toml").read_text(encoding="utf-8"))
