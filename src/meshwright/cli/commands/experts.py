"""`meshwright experts MODEL --on SYSTEM --tokens N --routing R --ep N [--replicas N --capacity-factor C]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from meshwright.base.parse import build
from meshwright.cli.nouns import model_of, retyped, system_of
from meshwright.cli.options import (
    ModelChoice,
    Output,
    model_options,
    output_options,
    set_option,
    split_settings,
    system_options,
)
from meshwright.cli.show import check_files, show, write_file
from meshwright.scenarios._experts_options import Attention, ExpertsOptions
from meshwright.scenarios.experts import experts
from meshwright.search.assign import METHODS
from meshwright.workload.expert_batches import Dedup
from meshwright.workload.row_formats import ROW_FORMATS

_ROUTING = "uniform, even, zipf:S, counts:8x64, or a file: a recorded trace or counts."
_FORMATS = click.Choice(ROW_FORMATS)


@click.command("experts")
@model_options
@system_options
@click.option("--tokens", required=True, metavar="N", help="Of the batch, over all ranks, as in 64 or 8192.")
@click.option("--routing", default="uniform", show_default=True, help=_ROUTING)
@click.option("--ep", type=int, default=1, show_default=True, help="Groups that the experts are laid over.")
@click.option("--etp", type=int, default=1, show_default=True, help="Ranks that cut each expert.")
@click.option("--tp", type=int, default=None, help="Ranks that cut attention [etp where it is replicated, else 1].")
@click.option(
    "--attention",
    type=click.Choice(get_args(Attention)),
    default="data_parallel",
    show_default=True,
    help="Whose tokens.",
)
@click.option("--attention-ranks", type=int, default=None, help="Of attention, beside a pool of experts.")
@click.option(
    "--replicas", type=int, default=0, show_default=True, help="Copies of hot experts, in all groups together."
)
@click.option(
    "--placement", type=click.Choice(METHODS), default="greedy", show_default=True, help="Of experts on groups."
)
@click.option("--capacity-factor", type=float, default=None, help="Rows of an expert at most, over the mean [any].")
@click.option(
    "--dedup", type=click.Choice(get_args(Dedup)), default="rank", show_default=True, help="One row a token to each."
)
@click.option("--dispatch", type=_FORMATS, default="plain", show_default=True, help="Format of the rows sent.")
@click.option(
    "--combine", type=_FORMATS, default="plain", show_default=True, help="Format of the rows returned or summed."
)
@click.option("--svg", default=None, metavar="FILE", help="Write the rows of every expert and layer as a heat map.")
@set_option
@output_options
def command(
    model: ModelChoice,
    system: str,
    svg: str | None,
    settings: tuple[str, ...],
    output: Output,
    **given: Any,
) -> int:
    """Which experts a batch reads, who is busiest, where experts should lie, and what is sent and dropped."""
    check_files(svg, output.file)
    changes = split_settings(settings, ("model", "system"))
    read, on = model_of(model, changes["model"]), system_of(system, changes["system"])
    options = build(ExpertsOptions, {**given, "seed": output.seed}, "experts")
    result = retyped(experts(read, on, options), model, system, settings, {}, {"--routing": options.routing})
    if svg is not None:
        from meshwright.output.experts_svg import as_svg  # noqa: PLC0415 - a form is loaded when it is asked for

        write_file(Path(svg), as_svg(result).encode())
    return show(result, output)
