"""A model and the names of formats go in; the model as if it were stored in them comes out, and notes say so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshwright.base.errors import ModelError, suggest
from meshwright.model.coverage import parts_present
from meshwright.model.feed_forwards import Experts
from meshwright.model.formats import GGUF, KV_NOTES, PLAIN, QUANTIZED, kv_format, weight_format
from meshwright.model.model import USUALLY_QUANTIZED
from meshwright.model.quantization import covered_note

if TYPE_CHECKING:
    from meshwright.model.model import Model
    from meshwright.model.tensors import Part


def check_weights(name: str) -> None:
    """A name of `--weights` is known. Raises MOD020."""
    known = (*PLAIN, *QUANTIZED)
    if name not in known:
        raise ModelError(20, f"--weights {name}: not a weight format", suggest(name, known))


def with_formats(model: Model, weights: str | None, kv: str | None) -> Model:
    """`model` with its matrices in `weights` (None: as it is), and its cache in `kv`.

    A plain format is that of the whole model, cache included. A quantized one covers attention, feed-forward and expert
    matrices; mxfp4 the experts alone where there are some, as gpt-oss does; a type of GGUF the token table and the head
    as well. Raises MOD020 and MOD023 for other names.
    """
    found = model
    if weights is not None:
        found = _with_weights(model, weights)
    if kv is None:
        return found
    notes = (*found.notes, *([KV_NOTES[kv]] if kv in KV_NOTES else []))
    return replace(found, kv=kv_format(kv), notes=notes)


def _with_weights(model: Model, name: str) -> Model:
    check_weights(name)
    stored = weight_format(name, model.plain)
    if name in PLAIN:
        return replace(model, weights=stored, expert_weights=None, plain_modules=(), plain=stored, kv=stored)
    mixture = any(isinstance(block.feed_forward, Experts) for block in model.kinds)
    usual: tuple[Part, ...] = ("experts",) if name == "mxfp4" and mixture else USUALLY_QUANTIZED
    tables: tuple[Part, ...] = ("embedding", "head") if name in GGUF else ()
    parts = (*parts_present(model, usual), *tables)
    notes = (covered_note(stored.name, parts), f"--weights {name} (assumed): {QUANTIZED[name]}")
    stated = replace(model, weights=stored, expert_weights=None, plain_modules=(), quantized_parts=parts)
    return replace(stated, notes=(*model.notes, *notes))
