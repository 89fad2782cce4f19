"""`meshwright verify run --model MODEL --layout k=v,... ...`: what was predicted beside what was measured."""

from __future__ import annotations

from typing import Final

import click

from meshwright.cli.verbs import Verbs

_WHAT: Final = {
    "run": ("verify_run", "A layout run for real on this machine: its bytes, messages and FLOPs, as predicted or not."),
}


@click.group("verify", cls=Verbs, verbs=_WHAT)
def command() -> None:
    """What was predicted beside what was measured."""
