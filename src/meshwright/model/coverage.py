"""Lists of modules in a quantization go in; the parts of a model that it covers whole come out.

A list names modules as checkpoints do (`model.layers.3.mlp.gate`, `lm_head`, `self_attn`), by a wildcard
(`model.layers.*.self_attn*`) or by a regular expression (`re:.*mlp.gate$`). A name stands for all modules inside it.
A module is one format in all layers that have it, so a list that splits the layers of one is refused; but shared
experts may be kept plain beside routed ones, linear attention beside full, one projection beside the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Final
from warnings import catch_warnings, simplefilter

from meshwright.base.errors import ModelError
from meshwright.model.config import shown
from meshwright.model.feed_forwards import Experts
from meshwright.model.model import block_weights, last_weights

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshwright.model.model import Model
    from meshwright.model.tensors import Part

UNQUANTIZED: Final = "--weights bf16 plans the unquantized model"
_HEAD: Final = -1
_ROOTS: Final = ("model.language_model.", "language_model.model.", "language_model.", "model.", "")
_PATTERN: Final = re.compile(r"[*?\[\]()|+^$\\]")
_LAYER: Final = re.compile(r"(?:^|\.)layers\.(\d{1,9})(?:\.|$)")
_OUTSIDE: Final = re.compile(r"(^|\.)(visual|vision\w*|audio\w*|multi_modal_projector|mtp)(\.|$)")
_EXPERT: Final = re.compile(r"\.experts\.(\d{1,9})(?=\.|$)")
_NEVER_QUANTIZED: Final = re.compile(
    r"(^|\W)(lm_head|embed_tokens|\w*norm|gate|router|shared_expert_gate|e_score_correction_bias|mtp"
    r"|in_proj_ba|in_proj_[ab]|b_proj|conv1d|dt_bias|A_log|visual|vision_tower|vision_model|multi_modal_projector)(\W|$)"
)
# How else checkpoints and engines spell a module: (ours, theirs), of its start or of its end.
_STARTS: Final = (
    ("mlp.", "block_sparse_moe."),
    ("mlp.", "feed_forward."),
    ("mlp.shared_expert.", "mlp.shared_experts."),
)
_ENDS: Final = (
    ("mlp.gate", "mlp.router"),
    (".gate_proj", ".gate_up_proj"),
    (".up_proj", ".gate_up_proj"),
    (".gate_proj", ".w1"),
    (".up_proj", ".w3"),
    (".down_proj", ".w2"),
    (".q_proj", ".qkv_proj"),
    (".k_proj", ".qkv_proj"),
    (".v_proj", ".qkv_proj"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a list of modules, at a `place` of the config, selects: (module, layer) pairs; idle entries select none."""

    place: str
    chosen: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    idle: tuple[str, ...] = ()


def covered_parts(
    model: Model, parts: tuple[Part, ...], kept: Selection, targets: Selection | None = None
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Those of `parts` that the model has, that no list keeps plain, and that `targets`, when given, name.

    And the modules of such a part that are kept plain in all their layers. Raises MOD022 when layers of one differ.
    """
    found: list[Part] = []
    modules: list[str] = []
    for part in parts_present(model, parts):
        places = [place for place, of in _places(model).items() if of == part]
        plain = [place for place in places if place in kept.chosen or (targets and place not in targets.chosen)]
        if plain and len(plain) == len(places):
            continue
        modules += _whole_modules(places, set(plain), kept.place)
        found.append(part)
    return tuple(found), tuple(modules)


def _whole_modules(places: list[tuple[str, int]], plain: set[tuple[str, int]], listed: str) -> list[str]:
    """The modules that are plain in every layer that has them, by their parents where all inside is plain."""
    kept = dict.fromkeys(module for module, layer in places if (module, layer) in plain)
    for module, layer in places:
        if module in kept and (module, layer) not in plain:
            first = next(place for place in places if place in plain and place[0] == module)
            cause = f"{listed} keeps {_spelled(*first)} plain and not {_spelled(module, layer)}"
            raise ModelError(22, f"{cause}: a module has one format in all layers here", UNQUANTIZED)
    inside: dict[str, set[str]] = {}
    for module, _ in places:
        inside.setdefault(module.rpartition(".")[0], set()).add(module)
    parents = {module: module.rpartition(".")[0] for module in kept}
    return list(
        dict.fromkeys(parent if parent and inside[parent] <= set(kept) else name for name, parent in parents.items())
    )


def parts_present(model: Model, parts: Iterable[Part]) -> tuple[Part, ...]:
    """Those of `parts` of which the model has a matrix that may be quantized; a tied head is none."""
    present = set(_places(model).values())
    return tuple(part for part in parts if part in present)


def select(model: Model, entries: Iterable[str], place: str) -> Selection:
    """The matrices of a model that a list of modules names.

    place: the list, named in errors. Raises MOD022 for an entry that names a matrix of the decoder unknown here, or
    single experts.
    """
    chosen: set[tuple[str, int]] = set()
    idle: list[str] = []
    unique = list(dict.fromkeys(entries))
    patterns = [entry for entry in unique if entry.startswith("re:") or _PATTERN.search(entry)]
    for entry in patterns:
        matched = _matched(model, entry, place)
        chosen |= matched
        idle += [entry] if not matched and not _NEVER_QUANTIZED.search(entry) else []
    names = [entry for entry in unique if entry not in set(patterns) and not _OUTSIDE.search(entry)]
    for path, layers in _layers_by_path(model, names, place).items():
        matched = {(module, layer) for module, layer in _places(model) if _names(path, module) and _in(layer, layers)}
        if not matched and not _NEVER_QUANTIZED.search(path):
            cause = f"{place} names {shown(path)}, which is no matrix of this family here"
            raise ModelError(22, cause, UNQUANTIZED)
        chosen |= matched
    return Selection(place=place, chosen=chosen, idle=tuple(idle))


def _layers_by_path(model: Model, entries: list[str], place: str) -> dict[str, set[int | None]]:
    """The layers in which plain names name each path below a layer (None: all); single experts are refused."""
    found: dict[str, set[int | None]] = {}
    experts: dict[tuple[str, int | None], set[int]] = {}
    for entry in entries:
        layer, path, expert = _parsed(entry)
        if layer is not None and layer >= model.layers:
            continue  # of a part that predicts further tokens
        if expert is None:
            found.setdefault(path, set()).add(layer)
        else:
            experts.setdefault((path, layer), set()).add(expert)
    for (path, layer), numbers in experts.items():
        if len(numbers) != _expert_count(model):
            cause = f"{place} names {len(numbers)} of {_expert_count(model)} experts ({shown(path)})"
            raise ModelError(22, f"{cause}, and all share one format here", UNQUANTIZED)
        found.setdefault(path, set()).add(layer)
    return found


def _in(layer: int, layers: set[int | None]) -> bool:
    return None in layers or layer in layers


@cache
def _places(model: Model) -> dict[tuple[str, int], Part]:
    """Every matrix that may be quantized: its module below the layer, the layer, and its part; the head at layer -1."""
    found: dict[tuple[str, int], Part] = {}
    for layer, kind in enumerate(model.kind_of_layer):
        for tensor in block_weights(model, kind):
            if tensor.quantized:
                found[tensor.name.removesuffix(".weight"), layer] = tensor.part
    head = next(tensor for tensor in last_weights(model) if tensor.part == "head")
    if head.quantized:
        found["lm_head", _HEAD] = "head"
    return found


def _parsed(entry: str) -> tuple[int | None, str, int | None]:
    """A plain name as layer (None: every one), path below the layer, and expert (None: all)."""
    found = _LAYER.search(entry)
    layer = int(found[1]) if found else None
    rest = entry[found.end() :] if found else entry
    for root in _ROOTS:
        rest = rest.removeprefix(root)
    numbered = _EXPERT.search(f".{rest}")
    if numbered is None:
        return layer, rest, None
    return layer, _EXPERT.sub(".experts", f".{rest}")[1:], int(numbered[1])


def _names(path: str, module: str) -> bool:
    """Whether a path stands for a module: as a run of whole words in one of its spellings."""
    return any(f".{path}." in f".{name}." for name in _spellings(module)) if path else True


@cache
def _spellings(module: str) -> tuple[str, ...]:
    found = dict.fromkeys([module])
    for ours, theirs in _ENDS:
        found |= dict.fromkeys(name.removesuffix(ours) + theirs for name in list(found) if name.endswith(ours))
    for ours, theirs in _STARTS:
        found |= dict.fromkeys(theirs + name.removeprefix(ours) for name in list(found) if name.startswith(ours))
    return tuple(found)


def _matched(model: Model, entry: str, place: str) -> set[tuple[str, int]]:
    """What a wildcard or a regular expression names; both experts that are tried must agree."""
    last = max(_expert_count(model) - 1, 0)
    chosen: set[tuple[str, int]] = set()
    for module, layer in _places(model):
        tried = {number: _full_names(module, layer, number) for number in (0, last)}
        hits = {number: any(_matches(entry, name, place) for name in names) for number, names in tried.items()}
        if len(set(hits.values())) > 1:
            cause = f"{place} names single experts ({shown(entry)}), and all share one format here"
            raise ModelError(22, cause, UNQUANTIZED)
        chosen |= {(module, layer)} if hits[0] else set()
    return chosen


def _full_names(module: str, layer: int, expert: int) -> list[str]:
    """The names of a module in a checkpoint, in every spelling."""
    if layer == _HEAD:
        return [module, f"language_model.{module}"]
    numbered = [name.replace(".experts.", f".experts.{expert}.") for name in _spellings(module)]
    return [
        f"{root}layers.{layer}.{name}" for root in _ROOTS for name in dict.fromkeys([*_spellings(module), *numbered])
    ]


def _matches(entry: str, name: str, place: str) -> bool:
    """`re:` from the start, as compressed-tensors; others as a wildcard or a regular expression of whole words."""
    if entry.startswith("re:"):
        return _compiled(entry.removeprefix("re:"), place, needed=True).match(name) is not None  # pyright: ignore[reportOptionalMemberAccess]
    if fnmatchcase(name, entry) or fnmatchcase(name, f"{entry}.*"):
        return True
    pattern = _compiled(rf"(?:{entry})(?=\.|$)", place, needed=False)
    return pattern is not None and pattern.match(name) is not None


@cache
def _compiled(text: str, place: str, *, needed: bool) -> re.Pattern[str] | None:
    """None for a wildcard that is no regular expression. Raises MOD022 for one that must be."""
    try:
        with catch_warnings():
            simplefilter("ignore")  # of nested sets and the like: they are read as they always were
            return re.compile(text)
    except (re.error, OverflowError, RecursionError) as problem:
        if not needed:
            return None
        cause = f"{place} holds {shown(text)}, which is no regular expression: {problem}"
        raise ModelError(22, cause, UNQUANTIZED) from problem


def _expert_count(model: Model) -> int:
    counts = [block.feed_forward.experts for block in model.kinds if isinstance(block.feed_forward, Experts)]
    return max(counts, default=0)


def _spelled(module: str, layer: int) -> str:
    return module if layer == _HEAD else f"layers.{layer}.{module}"
