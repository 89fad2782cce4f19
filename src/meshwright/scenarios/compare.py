"""What changed between two saved answers? Two documents of one command go in; what differs comes out, largest first.

The verdict is `yes` when both have the same answer: the same yes, no or unknown, and the same best candidate (by id, or
none in both). It is `no` when the verdict or the choice differs. Numbers that moved under an unmoved choice are listed
and change no verdict.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeGuard, cast

from meshwright.base.errors import FileError
from meshwright.base.leaves import leaves
from meshwright.base.parse import read_json, read_text
from meshwright.base.result import SCHEMA_VERSION, Basis, Result, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from meshwright.base.leaves import Leaf
    from meshwright.base.result import Json

    Part: TypeAlias = Mapping[str, Leaf]

Document: TypeAlias = "Mapping[str, Any]"
BEST: Final = "best"
ANSWER: Final = "answer"
NOT_MODELLED: Final = (
    "causes: inputs and numbers that differ are listed side by side, and not which input moved which number",
    "flips, sensitivity, warnings, notes and sources are not compared",
)
_COMMON: Final = frozenset({"schema_version", *(item.name for item in fields(Result))})
_LARGEST: Final = 1e150


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A number that both have. of: `best`, a candidate's id, or `answer` for what stands outside the candidates.

    a, b, difference (b - a): in the unit at the end of `path`.   relative: difference over the size of a; None from 0.

    The best of both answers stands as `best`, and under its id too when that is the same.
    """

    of: str
    path: str
    a: float
    b: float
    difference: float
    relative: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reworded:
    """A word, a truth or a list's entry that both have and that differs. of: as in `Moved`, or `inputs`."""

    of: str
    path: str
    a: bool | float | str | None
    b: bool | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyOne:
    """A number that stands only in `side`; in the other it is missing or null."""

    side: Literal["a", "b"]
    of: str
    path: str
    value: float


def read_answer(path: Path) -> Document:
    """A saved answer, checked. Raises IO010, IO012 (the file), IO040 to IO042 (no answer of this version)."""
    data = read_json(read_text(path), str(path))
    save = "save one with --format json -o FILE"
    if not isinstance(data, dict) or "schema_version" not in data:
        raise FileError(40, f"{path} is no answer of meshwright", save)
    document = cast("dict[str, Any]", data)
    if document["schema_version"] != SCHEMA_VERSION:
        cause = f"{path} has schema_version {document['schema_version']!r}, and this program writes {SCHEMA_VERSION!r}"
        raise FileError(41, cause, "ask the question again with this version")
    if "error" in document:
        said = leaves(document).get("error.message", "its question was refused")
        raise FileError(42, f"{path} holds no answer, {said}", "mend that first, then save the answer")
    wrong = next((name for name, holds in _SHAPE.items() if not holds(document.get(name))), None)
    if wrong is not None:
        raise FileError(40, f"{path} is no answer of meshwright: its {wrong!r} is not one", save)
    beyond = next((place for place, value in leaves(document).items() if not _countable(value)), None)
    if beyond is not None:
        raise FileError(40, f"{path} is no answer of meshwright: {beyond} is not a finite number", save)
    return document


def compare(a: Document, b: Document) -> Result:
    """What differs from `a` to `b`, two documents of `read_answer`. Raises IO043 for two commands."""
    if a["command"] != b["command"]:
        cause = f"A answers {a['command']!r} and B answers {b['command']!r}"
        raise FileError(43, cause, "compare two answers of one command")
    inputs = _reworded("inputs", leaves(a["inputs"]), leaves(b["inputs"]))
    pairs = list(_pairs(a, b))
    moved = sorted((item for of, one, other in pairs for item in _moved(of, one, other)), key=_largest_first)
    best = {side: None if item["best"] is None else item["best"]["id"] for side, item in (("a", a), ("b", b))}
    ids = {side: [item["id"] for item in document["candidates"]] for side, document in (("a", a), ("b", b))}
    return Result(
        command="compare",
        verdict=_verdict(a, b, best, inputs, moved),
        inputs={
            "model": None,
            "system": None,
            "job": None,
            "layout": None,
            "options": {"a": _digest(a), "b": _digest(b)},
        },
        not_modelled=NOT_MODELLED,
        basis={"changes[].difference": f"{Basis.FORMULA.value}: b - a", "changes[].relative": Basis.FORMULA.value},
        body={
            "compared": a["command"],
            "verdicts": {"a": a["verdict"], "b": b["verdict"]},
            "best_ids": best,
            "inputs_changed": inputs,
            "changes": moved,
            "words_changed": [item for of, one, other in pairs for item in _reworded(of, one, other)],
            "only": [item for of, one, other in pairs for item in _only(of, one, other)],
            "candidates_only": {
                "a": [item for item in ids["a"] if item not in set(ids["b"])],
                "b": [item for item in ids["b"] if item not in set(ids["a"])],
            },
        },
    )


def _verdict(
    a: Document, b: Document, best: Mapping[str, str | None], inputs: list[Reworded], moved: list[Moved]
) -> Verdict:
    told = f"{_count(len(inputs), 'input')} and {_count(len(moved), 'number')} differ"
    if a["verdict"]["answer"] != b["verdict"]["answer"]:
        text = f"the verdict differs, {a['verdict']['answer']} against {b['verdict']['answer']}"
    elif best["a"] != best["b"]:
        text = f"the choice differs, {best['a'] or 'none'} against {best['b'] or 'none'}"
    else:
        choice = "" if best["a"] is None else f", and {best['a']}"
        return Verdict(answer="yes", text=f"both answer {a['verdict']['answer']}{choice}; {told}")
    return Verdict(answer="no", text=f"{text}; {told}")


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _pairs(a: Document, b: Document) -> Iterator[tuple[str, Part, Part]]:
    """What is laid side by side: the best of each, candidates by their ids, and what is outside them."""
    if a["best"] is not None and b["best"] is not None:
        yield BEST, leaves(a["best"]), leaves(b["best"])
    others = {item["id"]: item for item in b["candidates"]}
    for item in a["candidates"]:
        if item["id"] in others:
            yield item["id"], leaves(item), leaves(others[item["id"]])
    yield ANSWER, _own(a), _own(b)


def _own(document: Document) -> Part:
    """The blocks that belong to the command alone, such as a study's answer."""
    return leaves({name: value for name, value in document.items() if name not in _COMMON})


def _moved(of: str, a: Part, b: Part) -> Iterator[Moved]:
    for path, one in a.items():
        other = b.get(path)
        if _is_number(one) and _is_number(other) and one != other:
            relative = (other - one) / abs(one) if one else math.inf
            known = relative if math.isfinite(relative) else None
            yield Moved(of=of, path=path, a=one, b=other, difference=other - one, relative=known)


def _reworded(of: str, a: Part, b: Part) -> list[Reworded]:
    """What differs and is no number on both sides; of the inputs, every difference."""
    found: list[Reworded] = []
    for path in dict.fromkeys((*a, *b)):
        one, other = a.get(path), b.get(path)
        numbers = _is_number(one) or _is_number(other)
        if one != other and (of == "inputs" or not numbers):
            found.append(Reworded(of=of, path=path, a=one, b=other))
    return found


def _only(of: str, a: Part, b: Part) -> Iterator[OnlyOne]:
    sides: tuple[tuple[Literal["a", "b"], Part, Part], ...] = (("a", a, b), ("b", b, a))
    for side, own, other in sides:
        for path, value in own.items():
            if _is_number(value) and not _is_number(other.get(path)):
                yield OnlyOne(side=side, of=of, path=path, value=value)


def _largest_first(item: Moved) -> tuple[float, str, str]:
    """From zero is the largest change of all; then by size, then by name."""
    return -math.inf if item.relative is None else -abs(item.relative), item.of, item.path


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _countable(value: object) -> bool:
    """Whether differences and ratios of it can be told; the other values are no numbers."""
    return not _is_number(value) or abs(value) <= _LARGEST


def _digest(document: Document) -> str:
    """The document's name by its contents: a result holds no path."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _is_candidate(value: object) -> bool:
    return isinstance(value, dict) and isinstance(cast("dict[str, Json]", value).get("id"), str)


def _is_verdict(value: object) -> bool:
    verdict = cast("dict[str, Json]", value) if isinstance(value, dict) else {}
    return verdict.get("answer") in ("yes", "no", "unknown") and isinstance(verdict.get("text"), str)


def _are_candidates(value: object) -> bool:
    if not isinstance(value, list) or not all(map(_is_candidate, cast("list[Json]", value))):
        return False
    ids = [item["id"] for item in cast("list[dict[str, Json]]", value)]
    return len(set(cast("list[str]", ids))) == len(ids)


_SHAPE: Final[dict[str, Callable[[Any], bool]]] = {
    "command": lambda value: isinstance(value, str),
    "verdict": _is_verdict,
    "inputs": lambda value: isinstance(value, dict),
    "best": lambda value: value is None or _is_candidate(value),
    "candidates": _are_candidates,
}
