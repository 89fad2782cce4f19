"""A group of commands that are imported when they are named: a table of verb, module and one line goes in."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click


class Verbs(click.Group):
    """Commands by a table of verb: (module of `cli.commands`, its line), so that help imports none of them."""

    def __init__(self, *args: Any, verbs: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        """A click group over the table `verbs`."""
        super().__init__(*args, **kwargs)
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of their table."""
        _ = ctx
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb, or None."""
        _ = ctx
        if cmd_name not in self.verbs:
            return None
        module = import_module(f"meshwright.cli.commands.{self.verbs[cmd_name][0]}")
        return module.command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs with their one line, without importing them."""
        _ = ctx
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, text) in self.verbs.items()])
