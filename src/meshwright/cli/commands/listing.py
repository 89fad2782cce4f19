"""`meshwright list KIND`."""

from __future__ import annotations

import click

from meshwright.cli.options import Output, output_options
from meshwright.cli.show import show
from meshwright.scenarios.catalog import KINDS, catalog


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@output_options
def command(kind: str, output: Output) -> int:
    """What the catalog knows of a kind, each entry with where it was read."""
    return show(catalog(kind), output)
