"""A `Model` whose fields were set by hand goes in; the model itself comes out, once its sizes make sense.

A config is checked field by field as it is read; `--set model....` changes a model that was read already.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Final, cast

from meshwright.base.errors import ModelError
from meshwright.model.config import LARGEST
from meshwright.model.feed_forwards import Experts
from meshwright.model.mixers import Attention
from meshwright.model.model import Model, parameter_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

TOGETHER: Final = "give sizes that go together"
"""The fix of what `mismatch` says: which of the sizes is wrong is not known."""
MOST_LAYERS: Final = 10_000
MOST_PARAMETERS: Final = 10**16
_MOST: Final = {"bits": 64, "word_bits": 64, "parameters": MOST_PARAMETERS}
_MAY_BE_ZERO: Final = frozenset({"scale_bytes", "parameters", "position_rows"})


def checked_model(model: Model, what: str) -> Model:
    """The model itself.

    Raises MOD007 (sizes of a mixer), MOD010 (experts), MOD012 (more than any model has), MOD014 (a number), MOD031
    (shared keys).
    """
    for path, value in _numbers(model, what):
        name = path.rpartition(".")[2]
        if ".rope." in path and math.isfinite(value):
            continue  # only reported
        least, most = 0 if name in _MAY_BE_ZERO else 1, _MOST.get(name, LARGEST)
        if not (isinstance(value, int) and least <= value <= most):
            raise ModelError(14, f"{path} is {value}", f"give a whole number from {least} to {most}")
    if not 1 <= model.layers <= MOST_LAYERS:
        raise ModelError(12, f"{what}: {model.layers} layers", f"give 1 to {MOST_LAYERS}")
    for group in model.groups:
        mixer, layer = group.block.mixer, group.block.feed_forward
        if mixer.mismatch():
            raise ModelError(7, f"{what}: {mixer.mismatch()}", TOGETHER)
        if isinstance(layer, Experts) and layer.top_k > layer.experts:
            cause = f"{what}: top_k={layer.top_k} is more than the {layer.experts} experts"
            raise ModelError(10, cause, f"give top_k <= {layer.experts}")
    _check_shared(model, what)
    return check_size(model)


def _check_shared(model: Model, what: str) -> None:
    """Each layer without keys of its own comes after one that keeps what it reads."""
    kept: set[tuple[int | None, ...]] = set()
    for layer, kind in enumerate(model.kind_of_layer):
        mixer = model.kinds[kind].mixer
        if not isinstance(mixer, Attention):
            continue
        read = _cache_of(mixer)
        if not mixer.shared_kv:
            kept.add(read)
        elif read not in kept:
            cause = (
                f"{what}: layer {layer} reads keys of {mixer.kv_heads} heads x {mixer.head_dim} and its window that no"
            )
            cause = f"{cause} layer before it keeps"
            raise ModelError(31, cause, "give it the KV heads, head_dim, window and chunk of one before it")


def _cache_of(mixer: Attention) -> tuple[int | None, ...]:
    """What decides a layer's cache, and nothing else."""
    return (mixer.kv_heads, mixer.head_dim, mixer.window, mixer.chunk)


def check_size(model: Model) -> Model:
    """The model itself. Raises MOD012 when it has more parameters than any model: its bytes would not be exact."""
    total = parameter_counts(model)["total"]
    if total > MOST_PARAMETERS:
        raise ModelError(12, f"the config describes {total:.3g} parameters", "check its sizes: no model is that large")
    return model


def _numbers(value: object, path: str) -> Iterator[tuple[str, int | float]]:
    """Every number of the shapes and formats, with its place; what was read beside them is left out."""
    if is_dataclass(value):
        inside = [(item.name, getattr(value, item.name)) for item in fields(value)]
        for name, item in inside:
            yield from _numbers(item, f"{path}.{name}") if name != "defaulted" else ()
    elif isinstance(value, tuple):
        for index, item in enumerate(cast("tuple[object, ...]", value)):
            yield from _numbers(item, f"{path}.{index}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value
