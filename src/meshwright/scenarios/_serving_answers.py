"""What every serving plan says beside its candidates: inputs, sensitivity, warnings, sources, what is left out.

The nouns, and what was made of them, go in; fields of a `Result` come out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from meshwright.base.errors import CollectiveError
from meshwright.base.parse import get_path, put_path
from meshwright.base.result import Candidate, Lever, Source
from meshwright.base.traced import held
from meshwright.base.units import show_bytes, show_seconds
from meshwright.cost.collectives import AUTO
from meshwright.cost.estimate import compute_formats
from meshwright.job.expert_load import RoutedReads, checked_reads, no_experts
from meshwright.job.routing import checked_reads_of
from meshwright.job.serve import ServeJob
from meshwright.layout.context import by_weights, has_context, weight_ranks
from meshwright.layout.layout import CONTEXT_PARALLEL, Layout
from meshwright.layout.layouts import Layouts, table
from meshwright.layout.placement import group_nodes, instance_size
from meshwright.layout.rules import Broken
from meshwright.model.model import Model
from meshwright.scenarios._engine import PLAN_LEFT_OUT
from meshwright.scenarios._experts_options import expert_layers
from meshwright.scenarios._serving_context import context_left_out
from meshwright.scenarios._serving_table import OUT_OF_POWER, ServeOptions
from meshwright.scenarios._shared import (
    block_warning,
    form_notes,
    has_experts,
    position_warning,
    rate_notes,
    rule_error,
    shared_left_out,
    sources_of,
    stated_model,
    stated_system,
)
from meshwright.search.sensitivity import levers
from meshwright.system.calibrations import calibrations, measured_time
from meshwright.system.system import System
from meshwright.workload.messages import NOT_MODELLED as MESSAGES_LEFT_OUT
from meshwright.workload.operators import NOT_MODELLED as OPERATORS_LEFT_OUT
from meshwright.workload.operators import operators
from meshwright.workload.row_formats import row_format

ENUMERATED: Final = (
    "layouts that were not enumerated: only replicas x tp x pp (ep over tp ranks, cp as --cp says) on whole boxes"
)
LEFT_OUT: Final = (
    *OPERATORS_LEFT_OUT,
    *MESSAGES_LEFT_OUT,
    PLAN_LEFT_OUT,
    "topology inside a box: a device reaches any peer at the full one-way rate of its links",
    "launch times, imperfect overlap and contention: operators run at datasheet rates, which bounds them from below",
    "what software adds to an exchange: by formula it is wires alone, a bound; libraries take a multiple at a few KiB",
    ENUMERATED,
)
SKEW_LEFT_OUT: Final = "skewed routing, unless --expert-reads gives it: rows choose experts uniformly and independently"
ROUTED_LEFT_OUT: Final = (
    "routing: how a row's choices depend on each other, and rows on rows; layers count at the mean of their loads"
)
BUSIEST_LEFT_OUT: Final = (
    "the busiest group of ep beyond a lower bound: what one row's busiest group has, and others are expected to add"
)
COPIES_ENUMERATED: Final = (
    "layouts that were not enumerated: only replicas x dp_replicate x tp x pp (x ep over the ranks of a stage) on"
    " whole boxes"
)
COPIES_LEFT_OUT: Final = (
    "prompts on several copies of attention at once: a replica runs one prompt at a time, on one of its copies",
    "sorting rows by expert, restoring their order and the weighted sum of combine: bytes are counted, not their time",
    "dispatch and combine beside other work: a layer waits for both",
    "a pool of experts on ranks of its own: `experts --attention pool` has its exchanges",
)
_OF_EXPERTS: Final = ("expert_reads", "attention", "dedup", "dispatch", "combine")
"""Options that ask about experts alone."""
STAGED_LEFT_OUT: Final = "contention for host memory: devices of a box have no peer-to-peer path and stage through it"


def left_out(
    model: Model,
    system: System,
    options: ServeOptions,
    own: Sequence[str],
    layouts: Layouts,
) -> tuple[str, ...]:
    """What no serving plan models, what this one does not (`own`), and what a mixture adds, or cp."""
    given = isinstance(options.expert_reads, (tuple, RoutedReads))
    experts = (ROUTED_LEFT_OUT if given else SKEW_LEFT_OUT, BUSIEST_LEFT_OUT) if has_experts(model) else ()
    copies = COPIES_LEFT_OUT if int(layouts.degree("dp_replicate").max(initial=1)) > 1 else ()
    told = tuple(COPIES_ENUMERATED if copies and text == ENUMERATED else text for text in LEFT_OUT)
    context = context_left_out(model) if has_context(layouts) else ()
    staged = () if system.peer_to_peer else (STAGED_LEFT_OUT,)
    return (*told, *own, *experts, *copies, *context, *staged, *shared_left_out(model))


def checked_experts(model: Model, options: ServeOptions) -> ServeOptions:
    """The options with a routing that can be that of this model's layers. Raises JOB007, JOB123, MOD020 (formats)."""
    plain = ServeOptions()
    layers = {layer: item for layer, (_, item) in expert_layers(model).items()}
    if not layers:
        asked = [name for name in _OF_EXPERTS if getattr(options, name) != getattr(plain, name)]
        if asked:
            raise no_experts(model.name, f"leave --{asked[0].replace('_', '-')} out")
        return options
    for name in (options.dispatch, options.combine):
        row_format(model, name)
    for layer in layers.values():
        checked_reads(options.expert_reads, layer.experts, layer.top_k)
    if not isinstance(options.expert_reads, RoutedReads):
        return options
    sizes = {layer: (int(held(item.experts)), int(held(item.top_k))) for layer, item in layers.items()}
    return replace(options, expert_reads=checked_reads_of(options.expert_reads, sizes, "--expert-reads"))


def refuse_if_none_is_valid(layouts: Layouts, broken: Sequence[Broken | None], valid: Any) -> None:
    """Raise the rule that the layouts the user asked for break, when none is left: that of the smallest instance."""
    if valid.any():
        return
    row = int(np.argmin(instance_size(layouts)))
    found = broken[row]
    if found is None:
        ranks = by_weights(layouts).degree("tp")[row]
        raise CollectiveError(2, f"the chosen all_reduce does not take {ranks} ranks", "--all-reduce auto")
    if found.code != OUT_OF_POWER:  # that is an answer, "no", not a fault of the question
        raise rule_error(found)


def common_fields(model: Model, system: System, job: ServeJob, options: ServeOptions) -> dict[str, Any]:
    """The fields of a `Result` that follow from the inputs alone."""
    return {
        "command": "plan serve",
        "inputs": {
            "model": stated_model(model),
            "system": stated_system(system),
            "job": job,
            "layout": options.layout,
            "options": {item.name: getattr(options, item.name) for item in fields(options) if item.name != "layout"},
        },
        "defaulted": model.defaulted,
        "notes": (*model.notes, *form_notes(model, options.attention_form), *rate_notes(model, system)),
    }


def warnings_of(  # noqa: PLR0917 - the nouns and what was made of them
    model: Model,
    system: System,
    job: ServeJob,
    options: ServeOptions,
    best: Candidate | None,
    found: Sequence[Candidate],
) -> tuple[str, ...]:
    """Positions beyond the config, blocks that the choice cuts, and what measured exchanges say of computed ones."""
    own = position_warning(model, job.last_position)
    own += () if best is None else block_warning(model, Layout(**best.layout))
    bases = {
        group["basis"] for item in found for group in item.measures["groups"] if group["operation"] == "all_reduce"
    }
    if {"formula", "measured"} <= bases:
        text = "only some groups have an archived all_reduce: measured times rank beside lower bounds by formula"
        own += (f"{text}, which favours the layouts without an archive",)
    if best is not None and options.all_reduce == AUTO:
        own += _measured_beside(system, best)
    return own


def _measured_beside(system: System, best: Candidate) -> tuple[str, ...]:
    """What an archive of the platform says of the choice's all_reduce, where it is computed and faster."""
    layout = Layout(**best.layout)
    nodes = int(group_nodes(by_weights(table([layout])), "tp", system.devices_per_node)[0])
    ranks = weight_ranks(layout)
    for group in best.measures["groups"]:
        if group["operation"] == "all_reduce" and group["axis"] == "tp" and group["basis"] == "formula":
            archived = measured_time("all_reduce", system, nodes, ranks, int(group["message_bytes"]))
            if archived is not None and archived.time > group["time_s"]:
                bound, taken = show_seconds(group["time_s"]), show_seconds(archived.time)
                what = f"an all_reduce over {ranks} ranks is {bound} by formula, a bound from wires"
                measured = f"{taken} were measured on {archived.platform} at {show_bytes(archived.size)}"
                return (f"{what}; {measured}: --all-reduce measured may choose another layout",)
    return ()


def hardware_levers(
    model: Model, system: System, seconds_on: Callable[[System], float], now_s: float
) -> tuple[Lever, ...]:
    """What doubling or halving each hardware parameter saves of a time. seconds_on: that time on a changed system."""
    wanted = {compute_formats(model, operator) for operator in operators(model)}
    rates = sorted({system.accelerator.peak_for(formats)[0] for formats in wanted})
    return levers_of(system, rates, seconds_on, now_s)


def levers_of(
    system: System, rates: Sequence[str], seconds_on: Callable[[System], float], now_s: float
) -> tuple[Lever, ...]:
    """As `hardware_levers`. rates: the formats in which is computed."""
    units = {"memory_bandwidth": "B/s", "bandwidth": "B/s", "latency": "s", **dict.fromkeys(rates, "FLOP/s")}
    paths = ["accelerator.memory_bandwidth", *(f"accelerator.peak.{rate}" for rate in rates)]
    paths += [f"{link}.{name}" for link in ("scale_up", "scale_out") for name in ("bandwidth", "latency")]
    present = [path for path in paths if not (path.startswith("scale_out") and system.scale_out is None)]
    parameters: list[tuple[str, Any, str]] = [
        (f"system.{path}", get_path(system, path), units[path.rsplit(".", 1)[-1]]) for path in present
    ]

    def seconds_with(path: str, value: float) -> float:
        return seconds_on(put_path(system, path.removeprefix("system."), value))

    return levers(parameters, seconds_with, now_s)


def sources_used(model: Model, system: System, found: Sequence[Candidate]) -> tuple[Source, ...]:
    """Of the model and system, and of every archived time that a candidate took."""
    used = {group["platform"] for item in found for group in item.measures["groups"]} - {None}
    archived = [
        source
        for calibration in calibrations()
        for table in calibration.table
        for source in calibration.sources
        if table.platform in used and table.source == source.key
    ]
    return tuple(dict.fromkeys([*sources_of(model, system), *archived]))


def degrees_of(best: Candidate) -> str:
    """The options of `fit` that name a candidate's replica."""
    found = " ".join(f"--{axis} {best.layout[axis]}" for axis in ("tp", "pp", "ep"))
    found += f" --cp {best.layout['cp']}" if best.layout["cp"] > 1 else ""
    stated: tuple[str, ...] = ("dp_replicate", "etp", "attention") if best.layout["dp_replicate"] > 1 else ()
    stated = ("attention",) if best.layout["attention"] == CONTEXT_PARALLEL else stated
    return found + (" --layout " + ",".join(f"{name}={best.layout[name]}" for name in stated) if stated else "")
