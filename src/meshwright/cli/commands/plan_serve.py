"""`meshwright plan serve MODEL --on SYSTEM ...`: sessions, a system and limits become a table of layouts."""

from __future__ import annotations

from typing import Any, Final, get_args

import click

from meshwright.base.parse import build
from meshwright.cli.nouns import fixed_of, model_of, retyped, system_of
from meshwright.cli.options import (
    ModelChoice,
    Output,
    changed,
    context_options,
    engine_options,
    form_option,
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
from meshwright.job.faults import read_fault
from meshwright.job.routing import read_expert_reads
from meshwright.job.serve import ServeJob, read_deadline
from meshwright.scenarios._serving_table import Attention
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.workload.expert_batches import Dedup
from meshwright.workload.row_formats import ROW_FORMATS

_JOB: Final = ("sessions", "context", "new_tokens", "on_time", "discipline", "ttft", "tpot", "concurrency")

_FORMATS: Final = click.Choice(ROW_FORMATS)
_READS: Final = "expected, full, a number, or a routing: uniform, even, zipf:S, counts:8x64, a file."


@click.command("serve")
@model_options
@system_options
@click.option("--sessions", type=int, required=True, help="Sessions that arrive together.")
@click.option("--context", required=True, help="Tokens cached per session before the first step, as in 32K.")
@click.option("--new-tokens", required=True, help="Tokens each session generates.")
@click.option("--deadline", default=None, help="To a session's last token, as in 130ms; A..B for a curve.")
@click.option("--on-time", default="100%", show_default=True, help="Share of sessions that must meet the deadline.")
@click.option("--ttft", default=None, help="Most time to a session's first token, as in 2s.")
@click.option("--tpot", default=None, help="Most time between two tokens of a session, as in 30ms.")
@click.option("--concurrency", type=int, default=None, help="Sessions in flight [as many as memory and --tpot let in].")
@click.option(
    "--discipline",
    type=click.Choice(["fifo", "continuous"]),
    default=None,
    help="One at a time, or batched [continuous with --ttft, --tpot or --concurrency, else fifo].",
)
@click.option("--prefill", type=click.Choice(["cached", "between-steps"]), default="cached", show_default=True)
@click.option(
    "--attention",
    type=click.Choice(get_args(Attention)),
    default="replicated",
    show_default=True,
    help="Copies with sessions of their own that share the experts: data_parallel, or any number.",
)
@click.option("--expert-reads", default="expected", show_default=True, help=_READS)
@click.option(
    "--dedup", type=click.Choice(get_args(Dedup)), default="rank", show_default=True, help="One row a token to each."
)
@click.option("--dispatch", type=_FORMATS, default="plain", show_default=True, help="Format of rows sent to experts.")
@click.option("--combine", type=_FORMATS, default="plain", show_default=True, help="Format of the rows returned.")
@form_option
@click.option("--all-reduce", default="auto", show_default=True, help="auto, measured, or an algorithm by name.")
@click.option("--all-reduce-time", default=None, help="Seconds of one all_reduce in every group, as in 12us.")
@click.option("--weight-reads", type=click.Choice(["strict", "even"]), default="strict", show_default=True)
@workspace_option
@click.option(
    "--objective",
    type=click.Choice(["cost", "latency", "throughput"]),
    default=None,
    help="[latency under fifo without a deadline, else cost]",
)
@click.option("--power-budget", default=None, help="Of all boxes together, as in 30kW: whole boxes beyond it are off.")
@click.option("--power-base", default="0W", show_default=True, help="What draws beside the boxes.")
@click.option(
    "--fault",
    default=None,
    metavar="PART=N,at=T,stall=T[,reconnect=T]",
    help="A part stops: card, node, or a domain.",
)
@click.option("--cp", default="1", show_default=True, metavar="N,...", help="Degrees of context parallelism to try.")
@context_options
@engine_options("Whose rules the layouts keep, and whose pool memory, as in vllm [those of all engines].")
@click.option("--flips", type=click.Choice(["search", "none"]), default="search", show_default=True)
@click.option("--basis", type=click.Choice(["datasheet"]), default="datasheet", show_default=True)
@layout_option
@set_option
@output_options
def command(
    model: ModelChoice, system: str, settings: tuple[str, ...], output: Output, layout: str, **given: Any
) -> int:
    """Which layout serves these sessions in time at least cost, and what each other layout would do."""
    changes = split_settings(settings, ("model", "system", "job", "layout"))
    deadline, fault = read_deadline(given.pop("deadline")), given.pop("fault")
    job = build(ServeJob, {**{name: given.pop(name) for name in _JOB}, **deadline}, "job")
    stops = None if fault is None else read_fault(fault)
    given |= {name: given[name].replace("-", "_") for name in ("prefill", "attention_form", "cp_exchange")}
    given |= {"cp": [part.strip() for part in given["cp"].split(",")]}
    given |= {"expert_reads": read_expert_reads(given["expert_reads"])}
    given |= {"fault": stops, "layout": fixed_of(layout, changes["layout"])}
    options = build(ServeOptions, with_engine(dict(given)), "plan serve")
    read, on = model_of(model, changes["model"]), system_of(system, changes["system"])
    result = plan_serve(read, on, changed(job, changes["job"]), options)
    return show(retyped(result, model, system, settings, given), output)
