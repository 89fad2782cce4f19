"""`meshwright inspect MODEL`."""

from __future__ import annotations

from typing import Any

import click

from meshwright.base.parse import build
from meshwright.cli.nouns import model_of
from meshwright.cli.options import (
    ModelChoice,
    Output,
    form_option,
    model_options,
    output_options,
    set_option,
    split_settings,
)
from meshwright.cli.show import show
from meshwright.scenarios.inspect import InspectOptions, inspect


@click.command("inspect")
@model_options
@click.option("--batch", type=int, default=1, show_default=True, help="Sessions decoded together.")
@click.option("--context", default="0", show_default=True, help="Positions cached per session, as in 32K.")
@click.option("--sequence", default="0", show_default=True, help="Training sequence, as in 8K: its FLOPs a token.")
@form_option
@set_option
@output_options
def command(model: ModelChoice, settings: tuple[str, ...], output: Output, **given: Any) -> int:
    """What a model is: parameters by part, bytes by format, cached state and work per token."""
    changes = split_settings(settings, ("model",))
    given["attention_form"] = given["attention_form"].replace("-", "_")
    options = build(InspectOptions, given, "inspect")
    return show(inspect(model_of(model, changes["model"]), options), output)
