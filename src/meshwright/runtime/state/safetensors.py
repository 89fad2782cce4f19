"""Hugging Face safetensors, by slices: a folder and an index range go in, values come out; and the way back.

A file is eight bytes (the length of a header), the header (JSON: type, shape and place of each tensor) and the values
in row-major order. Source: https://github.com/huggingface/safetensors, "Format". Reading maps the file and touches only
what is asked for; writing maps it too, so that ranks write their own parts of one file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import torch
import torch.distributed as dist

from meshwright.base.errors import RunError
from meshwright.base.parse import read_json, read_text
from meshwright.runtime.state.weights import kept, shapes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshwright.model.model import Model
    from meshwright.runtime.modules.decoder import Ranges
    from meshwright.runtime.state.weights import Values
    from meshwright.runtime.world import World

_TYPES: Final[Mapping[str, torch.dtype]] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_NAMES: Final = {dtype: name for name, dtype in _TYPES.items()}
_PREFIX: Final = 8
_ALIGNMENT: Final = 8
_LONGEST_HEADER: Final = 100_000_000
"""As the format's own reader allows."""

INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One tensor of a file. start: of its values, from the start of the file."""

    file: Path
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int


def read_entries(folder: Path) -> dict[str, Entry]:
    """Every tensor of a folder with `model.safetensors`, or with an index of several files, by name.

    Raises RUN016 for a file that is not there, is no safetensors file, or is cut short.
    """
    index = folder / INDEX
    files = [folder / SINGLE]
    if index.is_file():
        data: Any = read_json(read_text(index), str(index))
        listed: Any = data.get("weight_map") if isinstance(data, dict) else None
        if not isinstance(listed, dict):
            raise RunError(16, f"{index} has no weight_map", "fetch it again")
        files = sorted({folder / str(name) for name in cast("dict[str, Any]", listed).values()})
    return {name: entry for file in files for name, entry in _entries_of(file)}


def stored_values(folder: Path, names: Mapping[str, tuple[int, ...]], *, tied: bool) -> Values:
    """Values by name and index range, from a folder. names: what a model needs, with its shapes.

    Raises RUN017 for a tensor that is missing or has another shape.
    """
    entries = read_entries(folder)
    for name, shape in names.items():
        if name not in entries:
            raise RunError(17, f"{folder}: no tensor {name}", "give the folder of a model of this family")
        if entries[name].shape != shape:
            cause = f"{folder}: {name} is {list(entries[name].shape)}, and the model says {list(shape)}"
            raise RunError(17, cause, "give the config.json that lies beside the weights")

    def values(name: str, ranges: tuple[range, ...]) -> torch.Tensor:
        own = name in entries and not (tied and name == "lm_head.weight")
        return read_part(entries[name if own else "model.embed_tokens.weight"], ranges)

    return values


def read_part(entry: Entry, ranges: tuple[range, ...]) -> torch.Tensor:
    """The values of an index range, copied out of the file."""
    part = _mapped(entry, "r")[_slices(ranges)]
    return torch.from_numpy(np.array(part)).view(entry.dtype)


def create(file: Path, shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype) -> dict[str, Entry]:
    """A file of that size with a header and no values yet; every tensor's entry comes back, to be written to."""
    size = dtype.itemsize
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, shape in shapes.items():
        stop = start + math.prod(shape) * size
        header[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with file.open("wb") as out:
        out.write(len(text).to_bytes(_PREFIX, "little") + text)
        out.truncate(_PREFIX + len(text) + start)
    return dict(_entries_of(file))


def write_part(entry: Entry, ranges: tuple[range, ...], values: torch.Tensor) -> None:
    """Write the values of an index range into a file that `create` made."""
    there = _mapped(entry, "r+")
    there[_slices(ranges)] = _bits(values.detach().to("cpu", entry.dtype))
    there.flush()


def write_weights(  # noqa: PLR0917 - a rank's part of a run
    folder: Path,
    world: World,
    parameters: Sequence[tuple[str, torch.Tensor]],
    owned: Ranges,
    model: Model,
    config: Mapping[str, Any],
) -> None:
    """All ranks write their parts of one file, `model.safetensors`, which takes its name when the last has written.

    parameters: of this rank, by name.   owned: their index ranges.   config: written beside it, as `config.json`.
    Raises RUN019, on every rank, where the folder can not be written. Ranks must see one file system.
    """
    kind = parameters[0][1].dtype
    part = folder / _agreed(world, f"{SINGLE}.{os.getpid()}.part")
    wrong = "" if world.rank else _begun(folder, part, shapes_of(model), kind)
    _check_written(_agreed(world, wrong))
    entries = dict(_entries_of(part))
    for name, value in parameters:
        if kept(value).numel():
            write_part(entries[name], owned[name], kept(value))
    if world.mesh is not None:
        dist.barrier()
    _check_written(_agreed(world, "" if world.rank else _ended(folder, part, kind, config)))


def _agreed(world: World, text: str) -> str:
    """What rank 0 says, on every rank."""
    told = [text]
    if world.mesh is not None:
        dist.broadcast_object_list(told)
    return told[0]


def _check_written(wrong: str) -> None:
    if wrong:
        raise RunError(19, wrong, "give a folder that can be written, and that all ranks see")


def _begun(folder: Path, part: Path, shapes: Mapping[str, tuple[int, ...]], kind: torch.dtype) -> str:
    """The folder and a file without values; what went wrong, or nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        create(part, shapes, kind)
    except OSError as problem:
        return f"{folder}: {problem.strerror}"
    return ""


def _ended(folder: Path, part: Path, kind: torch.dtype, config: Mapping[str, Any]) -> str:
    """The file and its config take their names; what went wrong, or nothing."""
    try:
        text = json.dumps({**config, "torch_dtype": str(kind).removeprefix("torch.")}, indent=2)
        beside = part.with_suffix(".config")
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(folder / "config.json")
        part.replace(folder / SINGLE)
    except OSError as problem:
        return f"{folder}: {problem.strerror}"
    return ""


def _entries_of(file: Path) -> Iterator[tuple[str, Entry]]:
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(_PREFIX), "little")
            head = stream.read(length) if length <= min(size, _LONGEST_HEADER) else b""
    except OSError as problem:
        raise RunError(16, f"{file}: {problem.strerror}", "give a folder with model.safetensors") from problem
    try:
        header = cast("dict[str, Any]", json.loads(head))
        known = [(name, item) for name, item in header.items() if name != "__metadata__"]
        items = [(name, item) for name, item in known if item["dtype"] in _TYPES]  # no weight of ours is a whole number
        found = [(name, _entry(file, item, _PREFIX + length, size)) for name, item in items]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        cause = f"{file} is no safetensors file, or is cut short"
        raise RunError(16, cause, "fetch it again") from problem
    yield from found


def _entry(file: Path, item: Mapping[str, Any], base: int, size: int) -> Entry:
    first, last = item["data_offsets"]
    dtype, shape = _TYPES[item["dtype"]], tuple(int(length) for length in item["shape"])
    if last - first != math.prod(shape) * dtype.itemsize or not 0 <= first <= last <= size - base:
        raise ValueError(file)
    return Entry(file=file, dtype=dtype, shape=shape, start=base + first)


def _mapped(entry: Entry, mode: Any) -> np.memmap[Any, Any]:
    """The values as unsigned integers as wide: numpy knows no bfloat16."""
    kind = np.dtype(f"<u{entry.dtype.itemsize}")
    return np.memmap(entry.file, dtype=kind, mode=mode, offset=entry.start, shape=entry.shape)


def _bits(values: torch.Tensor) -> Any:
    widths: Mapping[int, torch.dtype] = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    width = values.dtype.itemsize
    return values.contiguous().view(widths[width]).numpy().view(np.dtype(f"<u{width}"))


def _slices(ranges: Sequence[range]) -> tuple[slice, ...]:
    return tuple(slice(part.start, part.stop) for part in ranges)
