"""Granite 3: Llama's shapes and class defaults; its multipliers scale numbers and hold no parameters.

Defaults: transformers 5.24 `GraniteConfig`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.model.families import llama

if TYPE_CHECKING:
    from meshwright.model.config import Fields
    from meshwright.model.model import Model


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `granite` config."""
    return llama.read(fields, name)
