"""`uniform`, `even`, `zipf:S`, `counts:...` or a file goes in; how tokens choose their experts comes out, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from meshwright.base.errors import JobError
from meshwright.base.parquet import read_columns
from meshwright.base.parse import build, read_json, read_text, read_toml
from meshwright.job.expert_load import ExpertChoices, ExpertReads, RoutedReads, checked_choices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.base.numbers import Floats, Ints

TokenRouting: TypeAlias = Literal["even", "uniform"] | RoutedReads
"""How the rows of a training step fall on experts."""
Law: TypeAlias = Literal["uniform", "even", "zipf", "counts", "trace"]
_WAYS: Final = "give uniform, even, zipf:1.2, counts:8x64,120x0, or a file (.parquet, .json, .toml)"
_MOST_EXPONENT: Final = 10.0
_MOST_COUNTED: Final = 1 << 16
_MOST_WHOLE: Final = 2.0**53 - 1.0
"""Beyond it two numbers may be read as one."""


def _no_choices() -> Ints:
    return np.zeros((0, 0, 0), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routing:
    """How the tokens of every layer choose experts, each `top_k` different ones.

    law: `uniform`, each set alike and each token apart; `even`, dealt so that no expert has one row more than another;
    `zipf`, one after the other among those left, expert e in proportion to (e + 1)^-exponent; `counts`, each expert as
    often as `counts` says; `trace`, what was recorded.   counts: a row for all layers, or one for each of `layers`.
    layers: those of the model that counts or choices were recorded in; empty for all.
    choices: [layers, tokens, top_k] of the trace.   digest: of a file's numbers, by which an answer names it.
    """

    law: Law
    exponent: float = 0.0
    counts: tuple[tuple[float, ...], ...] = ()
    layers: tuple[int, ...] = ()
    digest: str = ""
    choices: Ints = field(default_factory=_no_choices)


UNIFORM: Final = Routing(law="uniform")


def read_routing(text: str, what: str = "--routing") -> Routing:
    """The option's text as what it says. what: the option, for errors.

    Raises JOB120 (a word that is none of these, an exponent), JOB121 (a trace or counts that cannot be), and the codes
    of files: IO010 to IO013, IO015, JOB126, JOB127.
    """
    name, _, rest = text.partition(":")
    if text == "uniform" or text == "even":  # noqa: PLR1714 - a type checker narrows only this form
        return Routing(law=text)
    if name == "zipf":
        return Routing(law="zipf", exponent=_exponent(f"{what} {text}", rest))
    if name == "counts":
        return Routing(law="counts", counts=(_counts(f"{what} {text}", rest),))
    path = Path(text)
    if path.suffix == ".parquet":
        return _of_columns(read_columns(path), path.name)
    if path.suffix not in {".json", ".toml"}:
        raise JobError(120, f"{what} {text}: no routing of that name", _WAYS)
    read = read_json if path.suffix == ".json" else read_toml
    choices = build(ExpertChoices, read(read_text(path), text), text).choices
    return Routing(law="counts", counts=(choices,), digest=_digest(np.array(choices)))


def read_expert_reads(text: str) -> ExpertReads:
    """`expected`, `full`, a number, or a routing, as what says how many experts a step reads.

    Uniform choices are `expected`; the counts of a JSON or TOML file are numbers, one an expert. Raises as
    `read_routing` does.
    """
    if text == "expected" or text == "full":  # noqa: PLR1714 - a type checker narrows only this form
        return text
    try:
        return float(text)
    except ValueError:
        routing = read_routing(text, "--expert-reads")
    return routing.counts[0] if Path(text).suffix in {".json", ".toml"} else reads_of(routing)


def reads_of(routing: Routing) -> ExpertReads:
    """A routing as experts read: of a trace, how often each expert was chosen in each layer."""
    if routing.law == "uniform" or (routing.law == "zipf" and routing.exponent == 0.0):
        return "expected"
    if routing.law == "even" or routing.law == "zipf":  # noqa: PLR1714 - as above
        return RoutedReads(law=routing.law, exponent=routing.exponent)
    counts = routing.counts
    if routing.law == "trace":
        width = int(routing.choices.max()) + 1
        found = [np.bincount(layer.reshape(-1), minlength=width) * 1.0 for layer in routing.choices]
        counts = tuple(tuple(row.tolist()) for row in found)
    return RoutedReads(law="counts", counts=counts, layers=routing.layers)


def read_token_routing(text: str) -> TokenRouting:
    """The option's text as how the rows of training fall on experts. Raises as `read_routing` does."""
    if text == "even" or text == "uniform":  # noqa: PLR1714 - as above
        return text
    routing = read_routing(text)
    reads = reads_of(routing)
    if isinstance(reads, RoutedReads):
        return reads
    return "uniform"


def checked_reads_of(reads: RoutedReads, layers: Mapping[int, tuple[int, int]], what: str) -> RoutedReads:
    """The reads themselves, once they can be those of a model; arguments and errors as in `checked_routing`."""
    routing = Routing(law=reads.law, exponent=reads.exponent, counts=reads.counts, layers=reads.layers)
    return replace(reads, counts=checked_routing(routing, layers, what).counts)


def checked_routing(routing: Routing, layers: Mapping[int, tuple[int, int]], what: str = "--routing") -> Routing:
    """The routing itself, once it can be that of a model. layers: (experts, top_k) of every layer with experts.

    Raises JOB007 (counts that cannot be those of a layer), JOB123 (a recording of another model).
    """
    foreign = sorted(set(routing.layers) - set(layers))
    if foreign:
        cause = f"{what}: recorded in layer {foreign[0]}, which has no experts"
        raise JobError(123, cause, f"number layers from 0; those with experts are {min(layers)} to {max(layers)}")
    widest = max(experts for experts, _ in layers.values())
    counts = tuple(row + (0.0,) * (widest - len(row)) for row in routing.counts)
    for place, layer in enumerate(routing.layers or layers):
        experts, top_k = layers[layer]
        if counts:
            checked_choices(_own(counts, place), experts, top_k, what)
        if routing.law == "trace":
            own = routing.choices[min(place, len(routing.choices) - 1)]
            if own.shape[1] != top_k or own.max() >= experts:
                cause = f"{what}: layer {layer} has {own.shape[1]} choices a token, the largest is {own.max()}"
                raise JobError(123, cause, f"the model chooses {top_k} of {experts} experts, numbered from 0")
    return replace(routing, counts=counts)


def _own(counts: tuple[tuple[float, ...], ...], place: int) -> tuple[float, ...]:
    return counts[min(place, len(counts) - 1)]


def _exponent(text: str, rest: str) -> float:
    try:
        found = float(rest)
    except ValueError:
        found = math.nan
    if not 0 <= found <= _MOST_EXPONENT:
        raise JobError(120, f"{text}: no exponent", f"give one from 0 to {_MOST_EXPONENT:g}, as in zipf:1.2")
    return found


def _counts(text: str, rest: str) -> tuple[float, ...]:
    """`64x768,64x256` as 64 experts with 768 rows, then 64 with 256; a plain number is one expert."""
    found: list[float] = []
    for part in rest.split(","):
        repeat, _, value = part.strip().rpartition("x")
        try:
            times, each = int(repeat or 1), float(value)
        except ValueError as problem:
            raise JobError(120, f"{text}: {part.strip()!r} is no count", _WAYS) from problem
        if not 1 <= times <= _MOST_COUNTED - len(found):
            raise JobError(120, f"{text}: {part.strip()!r} is of no expert, or too many", _WAYS)
        found += [each] * times
    return tuple(found)


def _of_columns(columns: Mapping[str, Floats], name: str) -> Routing:
    """A recording: columns layer, token and expert, one row a choice; or layer (optional), expert and count."""
    for wanted in ("expert", "token" if "count" not in columns else "count"):
        if wanted not in columns:
            cause = f"{name}: no column {wanted}, only {', '.join(columns) or 'none'}"
            raise JobError(121, cause, "give layer, token, expert, one row a choice; or layer, expert, count")
    size = len(columns["expert"])
    if not size:
        raise JobError(121, f"{name}: no rows", "record at least one token")
    layer, expert = (
        _whole(columns.get("layer", np.zeros(size)), "layer", name),
        _whole(columns["expert"], "expert", name),
    )
    stated = tuple(np.unique(layer).tolist()) if "layer" in columns else ()
    digest = _digest(layer, expert, columns.get("token", columns.get("count", expert)))
    if "count" in columns:
        return Routing(law="counts", counts=_table(layer, expert, columns["count"], name), layers=stated, digest=digest)
    choices = _traced(layer, _whole(columns["token"], "token", name), expert, name)
    return Routing(law="trace", choices=choices, layers=stated, digest=digest)


def _whole(column: Floats, what: str, name: str) -> Ints:
    if not ((column >= 0) & (column <= _MOST_WHOLE) & (column == np.floor(column))).all():
        raise JobError(121, f"{name}: column {what} has other than whole numbers from 0, below 2^53", "number from 0")
    return column.astype(np.int64)


def _table(layer: Ints, expert: Ints, count: Floats, name: str) -> tuple[tuple[float, ...], ...]:
    """Counts by layer, as long as the largest expert says; an expert without a row was never chosen."""
    layers, place = np.unique(layer, return_inverse=True)
    width = int(expert.max()) + 1
    if width > _MOST_COUNTED:
        raise JobError(121, f"{name}: expert {width - 1} is no number of an expert", "number from 0")
    key = place * width + expert
    if len(np.unique(key)) < len(key):
        raise JobError(121, f"{name}: an expert of a layer stands in two rows", "add its counts up")
    rows = np.zeros(len(layers) * width)
    rows[key] = count
    return tuple(map(tuple, rows.reshape(len(layers), width).tolist()))


def _traced(layer: Ints, token: Ints, expert: Ints, name: str) -> Ints:
    """[layers, tokens, top_k], tokens by their numbers. As many choices for each token of each layer, all different."""
    layers, of_layer = np.unique(layer, return_inverse=True)
    tokens, of_token = np.unique(token, return_inverse=True)
    order = np.lexsort((expert, of_token, of_layer))
    pair = (of_layer * len(tokens) + of_token)[order]
    counts = np.bincount(pair, minlength=len(layers) * len(tokens))
    top_k = int(counts.max())
    if (counts != top_k).any():
        odd = int(np.flatnonzero(counts != top_k)[0])
        where = f"layer {layers[odd // len(tokens)]}, token {tokens[odd % len(tokens)]}"
        cause = f"{name}: {where} has {counts[odd]} choices, and another has {top_k}"
        raise JobError(121, cause, "record every token in every layer, with all its choices")
    found = expert[order].reshape(len(layers), len(tokens), top_k)
    if (np.diff(found, axis=2) == 0).any():
        raise JobError(121, f"{name}: a token chose one expert twice", "a token's experts are different ones")
    return found


def _digest(*columns: Floats | Ints) -> str:
    told = sha256()
    for column in columns:
        told.update(np.ascontiguousarray(column, dtype=np.float64).tobytes())
    return told.hexdigest()[:16]
