"""`meshwright plan serve MODEL --on SYSTEM ...`."""

from __future__ import annotations

from typing import Any, Final

import click

from meshwright.base.parse import build
from meshwright.cli.nouns import fixed_of, model_of, retyped, system_of
from meshwright.cli.options import (
    ModelChoice,
    Output,
    changed,
    layout_option,
    model_options,
    output_options,
    set_option,
    split_settings,
    system_options,
    workspace_option,
)
from meshwright.cli.show import show
from meshwright.job.serve import ServeJob
from meshwright.scenarios.serving import ServeOptions, plan_serve

_JOB: Final = ("sessions", "context", "new_tokens", "deadline", "on_time", "discipline")


@click.group("plan")
def command() -> None:
    """Which layout to run."""


@command.command("serve")
@model_options
@system_options
@click.option("--sessions", type=int, required=True, help="Sessions that arrive together.")
@click.option("--context", required=True, help="Tokens cached per session before the first step, as in 32K.")
@click.option("--new-tokens", required=True, help="Tokens each session generates.")
@click.option("--deadline", default=None, help="From arrival to a session's last token, as in 130ms.")
@click.option("--on-time", default="100%", show_default=True, help="Share of sessions that must meet the deadline.")
@click.option("--discipline", type=click.Choice(["fifo"]), default="fifo", show_default=True)
@click.option("--all-reduce", default="auto", show_default=True, help="auto, measured, or an algorithm by name.")
@click.option("--weight-reads", type=click.Choice(["strict", "even"]), default="strict", show_default=True)
@workspace_option
@click.option("--objective", type=click.Choice(["cost", "latency"]), default=None, help="[cost with a deadline]")
@click.option("--basis", type=click.Choice(["datasheet"]), default="datasheet", show_default=True)
@layout_option
@set_option
@output_options
def serve(model: ModelChoice, system: str, settings: tuple[str, ...], output: Output, layout: str, **given: Any) -> int:
    """Which layout serves these sessions in time at least cost, and what each other layout would do."""
    changes = split_settings(settings, ("model", "system", "job", "layout"))
    job = build(ServeJob, {name: given.pop(name) for name in _JOB}, "job")
    options = build(ServeOptions, {**given, "layout": fixed_of(layout, changes["layout"])}, "plan serve")
    read, on = model_of(model, changes["model"]), system_of(system, changes["system"])
    result = plan_serve(read, on, changed(job, changes["job"]), options)
    return show(retyped(result, model, system, settings, given["workspace"]), output)
