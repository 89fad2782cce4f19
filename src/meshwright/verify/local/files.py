"""A calibration goes in; the text of a system file and of a calibration file come out; and back.

The two are never mixed: a plan reads the system file, whose rates are those of a process while all work; the
calibration holds every measured size, the spreads, and what a step costs beside its products. Numbers have six digits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final, cast, get_type_hints

from meshwright.base.errors import RunError
from meshwright.base.parse import build, read_text, read_toml
from meshwright.base.units import DIMENSIONS
from meshwright.system.facts import split
from meshwright.verify.local.calibration import LocalCalibration

if TYPE_CHECKING:
    from pathlib import Path

_UNITS: Final = {"seconds": "s", "bytes": "B", "bytes_per_s": "B/s"}
_SOURCE: Final = "local"
_TITLE: Final = "Measured by `meshwright calibrate local`"
_KEYS: Final = ("date", "source")


def system_text(found: LocalCalibration, date: str) -> str:
    """TOML that `--on` takes. Rates are fitted medians; the link is the median of the exchanges of all processes."""
    wide = [line for line in found.exchange if line.ranks == found.processes]
    low, high = min(line.low for line in wide), max(line.high for line in wide)
    copy = next(line for line in found.rate if line.operation == "copy")
    products = [line for line in found.rate if line.operation == "matmul"]

    def fact(value: float, unit: str, note: str, *words: str) -> str:
        told = [
            'basis = "calibrated"',
            'scope = "process"',
            f'source = "{_SOURCE}"',
            f"platform = {_text(found.platform)}",
        ]
        parts = [f'value = "{value:.6g} {unit}"', *words, *told, f"date = {_text(date)}", f"note = {_text(note)}"]
        return "{ " + ", ".join(parts) + " }"

    alpha, bandwidth = median(line.alpha for line in wide), median(line.bandwidth for line in wide)
    dense, one_way = 'density = "dense"', 'direction = "one way"'
    lines = [
        "# Fitted medians of this machine while all its processes work; spreads and sizes are in the calibration file.",
        f"name = {_text(f'{found.processes} local processes on {found.devices}')}",
        "nodes = 1",
        f"devices_per_node = {found.processes}",
        f"note = {_text(found.protocol)}",
        "",
        "[accelerator]",
        f"name = {_text(f'one local process on {found.devices}')}",
        f'memory = "{found.memory} B"',
        f"memory_bandwidth = {fact(copy.rate, 'B/s', _quartiles(copy.low, copy.high))}",
        "",
        "[accelerator.peak]",
        *(f"{line.format} = {fact(line.rate, 'FLOP/s', _quartiles(line.low, line.high), dense)}" for line in products),
        "",
        "[scale_up]",
        f"name = {_text('gloo' if found.devices == 'cpu' else 'nccl')}",
        f"latency = {fact(alpha, 's', _quartiles(low, high))}",
        f"bandwidth = {fact(bandwidth, 'B/s', _quartiles(low, high), one_way)}",
        "",
        *_sources(date),
    ]
    return "\n".join(lines) + "\n"


def _quartiles(low: float, high: float) -> str:
    return f"times of all rounds are {low:.3g} to {high:.3g} of it (quartiles)"


def calibration_text(found: LocalCalibration, date: str) -> str:
    """TOML of everything in a calibration, with the date."""
    lines = ["# Measured on one machine; a system file with the rates alone lies beside it."]
    lines += [f"date = {_text(date)}", f'source = "{_SOURCE}"']
    return "\n".join([*lines, *_table(found, ""), "", *_sources(date)]) + "\n"


def _sources(date: str) -> list[str]:
    return [f"[sources.{_SOURCE}]", f"title = {_text(_TITLE)}", 'place = "this machine"', f"read = {_text(date)}"]


def read_calibration(path: Path) -> LocalCalibration:
    """The calibration of a file that `calibration_text` wrote.

    Raises IO010, IO011 (the file), RUN037 for one without its date and source, SYS003 for a source that is not whole,
    and the codes of `build`.
    """
    values, facts = split(read_toml(read_text(path), path.name), path.name)
    missing = [key for key in _KEYS if key not in values]
    if missing or not facts.sources:
        cause = f"{path.name}: a calibration without {(missing or ['sources'])[0]}"
        raise RunError(37, cause, "give the FILE.calibration.toml that calibrate local wrote beside FILE.toml")
    return build(LocalCalibration, {key: item for key, item in values.items() if key not in _KEYS}, path.name)


def _table(record: Any, path: str) -> list[str]:
    """A record as TOML: its single values, then its tables."""
    single, tables = list[str](), list[str]()
    for name, hint, value in _fields(record):
        inner = f"{path}{name}"
        if value == ():
            single.append(f"{name} = []")
        elif _is_records(value):
            for item in value:
                tables += ["", f"[[{inner}]]", *_table(item, f"{inner}.")]
        elif is_dataclass(value) and path:
            single.append(f"{name} = {_inline(value)}")
        elif is_dataclass(value):
            tables += ["", f"[{inner}]", *_table(value, f"{inner}.")]
        else:
            single.append(f"{name} = {_plain(hint, value)}")
    return [*single, *tables]


def _inline(record: Any) -> str:
    return "{ " + ", ".join(f"{name} = {_plain(hint, value)}" for name, hint, value in _fields(record)) + " }"


def _fields(record: Any) -> list[tuple[str, Any, Any]]:
    hints = get_type_hints(type(record))
    return [(item.name, hints[item.name], getattr(record, item.name)) for item in fields(record)]


def _is_records(value: object) -> bool:
    items = cast("Sequence[object]", value) if isinstance(value, tuple) else ()
    return isinstance(value, tuple) and all(is_dataclass(item) for item in items)


def _plain(hint: Any, value: Any) -> str:
    unit = _UNITS.get(DIMENSIONS.get(hint, ""))
    if unit is not None:
        return f'"{value} {unit}"' if isinstance(value, int) else f'"{value:.6g} {unit}"'
    return _text(value) if isinstance(value, str) else f"{value}" if isinstance(value, int) else f"{float(value):.6g}"


def _text(value: str) -> str:
    """A TOML string: JSON's escapes are TOML's."""
    return json.dumps(value, ensure_ascii=False)
