"""`meshwright plan serve MODEL --on SYSTEM ...` and `meshwright plan train MODEL --on SYSTEM,... ...`."""

from __future__ import annotations

from typing import Final

import click

from meshwright.cli.verbs import Verbs

_JOBS: Final = {
    "serve": ("plan_serve", "Which layout serves these sessions in time at least cost."),
    "train": ("plan_train", "Which layout trains on these tokens soonest, whether it fits, and when it ends."),
}


@click.group("plan", cls=Verbs, verbs=_JOBS)
def command() -> None:
    """Which layout to run."""
