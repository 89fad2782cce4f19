"""Is a measured collective normal for this box, and if not, why? What nccl-tests printed goes in; a verdict comes out.

Every size is held against an archived time of the platform, a fit to measured times, or the wire; what is low is told
with its likely causes, what is above the wire with the program that explains it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from meshwright.base.errors import CollectiveError, suggest
from meshwright.base.result import Basis, Result, Source, Verdict
from meshwright.base.units import Bytes, BytesPerSecond, Seconds, Share, show_bytes, show_rate, show_seconds
from meshwright.cost.collective_fits import FAMILIES
from meshwright.cost.collectives import AUTO, busbw_factor
from meshwright.scenarios._collective_causes import Cause, Reached, above_the_wire, low_causes
from meshwright.scenarios._collective_expected import Asked, Bound, Expected, bounds, busbw_of, expected
from meshwright.scenarios._collective_operation import operations_of
from meshwright.scenarios._shared import stated_system
from meshwright.system.accelerator import accelerator_called
from meshwright.system.collective_fits import read_collective_fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.system.nccl_tests import Line, Measurement, Timed
    from meshwright.system.system import System

State = Literal["normal", "low", "above", "not_judged"]
MIB: Final = 2**20
RANGES: Final = (("start-up", 0), ("between", MIB), ("bandwidth", 64 * MIB))
"""Parts of a curve that are judged apart, and the size that each begins at."""
WIRE: Final = {True: (0.78, 0.7), False: (0.94, 0.9)}
"""Within a box and between boxes: of the wire, what is expected of a ring that nobody measured, and the least that is
normal. Within: 0.76 to 0.81 of NVLink at 8 GiB (A100, H200, B200; stas00/ml-engineering). Between: 0.91 to 0.96 of the
NICs (the same; NVIDIA/nccl-tests#290; NVIDIA/nccl#949)."""
_LEVEL: Final = 0.1
_WITHIN: Final = Share(0.1)
_MOST_RATE: Final = 1e15
_LEFT_OUT: Final = (
    "other traffic on the same links, clocks, and which NIC each rank uses: causes are read off rates alone",
    "unequal blocks: an all_to_all of nccl-tests has equal ones, and experts' dispatch has not",
    "the interval of sizes whose basis is the wire: it is a share that is usual, assumed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What is asked beside the file. None: taken from the file, or usual.

    family: how the exchange was done and timed.   algorithm: `auto`, or a registered name.   nics: in use by each box.
    wire, least: of a link's bandwidth, expected and normal where nobody measured.   within: around an archived time.
    chunk, step_latency: of one step of a rail, where they are known.   stated: a bus bandwidth that was expected.
    """

    place: Literal["out_of_place", "in_place"] = "out_of_place"
    operation: str | None = None
    ranks: int | None = None
    boxes: int | None = None
    nics: int | None = None
    family: str = "nccl"
    algorithm: str = AUTO
    wire: Share | None = None
    least: Share | None = None
    within: Share = _WITHIN
    chunk: Bytes | None = None
    step_latency: Seconds | None = None
    stated: BytesPerSecond | None = None
    partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSize:
    """One row. Rates are bus bandwidths; expected, low and high are None where nothing is known of the size.

    bound: the most of any program.   of_wire: over that of a ring, or what stands for it, on a full wire.
    """

    line: int
    size_bytes: int
    time_s: float
    busbw_bytes_per_s: float
    expected_bytes_per_s: float | None
    low_bytes_per_s: float | None
    high_bytes_per_s: float | None
    bound_bytes_per_s: float
    of_expected_fraction: float | None
    of_wire_fraction: float
    state: State
    basis: Basis
    by: str
    algorithm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRange:
    """A part of the curve. low: how many of its judged sizes are."""

    name: str
    from_bytes: int
    judged: int
    low: int
    is_low: bool


def collective_check(found: Measurement, system: System, options: CheckOptions) -> Result:
    """Whether each measured size is normal for the system.

    yes: no part of the curve is low. unknown: no size could be judged. Raises COL023 (ranks, boxes or times that the
    file does not tell), COL024 (an operation that it does not tell, or contradicts), COL025 (ranks that the system does
    not have), COL026 (NICs or a share out of range), COL027 (a table without its end), COL001, COL002, COL010
    (algorithm).
    """
    asked = _asked(found, system, options)
    lines = [(line, timed) for line in found.lines if (timed := getattr(line, options.place)) is not None]
    if not lines:
        raise CollectiveError(23, f"no row has times {options.place.replace('_', ' ')}", "leave --place out")
    every = bounds(asked)
    told = [(line, timed, expected(asked, line.size)) for line, timed in lines]
    rows = tuple(_row(asked, (line, timed), item, every[0].busbw) for line, timed, item in told if timed.time > 0)
    ranges = _ranges(rows)
    above = _above(asked, rows)
    causes = _causes(asked, rows, ranges, options, every)
    wrong = sum(timed.wrong or 0 for _, timed, _ in told)
    return Result(
        command="collective check",
        verdict=_verdict(rows, ranges, causes, above, wrong),
        inputs={
            "model": None,
            "system": stated_system(system),
            "job": None,
            "layout": None,
            "options": {"asked": options, "measured": found},
        },
        warnings=_warnings(found, system, asked, wrong),
        notes=_notes(asked, rows),
        not_modelled=_LEFT_OUT,
        sources=_sources(told, system),
        basis=_basis(rows),
        body={
            "operation": asked.operation,
            "ranks": asked.ranks,
            "boxes": asked.boxes,
            "nics_per_box": asked.nics,
            "version": found.version,
            "rows": rows,
            "ranges": ranges,
            "causes": causes,
            "above": above,
            "bounds": [
                {"algorithm": bound.algorithm, "busbw_bytes_per_s": bound.busbw, "bytes_per_byte": bound.bytes_per_byte}
                for bound in every
            ],
        },
        next_commands=(),
    )


# ---------------------------------------------------------------------------------------------------- what was measured


def _asked(found: Measurement, system: System, options: CheckOptions) -> Asked:
    """The group of ranks, from the file and what options say."""
    if not found.complete and not options.partial:
        last = found.lines[-1].number
        cause = f"line {last}: the table ends there, without the average bus bandwidth: the output was cut"
        raise CollectiveError(27, cause, "give the whole output, or --partial to take it as it is")
    ranks = options.ranks or len(found.hosts)
    boxes = options.boxes or len(set(found.hosts)) or (1 if ranks <= system.devices_per_node else 0)
    if not ranks >= 2 or not boxes:  # noqa: PLR2004 - an exchange has two sides
        raise CollectiveError(23, "the file does not list its ranks and hosts", "give --ranks and --boxes")
    if boxes > system.nodes or ranks > boxes * system.devices_per_node or ranks % boxes:
        has = f"{system.id} has {system.nodes} of {system.devices_per_node}"
        cause = f"{ranks} ranks on {boxes} boxes were measured, and {has}"
        raise CollectiveError(25, cause, f"--on '{system.id.split(' x')[0]} x{boxes}', or the system that was measured")
    nics = options.nics or system.nics_per_node
    wire, least = WIRE[boxes == 1]
    asked = Asked(
        system=system,
        operation=_operation(found, ranks, options.operation),
        ranks=ranks,
        boxes=boxes,
        nics=nics,
        family=_family(options.family),
        algorithm=options.algorithm,
        wire=wire if options.wire is None else options.wire,
        least=least if options.least is None else options.least,
        within=options.within,
    )
    _check_shares(asked, options)
    if options.nics is not None and options.nics > max(system.nics_per_node, 1):
        cause = f"--nics {options.nics}, and a box of {system.name} has {system.nics_per_node}"
        raise CollectiveError(26, cause, f"give at most that, or --set system.nics_per_node={options.nics}")
    return asked


def _check_shares(asked: Asked, options: CheckOptions) -> None:
    for name, count in (("ranks", options.ranks), ("boxes", options.boxes), ("nics", options.nics)):
        if count is not None and count < 1:
            raise CollectiveError(26, f"--{name} is {count}", f"give --{name} 1 or more")
    if not 0 < asked.least <= asked.wire <= 1 or not 0 < asked.within < 1:
        cause = f"least {asked.least:g}, wire {asked.wire:g}, within {asked.within:g}"
        raise CollectiveError(26, cause, "0 < least <= wire <= 1, as in --wire 94% --least 90%")
    if asked.boxes > 1 and asked.nics < 1:
        raise CollectiveError(26, f"{asked.nics} NICs between boxes", "give --nics 1 or more")
    for name, value in (("chunk", options.chunk), ("step_latency", options.step_latency), ("stated", options.stated)):
        if value is not None and not 0 < value < _MOST_RATE:
            raise CollectiveError(26, f"--{name.replace('_', '-')} is {value:g}", "give a value above zero")
    if (options.chunk is None) != (options.step_latency is None):
        raise CollectiveError(26, "--chunk and --step-latency belong together", "give both, or none")


def _family(name: str) -> str:
    if name not in FAMILIES:
        cause = f"--family {name}: no exchange is done and timed so"
        if "moe" in name.lower() or "expert" in name.lower():
            cause += "; an all_to_all of equal blocks is no measurement of experts' dispatch"
        raise CollectiveError(24, cause, suggest(name, FAMILIES))
    return name


def _operation(found: Measurement, ranks: int, stated: str | None) -> str:
    """The operation that the file names, or that its columns allow. Raises COL024."""
    allowed = operations_of(found, ranks)
    name = stated or found.operation
    if name is None and len(allowed) == 1:
        return allowed[0]
    if name is None:
        cause = f"the file does not name its operation; its columns allow {', '.join(allowed) or 'none that is known'}"
        raise CollectiveError(24, cause, "give --operation, as in --operation all_gather")
    if name not in allowed:
        others = ", ".join(allowed) or "none that is known"
        cause = f"{name}, and busbw over algbw of {ranks} ranks says otherwise: {others}"
        raise CollectiveError(24, cause, "look at --operation and --ranks")
    return name


# ------------------------------------------------------------------------------------------------------------ judgement


def _row(asked: Asked, measured: tuple[Line, Timed], item: Expected, wire: float) -> CheckedSize:
    """The bus bandwidth follows from the time, which is printed with more digits."""
    line, timed = measured
    busbw = busbw_of(asked, line.size, timed.time)
    return CheckedSize(
        line=line.number,
        size_bytes=line.size,
        time_s=timed.time,
        busbw_bytes_per_s=busbw,
        expected_bytes_per_s=item.busbw,
        low_bytes_per_s=item.low,
        high_bytes_per_s=item.high,
        bound_bytes_per_s=item.bound,
        of_expected_fraction=None if item.busbw is None else busbw / item.busbw,
        of_wire_fraction=busbw / wire,
        state=_state(busbw, item),
        basis=item.basis,
        by=item.by,
        algorithm=item.algorithm,
    )


def _state(busbw: float, item: Expected) -> State:
    if item.low is None or item.high is None:
        return "not_judged"
    if busbw < item.low:
        return "low"
    return "above" if busbw > item.high else "normal"


def _ranges(rows: Sequence[CheckedSize]) -> tuple[CheckedRange, ...]:
    """A part is low when at least half of its judged sizes are: of a healthy box one in ten is out of its interval."""
    ends = [*(start for _, start in RANGES[1:]), None]
    found: list[CheckedRange] = []
    for (name, start), end in zip(RANGES, ends, strict=True):
        own = [row for row in rows if row.size_bytes >= start and (end is None or row.size_bytes < end)]
        judged = [row for row in own if row.state != "not_judged"]
        low = sum(row.state == "low" for row in judged)
        found.append(
            CheckedRange(name=name, from_bytes=start, judged=len(judged), low=low, is_low=0 < len(judged) <= 2 * low)
        )
    return tuple(found)


def _above(asked: Asked, rows: Sequence[CheckedSize]) -> Cause | None:
    """By any program that a library may choose, whichever one was asked about."""
    most = max((row.busbw_bytes_per_s for row in rows), default=0.0)
    return above_the_wire(most, bounds(replace(asked, algorithm=AUTO)))


def _causes(
    asked: Asked,
    rows: Sequence[CheckedSize],
    ranges: Sequence[CheckedRange],
    options: CheckOptions,
    every: tuple[Bound, ...],
) -> tuple[Cause, ...]:
    """Of the end of the curve where that is low, else of its start."""
    judged = [row for row in rows if row.expected_bytes_per_s is not None]
    if not judged:
        return ()
    *before, last = judged
    rising = [row for row in before if row.size_bytes * 8 <= last.size_bytes][-1:]
    reached = Reached(
        size=last.size_bytes,
        busbw=last.busbw_bytes_per_s,
        expected=last.expected_bytes_per_s or 0.0,
        ring=every[0].busbw,
        level=bool(rising) and rising[0].busbw_bytes_per_s >= last.busbw_bytes_per_s * (1 - _LEVEL),
        chunk=options.chunk,
        step=options.step_latency,
        stated=options.stated,
    )
    if any(part.is_low for part in ranges[1:]) or last.state == "low":
        return low_causes(asked, reached)
    told = low_causes(asked, reached) if options.stated is not None else ()
    apart = tuple(cause for cause in told if cause.id == "both_directions")
    return (*apart, *((_slow_start(asked, rows),) if ranges[0].is_low else ()))


def _slow_start(asked: Asked, rows: Sequence[CheckedSize]) -> Cause:
    """Small sizes take longer by about as much: a start that costs more than it should."""
    small = [row for row in rows if row.size_bytes < MIB and row.expected_bytes_per_s]
    factor = busbw_factor(asked.operation, asked.ranks)
    more = sorted(row.time_s - factor * row.size_bytes / (row.expected_bytes_per_s or 1.0) for row in small)
    return Cause(
        id="slow_start",
        title="every call starts late, and large messages are as they should be",
        evidence=f"below 1 MiB a call takes {show_seconds(more[len(more) // 2])} more than is expected, and above not",
        fix="one process a GPU instead of one for all (-g 1), CUDA graphs, clocks at their limit, and no virtual CPUs; "
        "--family nccl_one_process or framework if it was timed so",
    )


# -------------------------------------------------------------------------------------------------------- what is said


def _verdict(
    rows: Sequence[CheckedSize],
    ranges: Sequence[CheckedRange],
    causes: Sequence[Cause],
    above: Cause | None,
    wrong: int,
) -> Verdict:
    judged = [row for row in rows if row.state != "not_judged"]
    if wrong:
        return Verdict(answer="no", text=f"{wrong} elements came out wrong: no rate matters before that is mended")
    if above is not None and above.share is None:
        return Verdict(answer="no", text=f"{above.title}: {above.evidence}")
    if not judged:
        return Verdict(
            answer="unknown", text="no size could be judged: no measured time, and start-up decides them all"
        )
    last = judged[-1]
    reached, usual = show_rate(last.busbw_bytes_per_s), show_rate(last.expected_bytes_per_s or 0.0)
    told = f"busbw {reached} at {show_bytes(last.size_bytes)}, {last.of_expected_fraction:.2f} of the expected {usual}"
    low = [part.name for part in ranges if part.is_low]
    if not low and last.state != "low":
        return Verdict(answer="yes", text=f"normal for this box: {told}")
    where = f"low in {' and '.join(low)}" if low else "low at its largest size"
    first = f"; likely: {causes[0].title}" if causes else ""
    return Verdict(answer="no", text=f"{where}: {told}{first}")


def _warnings(found: Measurement, system: System, asked: Asked, wrong: int) -> tuple[str, ...]:
    told: list[str] = []
    for name in found.devices:
        known = accelerator_called(name)
        if known is not None and known.id != system.accelerator.id:
            told.append(f"the file was measured on {name}, and {system.id} has {system.accelerator.name}")
    if not found.complete:
        told.append("the table has no end: sizes that were not measured are not judged")
    if wrong:
        told.append(f"{wrong} elements were wrong (#wrong): results, not rates, are the fault")
    if asked.ranks < asked.boxes * system.devices_per_node:
        told.append(f"{asked.ranks} of {asked.boxes * system.devices_per_node} devices took part")
    return tuple(told)


def _notes(asked: Asked, rows: Sequence[CheckedSize]) -> tuple[str, ...]:
    told = ["busbw is normalised: what a ring would have to send for this time; it is not the rate of a link or NIC"]
    for name in dict.fromkeys(row.by for row in rows if row.basis is Basis.CALIBRATED):
        most = read_collective_fit(name).most
        if any(row.by == name and row.size_bytes > most for row in rows):
            told.append(f"rows behind {name} end at {show_bytes(most)}: larger sizes are continued from there")
    if asked.operation == "all_to_all":
        told.append("blocks of one size: this says nothing of the dispatch of experts, whose blocks differ by rank")
    return tuple(told)


def _sources(told: Sequence[tuple[Any, Any, Expected]], system: System) -> tuple[Source, ...]:
    own = dict.fromkeys(source for _, _, item in told for source in item.sources)
    return (*own, *(source for source in system.facts.sources if source not in own))


def _basis(rows: Sequence[CheckedSize]) -> dict[str, str]:
    ways = ", ".join(sorted({row.basis.value for row in rows}))
    return {
        "rows[].busbw_bytes_per_s": f"{Basis.MEASURED.value}: of the file's times",
        "rows[].expected_bytes_per_s": f"as each row says: {ways}" if rows else Basis.ASSUMED.value,
        "rows[].bound_bytes_per_s": f"{Basis.FORMULA.value}: the program over the datasheet's links, each full",
        "bounds[]": f"{Basis.FORMULA.value}: as rows[].bound_bytes_per_s",
        "causes[]": f"{Basis.FORMULA.value}: rates compared",
        "inputs.options": f"{Basis.ASSUMED.value}: as asked",
    }
