"""An engine's file goes in; its rules come out, as those that `rules` keeps: over columns, with a code and a sentence.

The one evaluator of what engines refuse. A rule of a file is a condition over names; it holds for a row where it holds
for every part of a block that has these names (each kind of attention, each width, each matrix with scales). A rule
whose names nobody gives numbers for (a training job's, where only a model is asked about) is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from meshwright.layout.axes import stage_ranks
from meshwright.layout.context import by_weights
from meshwright.layout.layout import CONTEXT_PARALLEL, Layout
from meshwright.layout.layouts import Layouts, distinct, table
from meshwright.layout.ownership import AXIS_OF_ROLE, local_sizes
from meshwright.layout.rules import Rule
from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.formats import WHOLE
from meshwright.model.mixers.told import ATTENTION_HEADS
from meshwright.model.model import block_weights
from meshwright.system.conditions import Condition, read_condition
from meshwright.system.engine import (
    BLOCK_NAMES,
    DERIVED_NAMES,
    JOB_NAMES,
    LAYOUT_NAMES,
    NAMES,
    About,
    Engine,
    EngineRule,
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints
    from meshwright.model.model import Block, Model
    from meshwright.model.tensors import Tensor

Column: TypeAlias = "Callable[[Layouts], Ints]"
Numbers: TypeAlias = "Mapping[str, int | Column]"
"""What a job adds to the names of rules: numbers, or columns of a table."""
NO_JOB: Final[Numbers] = {}

_DEFAULTS: Final = {item.name: item.default for item in fields(Layout)}
_FREE: Final = frozenset({"replicas", "attention", "micro_batch"})
"""Engines of their own; which samples copies see; and a size that every engine has."""
_MANY: Final = 4096
_ALL_ZEROS: Final = {"0", "1", "2", "3"}
_IN_STAGE: Final = {
    "dp": ("dp_shard", "dp_replicate"),
    "stage": ("dp_shard", "dp_replicate", "cp", "tp"),
    "group": ("attention", "cp", "tp"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """code: of a refusal."""

    code: str


_SUBJECTS: Final[Mapping[About, _Subject]] = {
    "heads": _Subject(code="ENG012"),
    "kv_heads": _Subject(code="ENG013"),
    "widths": _Subject(code="ENG014"),
    "vocabulary": _Subject(code="ENG015"),
    "experts": _Subject(code="ENG016"),
    "expert_width": _Subject(code="ENG017"),
    "layers": _Subject(code="ENG018"),
    "virtual_stages": _Subject(code="ENG019"),
    "micro_batches": _Subject(code="ENG020"),
    "sequence": _Subject(code="ENG021"),
    "scale_blocks": _Subject(code="ENG022"),
    "scale_groups": _Subject(code="ENG023"),
    "state": _Subject(code="ENG024"),
    "sp": _Subject(code="ENG025"),
    "ranks": _Subject(code="ENG026"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shard:
    """One side of a matrix whose scales are for `block` neighbours along it. place: of the side among the dims."""

    tensor: Tensor
    place: int
    block: int
    format: str

    @property
    def values(self) -> dict[str, Any]:
        """Its names of a rule."""
        side = "input" if self.place == len(self.tensor.dims) - 1 else "output"
        width = self.tensor.dims[self.place].size
        return {
            "shard": self.shard, "width": width, "block": self.block, "side": side, "format": self.format,
            "part": self.tensor.part,
        }  # fmt: skip

    def shard(self, layouts: Layouts) -> Ints:
        """What the fullest rank holds of the side, by the ownership table."""
        whole = layouts.changed({"zero": np.zeros(len(layouts), dtype=np.int64)})
        return local_sizes(self.tensor, whole)[self.place]


def engine_rules(engine: Engine, job: Numbers = NO_JOB) -> tuple[Rule, ...]:
    """Every rule that can be asked: those of the file, then what it does not have. Raises ENG005 for a faulty one."""
    own = [_rule(engine, name, job) for name in engine.rules]
    return (*(rule for rule in own if rule is not None), *_axes(engine))


def code_of(rule: EngineRule) -> str:
    """The code of its refusals."""
    return _SUBJECTS[rule.about].code


def _axes(engine: Engine) -> tuple[Rule, ...]:
    """Fields of a layout that the engine does not have, and choices that it does not know."""
    found: list[Rule] = []
    for name, default in _DEFAULTS.items():
        if name in _FREE:
            continue
        axis = engine.axes.get(name)
        if axis is None:
            found.append(_absent(engine, name, default))
        elif axis.values and not (name == "zero" and set(axis.values) == _ALL_ZEROS):
            found.append(_chosen(engine, name, tuple(axis.values)))
    return tuple(found)


def _absent(engine: Engine, name: str, default: Any) -> Rule:
    return Rule(
        code="ENG010",
        axis=name,
        keeps=lambda _, layouts: _equal(layouts, name, {str(default)}),
        sentence=lambda _, row: f"{name}={_word(getattr(row, name))}: {engine.titled} has no such axis",
        values=(default,),
        reads=(name,),
    )


def _chosen(engine: Engine, name: str, known: tuple[str, ...]) -> Rule:
    default = _DEFAULTS[name]
    read = int if isinstance(default, int) else str
    return Rule(
        code="ENG011",
        axis=name,
        keeps=lambda _, layouts: _equal(layouts, name, {*known, str(default)}),
        sentence=lambda _, row: f"{name}={_word(getattr(row, name))}: {engine.titled} has {', '.join(known)}",
        values=tuple(read(word) for word in known if "*" not in word),
        reads=(name,),
    )


def _equal(layouts: Layouts, name: str, words: set[str]) -> Bools:
    """Where a field holds one of these words; `uniform_*` is every word that begins so."""
    column = layouts.values_of(name)
    held = [any(fnmatchcase(str(value), word) for word in words) for value in column.values]
    return np.array(held, dtype=np.bool_)[column.numbers]


def _word(value: Any) -> str:
    return str(value).lower()


def _rule(engine: Engine, name: str, job: Numbers) -> Rule | None:
    stated, condition = engine.rules[name], _condition(engine, name)
    if not _needs(condition) <= set(job):
        return None

    def sentence(model: Model, row: Layout) -> str:
        one = table([row])
        given = _given(one, model, condition, job)
        spelled = {name: getattr(row, name) for name in LAYOUT_NAMES}
        broken = next(part for part in _parts(model, condition) if not _holds(condition, given, part, one))
        held = {key: _cell(value, one) for key, value in {**spelled, **given, **broken}.items()}
        field = f"{stated.axis}={_word(getattr(row, stated.axis))}"
        return f"{field}: {engine.titled} refuses it: {stated.message.format_map(held)}"

    return Rule(
        code=code_of(stated),
        axis=stated.axis,
        keeps=lambda model, layouts: _kept(condition, model, layouts, job),
        sentence=sentence,
        values=_values_of(stated.axis),
        reads=tuple(sorted({*_reads(condition), stated.axis})),
    )


def _values_of(axis: str) -> tuple[Any, ...]:
    """What may be tried of a field that is no degree."""
    known = {"sp": (True, False), "zero": (1, 2, 3, 0), "offload": ("none", "optimizer")}
    return {**known, "attention": (CONTEXT_PARALLEL, "replicated")}.get(axis, ())


def _condition(engine: Engine, name: str) -> Condition:
    return read_condition(engine.rules[name].requires, NAMES, f"{engine.id}: rules.{name}")


def _needs(condition: Condition) -> set[str]:
    """The names that only a job gives."""
    return set(condition.names & JOB_NAMES)


def _reads(condition: Condition) -> tuple[str, ...]:
    """Fields of a layout on which a condition depends."""
    found = set(condition.names & LAYOUT_NAMES)
    for name, own in _IN_STAGE.items():
        found |= set(own) if name in condition.names else set()
    if "shard" in condition.names:
        found |= {"tp", "ep", "etp"}
    if "micro_batches" in condition.names:
        found |= {"dp_shard", "dp_replicate", "micro_batch"}
    return tuple(sorted(found))


def _kept(condition: Condition, model: Model, layouts: Layouts, job: Numbers) -> Bools:
    """Where the condition holds for every part; of many rows once for those that differ in nothing it reads."""
    place: Any
    few, place = layouts.plain(), slice(None)
    if len(layouts) > _MANY:
        few, place = distinct(few, _reads(condition))
    given = _given(few, model, condition, job)
    kept = np.ones(len(few), dtype=np.bool_)
    for part in _parts(model, condition):
        kept &= _holds(condition, given, part, few)
    return kept[place]


def _holds(condition: Condition, given: Mapping[str, Any], part: Mapping[str, Any], layouts: Layouts) -> Any:
    named = {name: value(layouts) if callable(value) else value for name, value in part.items()}
    return condition.of({**given, **named})


def _given(layouts: Layouts, model: Model, condition: Condition, job: Numbers) -> dict[str, Any]:
    """The values of all names but those of a block."""
    degree = layouts.columns
    found: dict[str, Any] = {name: degree[name] for name in condition.names & LAYOUT_NAMES}
    if condition.names & DERIVED_NAMES:
        found["dp"] = degree["dp_shard"] * degree["dp_replicate"]
        found["stage"] = stage_ranks(degree["dp_replicate"], degree["dp_shard"], degree["cp"], degree["tp"])
        found["group"] = by_weights(layouts).degree("tp")
    found |= {"hidden": model.hidden, "vocab": model.vocab, "layers": model.layers, "tied": model.tied}
    for name, value in job.items():
        if name in condition.names:
            found[name] = value(layouts) if callable(value) else value
    return found


def _cell(value: Any, layouts: Layouts) -> Any:
    plain = value(layouts) if callable(value) else value
    return plain[0] if isinstance(plain, np.ndarray) else plain


def _parts(model: Model, condition: Condition) -> list[dict[str, Any]]:
    """The parts of blocks that have every name of the condition; one without names where it has none of a block."""
    wanted = condition.names & BLOCK_NAMES
    if not wanted:
        return [{}]
    return [dict(part) for part in _all_parts(model) if wanted <= dict(part).keys()]


@cache
def _all_parts(model: Model) -> tuple[tuple[tuple[str, Any], ...], ...]:
    """Attention, feed-forwards and matrices with scales of every kind of block, each once."""
    found: dict[tuple[tuple[str, Any], ...], None] = {}
    for number, block in enumerate(model.kinds):
        for part in (*_attention(block), *_feed_forwards(block)):
            found[tuple(part.items())] = None
        for tensor in block_weights(model, number):
            for shard in _shards(model, tensor):
                found[tuple(shard.values.items())] = None
    return tuple(found)


def _attention(block: Block) -> list[dict[str, Any]]:
    counts = zip(block.mixer.head_counts, block.mixer.head_names, strict=True)
    heads = [{"heads": count} for count, what in counts if what == ATTENTION_HEADS]  # what engines read in the config
    return [*heads, *({"kv_heads": count} for count in block.mixer.kv_head_counts)]


def _feed_forwards(block: Block) -> list[dict[str, Any]]:
    layer = block.feed_forward
    if isinstance(layer, Dense):
        return [{"intermediate": layer.intermediate}]
    if not isinstance(layer, Experts):
        return []
    own = {"experts": layer.experts, "expert_intermediate": layer.intermediate, "top_k": layer.top_k}
    return [own] if layer.shared is None else [own, {"shared_intermediate": layer.shared.intermediate}]


def _shards(model: Model, tensor: Tensor) -> list[_Shard]:
    """The sides of a matrix that an axis cuts and whose neighbours share scales."""
    stored = model.format_of(tensor)
    if stored.block is None or len(tensor.dims) < len(stored.block):
        return []
    first = len(tensor.dims) - len(stored.block)
    return [
        _Shard(tensor=tensor, place=first + number, block=width, format=stored.name.split("[")[0])
        for number, width in enumerate(stored.block)
        if width != WHOLE and width > 1 and tensor.dims[first + number].role in AXIS_OF_ROLE
    ]
