"""`meshwright collective check FILE --on SYSTEM ...`, and what else is asked of one exchange."""

from __future__ import annotations

from typing import Final

import click

from meshwright.cli.verbs import Verbs

_QUESTIONS: Final = {
    "check": ("collective_check", "Whether what nccl-tests printed is normal for a box, and if not, why."),
}


@click.group("collective", cls=Verbs, verbs=_QUESTIONS)
def command() -> None:
    """Exchanges between ranks."""
