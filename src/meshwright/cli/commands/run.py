"""`meshwright run train --model MODEL --layout ...`."""

from __future__ import annotations

from typing import Final

import click

from meshwright.cli.verbs import Verbs

_RUNS: Final = {
    "train": ("run_train", "Train on real processes under a layout: loss, tokens a second, MFU."),
}


@click.group("run", cls=Verbs, verbs=_RUNS)
def command() -> None:
    """Run a layout on real processes (extra torch)."""
