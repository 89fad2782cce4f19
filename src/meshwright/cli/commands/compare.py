"""`meshwright compare A B`."""

from __future__ import annotations

from pathlib import Path

import click

from meshwright.cli.options import Output, output_options
from meshwright.cli.show import show
from meshwright.scenarios.compare import compare, read_answer


@click.command("compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@output_options
def command(a: str, b: str, output: Output) -> int:
    """What changed from answer A to answer B, two files of one command saved with --format json.

    Exit 0 when the verdict and the best candidate are the same in both, 1 when either differs.
    """
    return show(compare(read_answer(Path(a)), read_answer(Path(b))), output)
