"""`meshwright plan train MODEL --on SYSTEM,... ...`: tokens and systems become layouts with a finish date each."""

from __future__ import annotations

from typing import Any, Final

import click

from meshwright.base.parse import build
from meshwright.cli.nouns import fixed_of, model_of, retyped, systems_of, typed_options
from meshwright.cli.options import (
    ModelChoice,
    Output,
    changed,
    context_options,
    layout_option,
    model_options,
    output_options,
    set_option,
    split_settings,
    system_options,
)
from meshwright.cli.progress import progress
from meshwright.cli.show import show
from meshwright.job.recipe import read_recipe
from meshwright.job.routing import read_token_routing
from meshwright.job.train import TrainJob
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.training import plan_train
from meshwright.scenarios.training_systems import plan_train_systems

_NOT_RETYPED: Final = ("name", "system", "layout", "weights", "kv", "style", "file")
"""Words that a next command has in its own way."""
_ROUTING: Final = "How tokens choose experts: even, uniform, zipf:S, counts:8x64, or a recorded file."
_TRAIN_JOB: Final = ("tokens", "sequence", "global_batch", "deadline", "reserve", "noise_scale", "padding")


@click.command("train")
@model_options
@system_options
@click.option("--tokens", required=True, help="Useful tokens to train on, as in 100B.")
@click.option("--sequence", required=True, help="Tokens of one sequence, as in 8K.")
@click.option("--global-batch", type=int, required=True, help="Sequences of one step, over all devices.")
@click.option("--deadline", default=None, help="To the last step, as in 30d.")
@click.option("--reserve", default="0s", show_default=True, help="Planned stops within the deadline, as in 5d.")
@click.option("--recipe", default="bf16-adamw", show_default=True, help="Formats and optimizer, by name.")
@click.option("--efficiency", default=None, help="Share of the peak, as in 40% [a roofline at datasheet rates].")
@click.option(
    "--efficiency-kind",
    type=click.Choice(["model-flops", "compute"]),
    default="model-flops",
    show_default=True,
    help="Whether recompute and the update are inside the efficiency.",
)
@click.option("--input-wait", default=None, help="Of every step, as in 0.5s.")
@click.option("--prep-workers", type=int, default=None, help="Processes that prepare sequences.")
@click.option("--prep-rate", type=float, default=None, help="Sequences a second of one of them.")
@click.option("--activation-budget", default=None, help="In place of computed activations, gathers and workspace.")
@click.option("--usable-memory", default=None, help="Of a device, as in 22GiB [its capacity].")
@click.option("--workspace", default="2GiB", show_default=True, help="Kept free on every device (assumed).")
@click.option("--kernel", type=click.Choice(["flash", "materialised"]), default="flash", show_default=True)
@click.option("--loss", type=click.Choice(["materialised", "fused"]), default="materialised", show_default=True)
@click.option(
    "--elementwise",
    type=click.Choice(["eager", "fused"]),
    default="eager",
    show_default=True,
    help="Whether a norm and a gated unit are one kernel each, which keep less.",
)
@click.option(
    "--shards",
    type=click.Choice(["even", "strict"]),
    default="even",
    show_default=True,
    help="How zero cuts: a flat buffer, or every tensor in chunks.",
)
@click.option("--prefetch", type=click.Choice(["on", "off"]), default="on", show_default=True)
@click.option("--nic", type=click.Choice(["own", "shared"]), default="own", show_default=True)
@context_options
@click.option("--routing", default="even", show_default=True, help=_ROUTING)
@click.option("--capacity-factor", type=float, default=None, help="Rows of an expert at most, over the mean [any].")
@click.option("--card-mtbf", default=None, help="Mean time between failures of one device, as in 337.07d.")
@click.option("--job-mtbf", default=None, help="Mean time between failures of all devices, as in 7.9h.")
@click.option("--common-mode-mtbf", default=None, metavar="T,...", help="Beside --card-mtbf: what stops all of them.")
@click.option("--checkpoint-interval", default="1800s", show_default=True, help="Useful time between saves.")
@click.option("--storage-write", default=None, help="Rate of a save, as in 7GB/s.")
@click.option("--checkpoint-copy", default=None, help="Of a save that is written beside training [training stands].")
@click.option("--restart", default="120s", show_default=True, help="From a failure to the first step.")
@click.option("--straggler-sigma", default="0%", show_default=True, help="Spread of a device's compute time.")
@click.option("--slow-sigmas", type=float, default=3.0, show_default=True, help="Of one slow device, above the mean.")
@click.option("--slow-steps", type=int, default=1, show_default=True, help="For which it stays slow.")
@click.option("--spike-interval", default=None, help="Between loss spikes, as in 7d.")
@click.option("--noise-scale", default=None, help="Gradient noise scale in tokens, as in 2M.")
@click.option("--padding", default="0%", show_default=True, help="Share of positions that are no tokens of the data.")
@click.option("--price", type=float, default=None, help="Of a device for an hour [the system's].")
@click.option("--host-memory", default=None, help="Of a box, as in 1TiB [the system's].")
@click.option("--host-bandwidth", default=None, help="Of a box's host memory, as in 307.2GB/s [the system's].")
@click.option("--host-link", default=None, help="Of a device to its host, one way, as in 32GB/s [the system's].")
@click.option("--runs", type=int, default=1000, show_default=True, help="Of the whole run, drawn; 0 for none.")
@click.option("--objective", type=click.Choice(["date", "cost", "gpu-hours"]), default="date", show_default=True)
@click.option("--keep", type=int, default=20, show_default=True, help="Candidates shown.")
@click.option("--finalists", type=int, default=3, show_default=True, help="First candidates, simulated; 0 for none.")
@click.option("--engine", default=None, help="Whose rules the layouts keep, as in megatron-core [those of all].")
@click.option("--flips", type=click.Choice(["search", "none"]), default="search", show_default=True)
@click.option("--basis", type=click.Choice(["datasheet"]), default="datasheet", show_default=True)
@layout_option
@set_option
@output_options
def command(
    model: ModelChoice, system: str, settings: tuple[str, ...], output: Output, layout: str, **given: Any
) -> int:
    """Which layout trains on these tokens soonest, whether it fits, and when it ends."""
    changes = split_settings(settings, ("model", "system", "job", "layout"))
    recipe = read_recipe(given.pop("recipe"))
    job = build(TrainJob, {**{name: given.pop(name) for name in _TRAIN_JOB}, "recipe": recipe}, "job")
    common = given.pop("common_mode_mtbf")
    given |= {
        "common_mode_mtbf": [] if common is None else [part.strip() for part in common.split(",")],
        "seed": output.seed,
        "efficiency_kind": given["efficiency_kind"].replace("-", "_"),
        "objective": given["objective"].replace("-", "_"),
        "cp_exchange": given["cp_exchange"].replace("-", "_"),
        "routing": read_token_routing(given["routing"]),
        "layout": fixed_of(layout, changes["layout"]),
    }
    options = build(TrainOptions, given, "plan train")
    read, on = model_of(model, changes["model"]), systems_of(system, changes["system"])
    job = changed(job, changes["job"])
    with progress(output, "layouts") as told:
        one = len(on) == 1
        result = (
            plan_train(read, on[0], job, options, told) if one else plan_train_systems(read, on, job, options, told)
        )
    typed = typed_options(click.get_current_context(), settings, _NOT_RETYPED)
    return show(retyped(result, model, system, settings, {}, typed), output)
