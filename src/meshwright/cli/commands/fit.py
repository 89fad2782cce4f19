"""`meshwright fit MODEL --on SYSTEM --tp N`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import click

from meshwright.base.parse import build
from meshwright.cli.nouns import fixed_of, model_of, system_of
from meshwright.cli.options import (
    ModelChoice,
    Output,
    engine_options,
    layout_option,
    model_options,
    output_options,
    set_option,
    split_settings,
    system_options,
    with_engine,
    workspace_option,
)
from meshwright.cli.show import show
from meshwright.scenarios.fit import FitOptions, fit, replica_layout


@click.command("fit")
@model_options
@system_options
@click.option("--tp", type=click.IntRange(min=1), default=1, show_default=True, help="Tensor parallel degree.")
@click.option("--pp", type=click.IntRange(min=1), default=1, show_default=True, help="Pipeline stages.")
@click.option("--ep", type=click.IntRange(min=1), default=1, show_default=True, help="Expert parallel degree over tp.")
@click.option("--cp", type=click.IntRange(min=1), default=1, show_default=True, help="Ranks that share a context.")
@click.option("--context", default="0", show_default=True, help="Positions cached per session, as in 32K.")
@click.option("--sessions", type=int, default=None, help="Sessions resident [1 with --context].")
@workspace_option
@engine_options("Whose rules and whose pool for KV are asked, as in vllm.")
@layout_option
@set_option
@output_options
def command(  # noqa: PLR0917 - options arrive by name
    model: ModelChoice,
    system: str,
    settings: tuple[str, ...],
    output: Output,
    tp: int,
    pp: int,
    ep: int,
    cp: int,
    layout: str,
    **given: Any,
) -> int:
    """Whether one replica fits, byte by byte on its fullest device, and how many sessions and tokens would."""
    changes = split_settings(settings, ("model", "system", "layout"))
    read = model_of(model, changes["model"])
    fixed = fixed_of(layout, changes["layout"])
    degrees: dict[str, Any] = {"tp": tp, "pp": pp, "ep": ep, "cp": cp, "attention": "replicated"} | fixed
    whole = replace(replica_layout(read, **{name: degrees[name] for name in _REPLICA}), **fixed)
    options = build(FitOptions, with_engine(given), "fit")
    return show(fit(read, system_of(system, changes["system"]), whole, options), output)


_REPLICA: Final = ("tp", "pp", "ep", "cp", "attention")
