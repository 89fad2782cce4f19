"""`python -m benchmarks.flows`: what flows cost as ranks grow goes out to docs/collective-speed.md, with a picture.

Seconds hold for the machine that the page names; a ratio is against one numpy pass over the same links, in turns with
it, and compares between machines. Exit 1 where a budget is exceeded.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.__main__ import _commit, _machine
from benchmarks.processes import in_turns
from meshwright.cost.collectives import COLLECTIVES
from meshwright.output.curves_svg import as_curves
from meshwright.sim.flow_classes import flow_classes
from meshwright.sim.flow_events import ready
from meshwright.sim.max_min import COMPILED_FROM
from meshwright.sim.network import run_flows
from meshwright.system.fabric import is_topology, read_topology, system_fabric
from meshwright.system.system import read_system
from meshwright.workload.traffic import NO_BACKGROUND, Traffic, sends_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.system.graph import Fabric

_ROOT = Path(__file__).resolve().parents[1]
_PAGE = _ROOT / "docs" / "collective-speed.md"
_PICTURE = _ROOT / "docs" / "collective-speed.svg"
_BYTES = float(1 << 25)
_RUNS = 3
_LOAD = "from meshwright.sim.max_min import _compiled; _compiled()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One program on growing machines, and the seconds that the last may take."""

    title: str
    operation: str
    algorithm: str
    machines: tuple[str, ...]
    budget_s: float


CASES = (
    Case(
        title="All pairs at once on a torus",
        operation="all_to_all",
        algorithm="one_shot",
        machines=("torus:2x2x2", "torus:4x4x4", "torus:6x6x6", "torus:8x8x8"),
        budget_s=2.0,
    ),
    Case(
        title="A hierarchical all_reduce on boxes of eight",
        operation="all_reduce",
        algorithm="hierarchical",
        machines=tuple(f"hgx-h100 x{boxes}" for boxes in (2, 8, 32, 128, 512, 2048)),
        budget_s=5.0,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Medians of one machine. passes: wall over that of a numpy pass over all links of all sends."""

    machine: str
    ranks: int
    sends: int
    classes: int
    moments: int
    wall_s: float
    cpu_s: float
    passes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Rates of flows that hashing spreads unevenly, so that no two are alike: compiled, and as it is."""

    machine: str
    sends: int
    crossings: int
    moments: int
    compiled_s: float
    plain_s: float
    load_s: float


def main() -> int:
    """Measure, write the page and the picture, and say what is beyond its budget."""
    timings = {case.title: [_timed(case, machine) for machine in case.machines] for case in CASES}
    filling = _filling("leaf-spine:leaves=4,down=16,up=16,routing=ecmp")
    _PAGE.write_text(_page(timings, filling), encoding="utf-8")
    curves = {title: [(item.ranks, item.wall_s) for item in rows] for title, rows in timings.items()}
    _PICTURE.write_text(as_curves("Seconds of a run of flows, routing included", "ranks", curves), encoding="utf-8")
    exceeded = [case.title for case in CASES if _last(timings, case) > case.budget_s]
    print(f"wrote {_PAGE.relative_to(_ROOT)} and {_PICTURE.relative_to(_ROOT)}")
    for title in exceeded:
        print(f"exceeded: {title}")
    return 1 if exceeded else 0


def _last(timings: dict[str, list[Timing]], case: Case) -> float:
    last = timings[case.title][-1]
    return min(last.wall_s, last.cpu_s)


def _fabric(machine: str) -> Fabric:
    return read_topology(machine) if is_topology(machine) else system_fabric(read_system(machine))


def _traffic(case: Case, fabric: Fabric) -> Traffic:
    program = COLLECTIVES.module(case.algorithm).program(case.operation, len(fabric.devices))
    return Traffic(program=program, participants=fabric.devices, message_bytes=_BYTES)


def _timed(case: Case, machine: str) -> Timing:
    """Routes, classes and events; the fabric and the program are built before."""
    fabric = _fabric(machine)
    traffic = _traffic(case, fabric)
    found = run_flows(fabric, (traffic,))
    links = sends_of(fabric, (traffic,), NO_BACKGROUND).link
    runs = [_clocked(lambda: run_flows(fabric, (traffic,))) for _ in range(_RUNS)]
    passes = [_clocked(lambda: np.bincount(links, minlength=len(fabric.sender))) for _ in range(_RUNS)]
    return Timing(
        machine=machine,
        ranks=len(fabric.devices),
        sends=found.sends,
        classes=found.classes,
        moments=found.moments,
        wall_s=median(wall for wall, _ in runs),
        cpu_s=median(cpu for _, cpu in runs),
        passes=median(run[0] / one[0] for run, one in zip(runs, passes, strict=True)),
    )


def _clocked(call: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = perf_counter(), process_time()
    call()
    return perf_counter() - wall, process_time() - cpu


def _filling(machine: str) -> Filling:
    fabric = _fabric(machine)
    traffic = _traffic(CASES[0], fabric)
    classes = flow_classes(sends_of(fabric, (traffic,), NO_BACKGROUND))
    size = classes.sends.size_bytes
    found = ready(classes, compiled=True).run(size)
    times = [
        median(_clocked(lambda: ready(classes, compiled=compiled).run(size))[0] for _ in range(_RUNS))  # noqa: B023
        for compiled in (True, False)
    ]
    load = in_turns({name: (sys.executable, "-c", name) for name in (_LOAD, "import numpy")}, _RUNS)
    return Filling(
        machine=machine,
        sends=len(size),
        crossings=len(classes.crossings.link),
        moments=found.moments,
        compiled_s=times[0],
        plain_s=times[1],
        load_s=median(run.wall_s for run in load[_LOAD]) - median(run.wall_s for run in load["import numpy"]),
    )


def _page(timings: dict[str, list[Timing]], filling: Filling) -> str:
    lines = [
        "# What flows cost",
        "",
        f"Written by `python -m benchmarks.flows` on {datetime.now(UTC).date()} at {_commit()}, on",
        f"{_machine()}.",
        "",
        "Seconds are medians of three runs of `sim.network.run_flows`: routes, classes and all events; the fabric and",
        "the program are built before. Passes are against one numpy pass (`bincount`) over the links of all sends, in",
        "the same process. The command exits 1 when a budget is exceeded, in wall and in CPU time.",
        "",
        "![Seconds against ranks](collective-speed.svg)",
        "",
    ]
    for case in CASES:
        lines += _table(case, timings[case.title])
    return "\n".join([*lines, *_told(filling)]) + "\n"


def _table(case: Case, rows: list[Timing]) -> list[str]:
    found = [f"## {case.title}", ""]
    found += [
        "| machine | ranks | sends | classes | moments | wall | CPU | passes |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = (row.machine, f"{row.ranks:,}", f"{row.sends:,}", f"{row.classes:,}", f"{row.moments:,}")
        found.append(f"| {' | '.join(cells)} | {row.wall_s:.3f} s | {row.cpu_s:.3f} s | {row.passes:,.0f} |")
    last = rows[-1]
    over = " **exceeded**" if min(last.wall_s, last.cpu_s) > case.budget_s else ""
    times = last.wall_s / rows[0].wall_s
    return [
        *found,
        "",
        f"The largest may take {case.budget_s:g} s{over}. From {rows[0].ranks:,} to {last.ranks:,} ranks sends grow",
        f"{last.sends / rows[0].sends:,.0f} times and seconds {times:,.0f} times.",
        "",
    ]


def _told(filling: Filling) -> list[str]:
    return [
        "## Flows of which no two are alike",
        "",
        f"All pairs at once over `{filling.machine}`: a hash spreads {filling.sends:,} flows over the spines unevenly,",
        f"so every flow is a class of its own, and rates change at {filling.moments:,} moments.",
        "",
        f"Progressive filling over {filling.crossings:,} crossings takes {filling.compiled_s:.2f} s compiled and",
        f"{filling.plain_s:.2f} s as it is; loading numba and the compiled function takes {filling.load_s:.2f} s.",
        f"`COMPILED_FROM` is {COMPILED_FROM:,} crossings.",
    ]


if __name__ == "__main__":
    sys.exit(main())
