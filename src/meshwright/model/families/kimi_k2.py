"""Kimi K2, and the text decoder of K2.5: the class of DeepSeek-V3 under a name of its own.

Source: config.json of moonshotai/Kimi-K2.5, whose text_config names DeepseekV3ForCausalLM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.model.families import deepseek_v3

if TYPE_CHECKING:
    from meshwright.model.config import Fields
    from meshwright.model.model import Model


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `kimi_k2` config: those of `deepseek_v3`, defaults too. Raises as that."""
    fields.origin = "transformers class default of deepseek_v3"
    return deepseek_v3.read(fields, name)
