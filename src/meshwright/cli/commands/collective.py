"""`meshwright collective time OP ...` and `meshwright collective check FILE ...`, imported when they are named."""

from __future__ import annotations

from typing import Final

import click

from meshwright.cli.verbs import Verbs

_QUESTIONS: Final = {
    "time": ("collective_time", "How long a collective takes by every algorithm, and where another is faster."),
    "check": ("collective_check", "Whether what nccl-tests printed is normal for a box, and if not, why."),
}


@click.group("collective", cls=Verbs, verbs=_QUESTIONS)
def command() -> None:
    """Exchanges between ranks."""
