"""Gemma 3, its text decoder: Gemma 2 with norms on queries and keys, and five sliding layers before each full one.

A multimodal `gemma3` config holds this one under `text_config`. Defaults: transformers 5.24 `Gemma3TextConfig`; most
published configs leave half their sizes to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.model.families._common import read_layers, read_spaced_windows
from meshwright.model.families.gemma2 import read_gemma

if TYPE_CHECKING:
    from meshwright.model.config import Fields
    from meshwright.model.model import Model


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `gemma3_text` config. Raises MOD013 for attention that looks ahead."""
    layers = read_layers(fields, default=26)
    size = fields.optional("sliding_window", default=4096)
    settled = fields.data.get("layer_types") is not None
    step = 1 if settled else fields.integer("sliding_window_pattern", default=6)
    windows = read_spaced_windows(fields, layers, size=size, step=step)
    return read_gemma(fields, name, windows, vocab=262208, positions=131072, qk_norm="head")
