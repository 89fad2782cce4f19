"""What do the experts of a model do with a batch? A model, a system, a routing and degrees go in; a Result comes out.

Loads, experts read, the placement and its bound, what dispatch and combine send, drops, padding and times, layer by
layer. Combine is return, reorder and weighted sum; only where every group has all tokens are its sums an all_reduce.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import JobError, LayoutError
from meshwright.base.result import Basis, Result, Verdict
from meshwright.base.traced import held
from meshwright.base.units import show_bytes, show_seconds
from meshwright.cost.experts import wires
from meshwright.job.expert_load import no_experts
from meshwright.job.routing import Routing, checked_routing, read_routing
from meshwright.layout.layouts import table
from meshwright.layout.rules import keeps_all
from meshwright.scenarios._experts_options import (
    DRAWN_AT_MOST,
    ExpertsOptions,
    checked_options,
    expert_layers,
    layout_of,
)
from meshwright.scenarios._experts_rows import WAYS, Layer, LayerRow, Setting, layer_of, merges_of
from meshwright.scenarios._shared import sources_of, stated_model, stated_system
from meshwright.scenarios._topology_links import link_name
from meshwright.scenarios.fit import check_layout
from meshwright.system.fabric import system_fabric
from meshwright.workload.routing import is_drawn, record_bytes
from meshwright.workload.row_formats import row_format_bytes

if TYPE_CHECKING:
    from meshwright.layout.layout import Layout
    from meshwright.model.feed_forwards import Experts
    from meshwright.model.model import Model
    from meshwright.system.graph import Fabric
    from meshwright.system.system import System

_AXES: Final = {**dict.fromkeys(("LAY003", "LAY004", "LAY005"), "tp"), "LAY006": "etp"}
"""Of a rule, the degree to change."""
_NOT_MODELLED: Final = (
    "routers, shared experts, attention's own products and norms: only what chosen rows go through",
    "queues and start-up of kernels: an exchange lasts as long as its busiest link, experts run at their roofline",
    "sorting rows by expert, restoring their order and the weighted sum of combine: bytes are counted, not their time",
    "another batch than this one: experts are placed for the rows that they then run",
)
_BASIS: Final = {
    "layers[].expected_distinct_experts": "formula: equation 6-8; of other routings its sum over unequal probabilities",
    "layers[].bound_rows": "formula: no placement with as many slots on every group has less; under `exact` of HiGHS",
    "layers[].experts_s": "datasheet: a roofline a product, a lower bound",
    "layers[].dispatch_s": "datasheet: the busiest link and the longest path's latency, a lower bound",
    "layers[].combine_s": "datasheet: as dispatch, the other way; of replicated attention the fastest all_reduce",
    "exchange[]": "formula: rows counted, times the bytes of one; sums over layers",
    "inputs.options": f"{Basis.ASSUMED.value}: as asked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRow:
    """Dispatch and combine of all layers, one way to send. between_bytes: of dispatch, from box to box.

    most_sent_bytes: what the rank that sends most dispatches.   busiest_link: of dispatch in the layer where it takes
    longest; null where nothing is sent.
    """

    id: str
    dispatch_rows: int
    dispatch_bytes: Any
    combine_bytes: Any
    between_bytes: Any
    most_sent_bytes: Any
    dispatch_s: float
    combine_s: float
    busiest_link: str | None


def experts(model: Model, system: System, options: ExpertsOptions) -> Result:
    """The layers with experts under one batch.

    Raises JOB007 (a model without experts, counts), JOB120 and the codes of its file (a routing), JOB123 and JOB128 (a
    trace of another model, of fewer tokens), JOB124 and JOB125 (sizes), LAY002.. (rules), LAY040 to LAY043 (placement,
    ranks), MOD020 (a format of rows), SYS020.. (the network).
    """
    return answer_on(model, system, options, system)


def answer_on(model: Model, system: System, options: ExpertsOptions, network: System) -> Result:
    """As `experts`. network: the system again, without traces where numbers of the first are traced."""
    options = checked_options(options)
    layers = expert_layers(model)
    if not layers:
        raise no_experts(model.name, "name a mixture of experts, as Qwen/Qwen3-30B-A3B")
    if len({mixture for _, mixture in layers.values()}) > 1:
        cause = f"{model.name} has mixtures of several kinds, and one answer has one number of experts and choices"
        raise JobError(140, cause, "give a model whose mixtures are alike")
    sizes = {layer: (int(held(item.experts)), int(held(item.top_k))) for layer, (_, item) in layers.items()}
    routing = checked_routing(read_routing(options.routing), sizes)
    layout = layout_of(options)
    fabric = _fabric(network, options)
    _check(model, system, layout, options)
    chosen = _layers(routing, options, layers)
    ranks = _ranks(options)
    setting = Setting(
        model=model,
        system=system,
        routing=routing,
        layout=layout,
        options=options,
        wired=None if fabric is None else wires(fabric, ranks),
        merges=merges_of(model, system, layout, options),
    )
    found = _found(setting, layers, chosen)
    rows = [item.row for item in found]
    return Result(
        command="experts",
        verdict=_verdict(model, rows, options),
        inputs={
            "model": stated_model(model),
            "system": stated_system(system),
            "job": _stated(routing),
            "layout": layout,
            "options": replace(options, routing=Path(options.routing).name if routing.digest else options.routing),
        },
        defaulted=model.defaulted,
        warnings=_warnings(routing, options, layers, chosen, rows),
        not_modelled=_left_out(routing, options),
        sources=sources_of(model, system),
        basis=_BASIS | _basis(routing, options, sizes[chosen[0]][1]),
        body={
            **_totals(model, options, layers[chosen[0]][1], rows),
            "exchange": _exchanges(setting, layers[chosen[0]][1], found, fabric),
            "merges": setting.merges,
            "merge_bytes": sum(item.sent_bytes for item in setting.merges),
            "all_merge_bytes": sum(item.sent_bytes for item in setting.merges) * ranks,
            "layers": tuple(rows),
        },
        next_commands=_next(options, rows),
    )


def _check(model: Model, system: System, layout: Layout, options: ExpertsOptions) -> None:
    """Raises LAY003.. for a layout that no ranks can hold; the fix is the nearest degree that this question takes."""
    try:
        check_layout(model, system, layout)
    except LayoutError as problem:
        first = _AXES.get(problem.code, "ep")
        for axis in (first, *(name for name in ("ep", "etp", "tp") if name != first)):
            nearest = _nearest(model, system, options, axis)
            if nearest is not None:
                raise LayoutError(int(problem.code[3:]), problem.cause, f"--{axis} {nearest}") from problem
        fix = "no one of --ep, --etp and --tp mends it: change several"
        raise LayoutError(int(problem.code[3:]), problem.cause, fix) from problem


def _nearest(model: Model, system: System, options: ExpertsOptions, axis: str) -> int | None:
    """The degree closest to the one that was asked for with which the layout keeps every rule, or None."""
    asked = int(held(getattr(options, axis) or 1))
    tried = sorted(range(1, system.devices + 1), key=lambda degree: abs(degree - asked))
    probes = [replace(options, **{axis: degree}) for degree in tried]
    probes = [probe for probe in probes if held(probe.ep * probe.etp) % held(probe.tp or 1) == 0]
    probes = [probe for probe in probes if _ranks(probe) <= system.devices]
    kept = keeps_all(model, table([layout_of(probe) for probe in probes]))
    return next((int(getattr(probe, axis)) for probe, keeps in zip(probes, kept, strict=True) if keeps), None)


def _found(setting: Setting, layers: dict[int, tuple[int, Experts]], chosen: tuple[int, ...]) -> list[Layer]:
    """Every layer; of those that are alike to the last row one is worked out."""
    routing = setting.routing
    alike = max(len(routing.counts), len(routing.choices)) <= 1
    known: dict[object, Layer] = {}
    found: list[Layer] = []
    for place, layer in enumerate(chosen):
        kind, mixture = layers[layer]
        top_k = int(held(mixture.top_k))
        key = kind if alike and not is_drawn(routing, int(held(setting.options.tokens)), top_k) else layer
        if key not in known:
            known[key] = layer_of(setting, layer, place, kind, mixture)
        found.append(replace(known[key], row=replace(known[key].row, layer=layer)))
    return found


def _layers(routing: Routing, options: ExpertsOptions, layers: dict[int, tuple[int, Experts]]) -> tuple[int, ...]:
    """The layers that are answered: those recorded, or as many as random numbers are drawn for in some seconds.

    Raises JOB123 (a trace of fewer tokens), JOB125 (more draws than one layer may have).
    """
    tokens = int(held(options.tokens))
    if routing.law == "trace" and tokens > routing.choices.shape[1]:
        cause = f"--tokens {tokens}: the trace has {routing.choices.shape[1]}"
        raise JobError(128, cause, "give at most as many")
    known = routing.layers or tuple(layers)
    first = layers[known[0]][1]
    if not is_drawn(routing, tokens, int(held(first.top_k))):
        return known
    each = tokens * int(held(first.experts))
    if each > DRAWN_AT_MOST:
        cause = f"{tokens} tokens of {held(first.experts)} experts: too many to draw"
        raise JobError(125, cause, f"give --tokens {DRAWN_AT_MOST // int(held(first.experts))} or fewer")
    return known[: max(1, DRAWN_AT_MOST // each)]


def _ranks(options: ExpertsOptions) -> int:
    return int(held(options.ep)) * int(held(options.etp)) + int(held(options.attention_ranks or 0))


def _fabric(system: System, options: ExpertsOptions) -> Fabric | None:
    """The network, where rows are sent over one. Raises LAY043 for more ranks than devices."""
    ranks = _ranks(options)
    if ranks > system.devices:
        raise LayoutError(
            43, f"{ranks} ranks of experts and attention on {system.devices} devices", "give fewer, or more boxes"
        )
    return None if ranks == 1 or options.attention == "replicated" else system_fabric(system)


def _totals(model: Model, options: ExpertsOptions, mixture: Experts, rows: list[LayerRow]) -> dict[str, Any]:
    """Of the whole model, or of a token; means and sums over the layers that are answered."""
    choices = options.tokens * mixture.top_k
    return {
        "layer_count": len(rows),
        "expert_count": mixture.experts,
        "top_k": mixture.top_k,
        "tokens": options.tokens,
        "choices_per_layer": choices,
        "choices": choices * len(rows),
        "mean_expert_rows": choices / mixture.experts,
        "expert_weight_bytes": rows[0].weight_bytes / max(1, rows[0].slots_read),
        "groups": options.ep,
        "slots_per_group": (mixture.experts + options.replicas) // options.ep,
        "mean_distinct_experts": float(np.mean([row.distinct_experts for row in rows])),
        "expected_distinct_experts": sum(row.expected_distinct_experts for row in rows) / len(rows),
        "weight_bytes": sum(row.weight_bytes for row in rows),
        "dispatch_row_bytes": row_format_bytes(model, options.dispatch, mixture.latent),
        "combine_row_bytes": row_format_bytes(model, options.combine, mixture.latent),
        "record_uint16_bytes": record_bytes(options.tokens, len(rows), mixture.top_k, 2),
        "record_int32_bytes": record_bytes(options.tokens, len(rows), mixture.top_k, 4),
        "busiest_over_mean": max(row.busiest_over_mean for row in rows),
        "dropped": sum(row.dropped for row in rows),
        "padding": sum(row.padding for row in rows),
        "time_s": sum(row.time_s for row in rows),
    }


def _exchanges(
    setting: Setting, mixture: Experts, found: list[Layer], fabric: Fabric | None
) -> tuple[ExchangeRow, ...]:
    if fabric is None:
        return ()
    model, options = setting.model, setting.options
    formats = (options.dispatch, options.combine)
    out, back = (row_format_bytes(model, name, mixture.latent) for name in formats)
    rows: list[ExchangeRow] = []
    for name in WAYS:
        ways = [item.ways[name] for item in found]
        slowest = max((part for way in ways for part in way.dispatch), key=lambda item: item.seconds)
        sent = sum(way.dispatch_rows for way in ways)
        rows.append(
            ExchangeRow(
                id=name,
                dispatch_rows=sent,
                dispatch_bytes=out * sent,
                combine_bytes=back * sent,
                between_bytes=out * sum(way.between_rows for way in ways),
                most_sent_bytes=out * sum(way.most_sent_rows for way in ways),
                dispatch_s=sum(part.seconds for way in ways for part in way.dispatch),
                combine_s=sum(part.seconds for way in ways for part in way.combine),
                busiest_link=None if slowest.link < 0 else link_name(fabric, slowest.link),
            )
        )
    return tuple(rows)


def _verdict(model: Model, rows: list[LayerRow], options: ExpertsOptions) -> Verdict:
    worst = max(rows, key=lambda row: row.busiest_over_mean)
    distinct = np.mean([row.distinct_experts for row in rows])
    weights = held(sum(row.weight_bytes for row in rows)) / len(rows)
    read = f"{distinct:.1f} experts a layer are read, {show_bytes(weights)}"
    if any(row.slots_read != row.distinct_experts for row in rows):  # copies, padding, drops
        read = f"{distinct:.1f} experts a layer are chosen, {show_bytes(weights)} are read"
    where = f"{worst.busiest_rows:,} rows in layer {worst.layer}"
    told = [
        f"{model.name}, {len(rows)} layers, {int(held(options.tokens)):,} tokens: {read}",
        f"the busiest group has up to {worst.busiest_over_mean:.2f} times the mean ({where})",
    ]
    dropped = sum(row.dropped for row in rows)
    if options.capacity_factor is not None:
        share = dropped / (sum(sum(row.expert_rows) for row in rows))
        told.append(f"{share:.1%} of the choices are dropped")
    told.append(f"{show_seconds(held(sum(row.time_s for row in rows)))} in all")
    return Verdict(answer="yes", text="; ".join(told))


def _stated(routing: Routing) -> dict[str, Any]:
    """The routing as an answer holds it: a trace by its digest."""
    return {
        "law": routing.law,
        "exponent": routing.exponent,
        "counts": routing.counts,
        "layers": routing.layers,
        "recorded_tokens": routing.choices.shape[1],
        "digest": routing.digest,
    }


def _warnings(
    routing: Routing,
    options: ExpertsOptions,
    layers: dict[int, tuple[int, Experts]],
    chosen: tuple[int, ...],
    rows: list[LayerRow],
) -> tuple[str, ...]:
    told: list[str] = []
    if len(chosen) < len(layers):
        why = "recorded" if routing.layers else "drawn: the others are alike, and drawing them takes long"
        told.append(f"{len(chosen)} of {len(layers)} layers with experts are {why}")
    skipped = sum(row.skipped_tokens for row in rows)
    if skipped:
        told.append(f"{skipped:,} tokens pass a layer without any expert: all their choices are dropped")
    if options.replicas and options.placement in {"contiguous", "round_robin"}:
        told.append(f"copies stand beside each other in the order that {options.placement} lays out")
    return tuple(told)


def _left_out(routing: Routing, options: ExpertsOptions) -> tuple[str, ...]:
    more = ("how a router's choices depend on each other within a token, beyond being different",)
    own = more if is_drawn(routing, int(held(options.tokens)), 1) else ()
    return (*_NOT_MODELLED, *own)


def _basis(routing: Routing, options: ExpertsOptions, top_k: int) -> dict[str, str]:
    """What the rows rest on."""
    if routing.law == "trace":
        return {"layers[].expert_rows": f"{Basis.MEASURED.value}: recorded choices"}
    if is_drawn(routing, int(held(options.tokens)), int(held(top_k))):
        return {"layers[].expert_rows": f"{Basis.SIMULATED.value}: one batch, drawn from the seed"}
    return {"layers[].expert_rows": f"{Basis.FORMULA.value}: dealt as counted, nothing is drawn"}


def _next(options: ExpertsOptions, rows: list[LayerRow]) -> tuple[str, ...]:
    """With a copy more on every group, where one runs more than the mean."""
    if options.ep == 1 or max(row.busiest_over_mean for row in rows) <= 1.0:
        return ()
    asked = replace(options, replicas=options.replicas + options.ep)
    stated = [
        f"--{item.name.replace('_', '-')} {getattr(asked, item.name)}"
        for item in fields(ExpertsOptions)
        if getattr(asked, item.name) != item.default
    ]
    return (" ".join(["meshwright experts MODEL --on SYSTEM", *map(str, stated)]),)
