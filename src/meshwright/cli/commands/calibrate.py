"""`meshwright calibrate local`."""

from __future__ import annotations

from typing import Final

import click

from meshwright.cli.verbs import Verbs

_OF: Final = {
    "local": ("calibrate_local", "Exchanges, rates, overlap and step overheads of this machine, with their spread."),
}


@click.group("calibrate", cls=Verbs, verbs=_OF)
def command() -> None:
    """What a machine does, measured."""
