"""The answer of `topology` goes in; its tables come out: the network's counts, sorts of links, and rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.base.units import show_bytes, show_rate, show_short
from meshwright.output.columns import Column
from meshwright.output.plan_tables import draw_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from meshwright.base.result import Result

_ROUNDS: Final = 16
_WORDS: Final = {
    "device": ("devices", "device"),
    "switch": ("switches", "switch"),
    "nic": ("NICs", "NIC"),
    "pcie_switch": ("PCIe switches", "PCIe switch"),
    "cpu": ("CPUs", "CPU"),
}


def _whole(value: float) -> str:
    return f"{value:,}"


LINK_COLUMNS: Final = (
    Column(name="links", value=lambda row: row.id, side="left"),
    Column(name="count", value=lambda row: row.links, show=_whole),
    Column(name="cables", value=lambda row: row.cables, show=_whole),
    Column(name="one way", value=lambda row: row.bandwidth_bytes_per_s, show=show_rate, unit="B/s"),
    Column(name="latency", value=lambda row: row.latency_s, show=show_short, unit="s"),
)
LOAD_COLUMNS: Final = (
    Column(name="most", value=lambda row: row.max_bytes, show=show_bytes, unit="B"),
    Column(name="mean", value=lambda row: row.mean_bytes, show=show_bytes, unit="B"),
    Column(name="busy", value=lambda row: row.busy_s, show=show_short, unit="s"),
    Column(name="busiest", value=lambda row: row.busiest, side="left"),
)
"""Of links, where there is a load."""
ROUND_COLUMNS: Final = (
    Column(name="round", value=lambda row: row.number),
    Column(name="times", value=lambda row: row.times, show=_whole),
    Column(name="sends", value=lambda row: row.flows, show=_whole),
    Column(name="hops", value=lambda row: row.most_links),
    Column(name="on a link", value=lambda row: row.max_bytes, show=show_bytes, unit="B"),
    Column(name="on all", value=lambda row: row.link_total_bytes, show=show_bytes, unit="B"),
    Column(name="transfer", value=lambda row: row.transfer_s, show=show_short, unit="s"),
    Column(name="latency", value=lambda row: row.latency_s, show=show_short, unit="s"),
    Column(name="until", value=lambda row: row.until_s, show=show_short, unit="s"),
)


def draw_topology(console: Console, result: Result) -> None:
    """Counts line by line, then links, then rounds."""
    console.print()
    for line in network_lines(result):
        console.print(line)
    load = result.body["load"]
    console.print()
    draw_columns(console, link_columns(result), result.body["links"])
    if load is None:
        return
    console.print()
    rows = result.body["rounds"]
    draw_columns(console, ROUND_COLUMNS, rows[:_ROUNDS])
    if len(rows) > _ROUNDS:
        console.print(f"{len(rows) - _ROUNDS} more rounds: --format json lists them all")
    console.print()
    for line in load_lines(result):
        console.print(line)


def link_columns(result: Result) -> tuple[Column, ...]:
    """The columns of links: with what they carry, where there is a load."""
    return LINK_COLUMNS if result.body["load"] is None else (*LINK_COLUMNS, *LOAD_COLUMNS)


def network_lines(result: Result) -> Iterator[str]:
    """What the network is made of."""
    facts = result.body["network"]
    beside = [f"{count:,} {_WORDS[kind][count == 1]}" for kind, count in facts.vertices.items() if count]
    chips = "" if not facts.switch_chips else f"; {facts.switch_chips:,} switch chips"
    yield f"made of       {', '.join(beside)}{chips}; {facts.cables:,} cables, {facts.ports:,} ports"
    ports = f"{facts.device_ports} port{'' if facts.device_ports == 1 else 's'}"
    yield f"a device has  {ports}, {show_rate(facts.device_bytes_per_s)} one way"
    yield (
        f"paths         at most {facts.diameter_links} links and {show_short(facts.longest_path_s)}, "
        f"{facts.mean_links:.3f} links on average ({facts.mean_links_with_self:.3f} with a device itself)"
    )
    half = facts.bisection
    if half is not None:
        yield (
            f"bisection     {half.near:,} | {half.far:,} devices: {half.cables:,} cables, "
            f"{show_rate(half.out_bytes_per_s)} out, {show_rate(half.back_bytes_per_s)} back"
        )
    if facts.oversubscription is not None:
        yield f"taper         {facts.oversubscription:g} : 1"


def load_lines(result: Result) -> Iterator[str]:
    """Why the load takes at least what it takes."""
    load = result.body["load"]
    parts = [f"busiest link {show_short(load.busiest_s)}", f"own ports {show_short(load.injection_s)}"]
    parts += [] if load.cut_s is None else [f"bisection {show_short(load.cut_s)}"]
    yield f"at least      {show_short(load.least_s)}: the longest of {', '.join(parts)}"
    yield f"with latency  {show_short(load.time_s)}, {show_short(load.latency_s)} of it latency of the longest paths"
