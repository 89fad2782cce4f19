"""`meshwright fit MODEL --on SYSTEM --tp N`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import click

from meshwright.base.errors import FileError
from meshwright.base.parse import build
from meshwright.cli.nouns import fixed_of, model_of, system_of
from meshwright.cli.options import (
    COMPUTED,
    ModelChoice,
    Output,
    layout_option,
    model_options,
    output_options,
    reserve_rule,
    set_option,
    split_settings,
    system_options,
    workspace_fields,
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
@click.option("--engine", default=None, help="Whose rules and whose pool for KV are asked, as in vllm.")
@click.option("--gpu-memory-utilization", default=None, help="The engine's share of the device [its default].")
@click.option("--engine-reserve", default=None, help="What it keeps beside weights and KV [computed, assumed].")
@click.option("--block-size", type=int, default=None, help="Positions of the engine's KV block [its default].")
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
    options = build(FitOptions, _with_engine(given), "fit")
    return show(fit(read, system_of(system, changes["system"]), whole, options), output)


def _with_engine(given: dict[str, Any]) -> dict[str, Any]:
    """The options with the engine's under `engine`. Raises IO036 for one of them without --engine."""
    own = {field: given.pop(option) for option, field in _ENGINE.items()}
    if own["name"] is None:
        stated = [option for option, field in _ENGINE.items() if own[field] is not None]
        if stated:
            flag = f"--{stated[0].replace('_', '-')}"
            raise FileError(36, f"{flag} without --engine", "name the engine, as in --engine vllm")
        return workspace_fields(given)
    found, rule = reserve_rule(given)
    unused = own["reserve"] is not None or given["workspace"] == COMPUTED
    plain = workspace_fields(given) if unused else workspace_fields(found | {"max_batched_tokens": None, "reserve": ""})
    return plain | {"engine": own | {"rule": rule}}


_REPLICA: Final = ("tp", "pp", "ep", "cp", "attention")

_ENGINE: Final = {
    "engine": "name",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "engine_reserve": "reserve",
    "block_size": "block_size",
}
