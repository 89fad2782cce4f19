"""A training plan goes in; lines on what stands around its step come out: peaks, saves, slow devices, more devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_bytes, show_rate, show_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from meshwright.base.result import Candidate, Result

_ALIVE: Final = 4
_SCALED: Final = 3
_ROUNDING: Final = 1e-9
"""Of a step, what a sum of its slots may be off by."""


def memory_lines(result: Result, shown: Candidate) -> Iterator[str]:
    """The peak of the simulated step and what it is made of, and a start that needs more than a device has."""
    known = shown.measures["simulated"]
    if known is not None:
        alive = shown.measures["peak_alive"]
        told = ", ".join(f"{item['kind'].replace('_', ' ')} {show_bytes(item['bytes'])}" for item in alive[:_ALIVE])
        more = f", {len(alive) - _ALIVE} more" if len(alive) > _ALIVE else ""
        peak = f"simulated peak {show_bytes(known['peak_bytes'])} on pipeline rank {shown.measures['peak_rank']}"
        yield f"{peak}: {told}{more}"
    start = result.body["initialisation"]
    if not start.fp32_fits:
        kept = show_bytes(start.parameters_bytes)
        whole = f"{show_bytes(start.fp32_bytes)} in float32, {kept} as the recipe keeps it"
        which = "neither fits" if not start.parameters_fit else "the first does not fit"
        yield f"a rank that builds the whole model first holds {whole}, and {which}: {start.avoided_by}"


def step_lines(shown: Candidate) -> Iterator[str]:
    """The simulated step beside the estimated one."""
    known = shown.measures["simulated"]
    if known is not None:
        over = "" if known["over_estimate"] is None else f", {known['over_estimate']:+.1%}"
        parts = (("communication", known["exposed_comm_s"]), ("bubble", known["bubble_s"]))
        told = [f", {name} {show_seconds(time)}" for name, time in parts if time > _ROUNDING * known["step_s"]]
        yield f"  simulated: {show_seconds(known['step_s'])}{over}{''.join(told)}"


def around_lines(body: Mapping[str, Any]) -> Iterator[str]:
    """Saves and failures, the date as drawn, slow devices, input, offload, experts, more devices: what there is."""
    yield from _overheads(body["overheads"])
    if body["stragglers"] is not None:
        yield from _stragglers(body["stragglers"])
    if body["input"] is not None:
        yield from _input(body["input"])
    if body["offload"] is not None:
        yield from _offload(body["offload"])
    if body["experts"] is not None:
        yield from _experts(body["experts"])
    if body["scaling"] is not None:
        yield from _scaling(body["scaling"])


def _overheads(found: Any) -> Iterator[str]:
    if found.overhead_fraction > 0:
        retry = f"{found.retry_overhead_fraction:.2%} by Poisson retry"
        yield f"saves and failures add {found.overhead_fraction:.2%} by first order, {retry}"
    best = found.best_first_order
    if best is not None:
        saved = f", which saves {show_seconds(found.best_saves_s)} of the run" if found.best_saves_s > 0 else ""
        yield f"least at a save every {show_seconds(best.interval_s)}: {best.overhead_fraction:.2%}{saved}"
    drawn = found.drawn
    if drawn is not None and drawn.failures > 0:
        dates = f"ends after {show_seconds(drawn.p10_s)}, {show_seconds(drawn.p50_s)} or {show_seconds(drawn.p90_s)}"
        share = "" if drawn.on_time_share is None else f"; in time in {drawn.on_time_share:.1%} of the runs"
        yield f"drawn {drawn.runs:,} times, the run {dates} (10 %, 50 %, 90 %){share}"


def _stragglers(found: Any) -> Iterator[str]:
    gone = "" if found.slack_share is None else f", {found.slack_share:.1%} of the slack"
    yield f"the slowest of {found.devices:,} devices adds {show_seconds(found.increase_s)} to a step{gone}"
    yield f"of one slow device: {found.best} costs least"


def _input(found: Any) -> Iterator[str]:
    supply = f"{found.supply_sequences_per_s:.4g} sequences/s are prepared"
    enough = "steps do not wait" if not found.wait_s else f"a step waits {show_seconds(found.wait_s)}"
    least = f"{found.least_workers:,} workers are enough"
    yield f"{supply}, {found.demand_sequences_per_s:.4g} are asked for: {enough}; {least}"


def _offload(found: Mapping[str, Any]) -> Iterator[str]:
    cast = "" if found["cast_on"] is None else f", gradients are cast on the {found['cast_on']}"
    held = f"the host keeps {show_bytes(found['host_bytes'])} of each device"
    link = f"{show_rate(found['link_bytes_per_s'])} to it"
    yield f"{held}, {link}{cast}; a step waits {show_seconds(found['wait_s'])} for it"


def _experts(found: Mapping[str, Any]) -> Iterator[str]:
    busy = f"is sent {found['busiest_over_even']:.2f} times an even share and runs {found['run_over_even']:.2f} times"
    yield f"experts: the busiest rank {busy}"
    if found["capacity_rows"] is not None:
        lost = f"{found['dropped_fraction']:.2%} of {found['choices']:,} choices a layer and micro-batch are dropped"
        zeros = f"{found['padding_fraction']:.1%} of the rows run are zeros"
        yield f"  {found['capacity_rows']:,} rows an expert: {lost}, {zeros}"


def _scaling(found: Any) -> Iterator[str]:
    batch = found.batch
    word = {"grow_batch": "grow the batch with the devices", "keep_batch": "keep the batch as devices are added"}
    yield f"{word[found.advice]}: it is {batch.batch_over_noise:.3g} times the gradient noise scale"
    for row in found.table.rows[1:_SCALED]:
        times = f"a larger batch {show_seconds(row.weak_s)}, the same batch {show_seconds(row.strong_s)}"
        yield f"  {row.devices:,} devices: steps alone, {times}"
