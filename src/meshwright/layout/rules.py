"""Rules a layout must keep: a model and columns of layouts go in; the first broken rule of each row comes out.

A rule is a predicate over columns and a sentence; what comes out has its code, the reason and the nearest degree that
keeps it. The rules of one engine are those of its file (`engine_rules`); these hold for any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from meshwright.layout.axes import AXES, stage_ranks
from meshwright.layout.context import by_weights, weight_ranks
from meshwright.layout.layouts import Layouts
from meshwright.model.feed_forwards import Dense, Experts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from meshwright.base.numbers import Bools, Ints
    from meshwright.layout.layout import Layout
    from meshwright.model.model import Model

Check: TypeAlias = "Callable[[Model, Layouts], Bools]"
Sentence: TypeAlias = "Callable[[Model, Layout], str]"
_TRIED: Final = 512
_PLAIN: Final = {
    **dict.fromkeys(("tp", "pp", "cp", "ep", "etp", "dp_shard", "dp_replicate", "virtual_stages", "micro_batch"), 1),
    "zero": 0,
    "sp": False,
    "offload": "none",
    "recompute": "none",
}
"""Fields that can be given up, and what they are without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """axis: the field to change.   keeps: True where a row keeps the rule.   sentence: why a row does not.

    values: of a field that is no degree, what may be tried.   reads: fields that it looks at, beside those that the
    rules of any engine look at.
    """

    code: str
    axis: str
    keeps: Check
    sentence: Sentence
    values: tuple[Any, ...] = ()
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first rule a row breaks. nearest: `k=v,...` to change; etp is what ep leaves of tp unless it is named."""

    code: str
    reason: str
    nearest: str | None


def first_broken(model: Model, layouts: Layouts, most: int, engine: Sequence[Rule] = ()) -> list[Broken | None]:
    """For each row the first broken rule, or None: of an engine's, if they are given, and of `RULES`.

    `most` bounds the search for the nearest degree.
    """
    rules = (*engine, *RULES)
    broken = np.stack([~rule.keeps(model, layouts) for rule in rules])
    first = np.argmax(broken, axis=0)
    reads = sorted({name for rule in engine for name in rule.reads})
    found: list[Broken | None] = [None] * len(layouts)
    known: dict[object, Broken] = {}
    for row in np.flatnonzero(broken.any(axis=0)).tolist():
        layout = layouts.row(row)
        rule = rules[int(first[row])]
        others = (layout.dp_replicate, layout.dp_shard, layout.cp, layout.tp, layout.ep, layout.etp)
        others = (*others, layout.attention, *(getattr(layout, name) for name in reads))
        key = (*broken[:, row].tolist(), getattr(layout, rule.axis), layout.sp, layout.zero, *others)
        if key not in known:  # rows that differ in nothing a rule looks at break it alike
            nearest = _nearest(model, layouts.take([row]), rule, most, rules)
            known[key] = Broken(code=rule.code, reason=rule.sentence(model, layout), nearest=nearest)
        found[row] = known[key]
    return found


def cuts_unevenly(model: Model, layouts: Layouts) -> Bools:
    """True where a row breaks none but rules of degrees that divide sizes: its shards can be told, though none runs."""
    return keeps(model, layouts, [rule for rule in RULES if rule.code not in _OF_SIZES])


_OF_SIZES: Final = frozenset({"LAY003", "LAY004", "LAY005", "LAY006", "LAY007"})


def keeps_all(model: Model, layouts: Layouts, engine: Sequence[Rule] = ()) -> Bools:
    """True where a row keeps every rule, those of an engine too if they are given."""
    return keeps(model, layouts, (*RULES, *engine))


def _nearest(model: Model, row: Layouts, rule: Rule, most: int, rules: Sequence[Rule]) -> str | None:
    """The degree of the rule's axis closest to the row's (the smaller of two) that keeps every rule, or else this one.

    The expert degrees are also tried as they follow from each other, so that `tp=8` is found where ep x etp was tp=12.
    With an engine's rules, where no one degree keeps all of them, several fields are given up; what keeps this rule
    alone, it would refuse too.
    """
    whole = _nearest_whole(model, row, rule, most, rules)
    if whole is not None:
        return whole
    if len(rules) > len(RULES):
        return _given_up(model, row, most, rules)
    return _nearest_whole(model, row, rule, most, (rule,))


def _nearest_whole(model: Model, row: Layouts, rule: Rule, most: int, rules: Sequence[Rule]) -> str | None:
    """The value of the rule's axis closest to the row's that keeps all of these rules."""
    if rule.values:
        return _nearest_value(model, row, rule, rules)
    value = int(row.degree(rule.axis)[0])
    around = np.arange(value - _TRIED, value + _TRIED)
    tried = np.union1d(np.arange(1, _TRIED), around[(around >= 1) & (around <= most)])
    tried = tried[tried <= max(most, 1)]
    tried = tried[np.argsort(np.abs(tried - value), kind="stable")]
    rows = row.take(np.zeros(len(tried), dtype=np.int64))
    probes = [rows.changed(change) for change in _changes(model, rows, rule.axis, tried)]
    good = np.stack([keeps(model, probe, rules) for probe in probes])
    if not good.any():
        return None
    place = int(np.argmax(good.any(axis=0)))
    return _spelled(row, probes[int(np.argmax(good[:, place]))].take([place]), rule.axis)


def _nearest_value(model: Model, row: Layouts, rule: Rule, rules: Sequence[Rule]) -> str | None:
    """The first value that keeps every rule, or else this one."""
    held = row.columns[rule.axis]
    column = np.array(rule.values, dtype=held.dtype)
    good = keeps(model, row.take(np.zeros(len(column), dtype=np.int64)).changed({rule.axis: column}), rules)
    found = rule.values[int(np.argmax(good))] if good.any() else None
    return None if found is None else f"{rule.axis}={str(found).lower()}"


def _given_up(model: Model, row: Layouts, most: int, rules: Sequence[Rule]) -> str | None:
    """The row with fields of broken rules given up one after the other, until it keeps every rule.

    Where none is left to give up, the last one's closest degree that keeps them all.
    """
    given: dict[str, Any] = {}
    for _ in range(len(_PLAIN)):
        probe = _with(row, given)
        broken = [rule for rule in rules if not rule.keeps(model, probe)[0]]
        if not broken:
            return _spelled_fields(given)
        read = [name for rule in broken for name in (rule.axis, *rule.reads) if name in _PLAIN and name not in given]
        left = [name for name in read if probe.columns[name].tolist()[0] != _PLAIN[name]]
        if not left:
            others = {name: value for name, value in given.items() if name != broken[0].axis}
            whole = _nearest_whole(model, _with(row, others), broken[0], most, rules)
            found = [] if whole is None else [item.split("=") for item in whole.split(",")]
            return _spelled_fields(others | dict(found)) if found else None
        given[left[0]] = _PLAIN[left[0]]
    return None


def _with(row: Layouts, given: Mapping[str, Any]) -> Layouts:
    return row.changed({name: np.array([value], row.columns[name].dtype) for name, value in given.items()})


def _spelled_fields(given: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={str(value).lower()}" for name, value in given.items())


def keeps(model: Model, layouts: Layouts, rules: Sequence[Rule]) -> Bools:
    """True where a row keeps every one of these rules."""
    kept = np.ones(len(layouts), dtype=np.bool_)
    for rule in rules:
        kept &= rule.keeps(model, layouts)
    return kept


def _changes(model: Model, rows: Layouts, axis: str, tried: Ints) -> list[dict[str, Ints]]:
    """The columns to change: the axis alone, then with the expert degrees that follow from it.

    Of a dense model that is cut by etp alone, that degree.
    """
    alone = {axis: tried}
    if not _experts(model):
        whole = axis == "ep" and bool((rows.degree("ep") == 1).all())
        return [alone, {"etp": np.ones_like(tried)}] if whole else [alone]
    tp, ep = rows.degree("tp"), rows.degree("ep")
    followed: dict[str, list[dict[str, Ints]]] = {
        "tp": [{"etp": np.maximum(tried // ep, 1)}, {"ep": np.ones_like(tried), "etp": tried}],
        "ep": [{"etp": np.maximum(tp // tried, 1)}],
        "etp": [{"ep": np.maximum(tp // tried, 1)}],
    }
    return [alone, *(alone | others for others in followed.get(axis, []))]


def _spelled(row: Layouts, found: Layouts, axis: str) -> str:
    """What changes of the row; etp is left out where it is not alone and ep and tp imply it."""
    implied = max(int(found.degree("tp")[0]) // int(found.degree("ep")[0]), 1)
    changed = {
        name: int(found.degree(name)[0]) for name in (*AXES, axis) if found.degree(name)[0] != row.degree(name)[0]
    }
    stated = {name: degree for name, degree in changed.items() if name != "etp" or degree != implied}
    return ",".join(f"{name}={degree}" for name, degree in (stated or changed).items())


def _divides(degrees: Ints, sizes: Iterable[int]) -> Bools:
    kept = np.ones(len(degrees), dtype=np.bool_)
    for size in sizes:
        kept &= size % degrees == 0
    return kept


def _undivided(degree: int, sizes: Iterable[int]) -> int:
    """The first size that the degree does not divide."""
    return next(size for size in sizes if size % degree)


def _undivided_heads(degree: int, model: Model) -> str:
    """The first count of heads that the degree does not divide, and what it is a count of."""
    for block in model.kinds:
        for count, what in zip(block.mixer.head_counts, block.mixer.head_names, strict=True):
            if count == _undivided(degree, head_counts(model)):
                return f"{count} {what}"
    raise AssertionError(degree)


def head_counts(model: Model) -> list[int]:
    """Counts of heads that tp must divide, over all kinds of blocks, each once, in order."""
    return sorted({count for block in model.kinds for count in block.mixer.head_counts})


def _kv_heads(model: Model) -> list[int]:
    return sorted({count for block in model.kinds for count in block.mixer.kv_head_counts})


def _dense_widths(model: Model) -> list[int]:
    dense = {block.feed_forward.intermediate for block in model.kinds if isinstance(block.feed_forward, Dense)}
    return sorted(dense | {item.shared.intermediate for item in _experts(model) if item.shared is not None})


def _experts(model: Model) -> list[Experts]:
    return [block.feed_forward for block in model.kinds if isinstance(block.feed_forward, Experts)]


def _expert_widths(model: Model) -> list[int]:
    return sorted({item.intermediate for item in _experts(model)})


def _expert_counts(model: Model) -> list[int]:
    return sorted({item.experts for item in _experts(model)})


def _kv_kept(model: Model, layouts: Layouts) -> Bools:
    degrees = layouts.degree("tp")
    kept = np.ones(len(degrees), dtype=np.bool_)
    for count in _kv_heads(model):
        kept &= (count % degrees == 0) | (degrees % count == 0)
    return kept


def _kv_sentence(model: Model, row: Layout) -> str:
    count = next(count for count in _kv_heads(model) if count % row.tp and row.tp % count)
    kinds = [block.mixer.kind for block in model.kinds if count in block.mixer.kv_head_counts]
    what = "KV heads" if any(kind.endswith("attention") for kind in kinds) else f"groups of {kinds[0]}"
    return f"tp={row.tp} neither divides {count} {what} nor is a multiple of them"


def _group(row: Layout) -> str:
    """The ranks over which a layer is cut, as the layout names them."""
    return f"tp={row.tp}" if weight_ranks(row) == row.tp else f"tp={row.tp} x cp={row.cp}"


def _experts_cover(model: Model, layouts: Layouts) -> Bools:
    """The ranks of a stage hold the experts a whole number of times; without experts ep and etp are 1.

    Ranks of a tp group work on the same rows unless sp deals them out, so without sp the experts cover whole groups.
    """
    spread = layouts.degree("ep") * layouts.degree("etp")
    if not _experts(model):
        return spread == 1
    tp = layouts.degree("tp")
    stage = stage_ranks(layouts.degree("dp_replicate"), layouts.degree("dp_shard"), layouts.degree("cp"), tp)
    return (stage % spread == 0) & ((spread % by_weights(layouts).degree("tp") == 0) | layouts.columns["sp"])


def _cover_sentence(model: Model, row: Layout) -> str:
    degrees = f"ep={row.ep} x etp={row.etp}"
    stage = row.dp_replicate * row.dp_shard * row.cp * row.tp
    if not _experts(model):
        return f"ep={row.ep}, etp={row.etp}: expert parallelism needs experts, and the model is dense"
    if stage == weight_ranks(row):
        return f"{degrees} is not {_group(row)}"
    if stage % (row.ep * row.etp):
        return f"{degrees} does not divide the {stage} ranks of a stage"
    return f"{degrees} is not a multiple of {_group(row)}, and without sp its ranks would repeat each other's work"


def _state_lines_up(_model: Model, layouts: Layouts) -> Bools:
    """Where dp_shard_cp cuts the experts' state, their view takes whole coordinates of it, or a part of one."""
    spread: Any = layouts.degree("ep") * layouts.degree("etp")
    tp, shards = layouts.degree("tp"), layouts.degree("dp_shard") * layouts.degree("cp")
    kept = (layouts.degree("zero") == 0) | (shards == 1)
    lined_up = np.ones(len(layouts), dtype=np.bool_)
    for ranks in (tp, tp * shards):
        lined_up &= (spread % ranks == 0) | (ranks % spread == 0)
    return kept | lined_up


RULES: Final = (
    Rule(
        code="LAY003",
        axis="tp",
        keeps=lambda model, layouts: _divides(by_weights(layouts).degree("tp"), head_counts(model)),
        sentence=lambda model, row: f"{_group(row)} does not divide {_undivided_heads(weight_ranks(row), model)}",
    ),
    Rule(code="LAY004", axis="tp", keeps=_kv_kept, sentence=_kv_sentence),
    Rule(
        code="LAY005",
        axis="tp",
        keeps=lambda model, layouts: _divides(by_weights(layouts).degree("tp"), _dense_widths(model)),
        sentence=lambda model, row: (
            f"{_group(row)} does not divide the feed-forward width "
            f"{_undivided(weight_ranks(row), _dense_widths(model))}"
        ),
    ),
    Rule(
        code="LAY006",
        axis="etp",
        keeps=lambda model, layouts: _divides(layouts.degree("etp"), _expert_widths(model)),
        sentence=lambda model, row: (
            f"etp={row.etp} does not divide the expert width {_undivided(row.etp, _expert_widths(model))}"
        ),
    ),
    Rule(
        code="LAY007",
        axis="ep",
        keeps=lambda model, layouts: _divides(layouts.degree("ep"), _expert_counts(model)),
        sentence=lambda model, row: f"ep={row.ep} does not divide {_undivided(row.ep, _expert_counts(model))} experts",
    ),
    Rule(code="LAY008", axis="ep", keeps=_experts_cover, sentence=_cover_sentence),
    Rule(
        code="LAY009",
        axis="ep",
        keeps=_state_lines_up,
        sentence=lambda _, row: (
            f"ep={row.ep} x etp={row.etp} and dp_shard={row.dp_shard} x cp={row.cp} cut the experts' state "
            "across each other"
        ),
    ),
    Rule(
        code="LAY010",
        axis="pp",
        keeps=lambda model, layouts: layouts.degree("pp") <= model.layers,
        sentence=lambda model, row: f"pp={row.pp} is more stages than {model.layers} layers",
    ),
)
