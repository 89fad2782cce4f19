"""`meshwright verify parity --model MODEL [--layout ...]` and `meshwright verify run --model MODEL --layout ...`."""

from __future__ import annotations

from typing import Final

import click

from meshwright.cli.verbs import Verbs

_WHAT: Final = {
    "parity": ("verify_parity", "Whether a layout trains, weight by weight, as one process does."),
    "run": ("verify_run", "A layout run for real on this machine: its bytes, messages and FLOPs, as predicted or not."),
}


@click.group("verify", cls=Verbs, verbs=_WHAT)
def command() -> None:
    """What was predicted, or one process found, beside what was measured (extra torch)."""
