"""The `quantization_config` of a config and its plain model go in; the model as it is stored comes out.

Each method says how a matrix is stored (`methods`), and its lists say which parts are (`coverage`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import ModelError
from meshwright.model.config import shown
from meshwright.model.coverage import UNQUANTIZED, Selection, covered_parts, select
from meshwright.model.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshwright.model.config import Fields
    from meshwright.model.methods import Method
    from meshwright.model.model import Model
    from meshwright.model.tensors import Part

SECTIONS: Final = ("quantization_config", "compression_config")
KV_FIELDS: Final = ("kv_cache_scheme", "kv_cache_quant_algo")


def read_quantization(fields: Fields, model: Model) -> Model:
    """`model` with the formats, covered parts and notes of the config's quantization; itself where there is none.

    Raises MOD021 for a method or setting whose storage is not known here, MOD022 when a matrix of some layers only is
    kept plain.
    """
    settings = next((found for name in SECTIONS if (found := fields.section(name)) is not None), None)
    if settings is None:
        return model
    name = settings.data.get("quant_method")
    if not isinstance(name, str) or name not in METHODS:
        cause = f"{fields.family}: {settings.prefix}quant_method is {shown(name)}"
        raise ModelError(21, cause, f"known: {', '.join(METHODS)}; {UNQUANTIZED}")
    method = METHODS[name](settings, model.plain)
    kept, notes = _kept_plain(settings, model, method)
    targets = None if method.targets is None else select(model, method.targets, f"{settings.prefix}targets")
    parts, plain = covered_parts(model, method.parts, kept, targets)
    if not parts:
        cause = f"{fields.family}: {settings.prefix}quant_method {shown(name)} stores no matrix of this model, which"
        cause = f"{cause} {kept.place} may keep plain"
        raise ModelError(22, cause, UNQUANTIZED)
    return replace(
        model,
        weights=method.stored,
        quantized_parts=parts,
        plain_modules=plain,
        kv=method.kv or model.kv,
        notes=(*model.notes, covered_note(method.stored.name, parts), *_plain_note(plain), *method.notes, *notes),
    )


def covered_note(name: str, parts: Iterable[Part]) -> str:
    """What is stored quantized and what is not, in one line."""
    words = [part.replace("_", "-").removesuffix("s") for part in parts]
    return f"quantized: {', '.join(words)} matrices, in {name}; kept plain: the rest"


def _plain_note(modules: tuple[str, ...]) -> tuple[str, ...]:
    return (f"kept plain in a quantized part: {', '.join(modules)}",) if modules else ()


def _kept_plain(settings: Fields, model: Model, method: Method) -> tuple[Selection, tuple[str, ...]]:
    """What the method's lists keep plain, and notes; router and head where it lists nothing."""
    listed: list[str] = list(method.kept)
    notes: list[str] = []
    stated = bool(method.kept)
    for name in method.lists:
        if isinstance(settings.data.get(name), str):
            notes.append(f"{settings.prefix}{name} is text, not a list of modules: read as the usual list")
            continue
        words = settings.words(name)
        stated = stated or words is not None
        listed += words or ()
    kept = select(model, listed, settings.prefix + " or ".join(method.lists))
    notes += [f"{settings.prefix[:-1]}: {entry} names no matrix that is read here" for entry in kept.idle]
    if stated:
        return kept, tuple(notes)
    usual = select(model, [name for name, part in _USUAL.items() if part in method.parts], "the usual list")
    return replace(kept, chosen=kept.chosen | usual.chosen), tuple(notes)


_USUAL: Final[dict[str, Part]] = {"lm_head": "head", "mlp.gate": "router", "mlp.shared_expert_gate": "router"}
