"""How many sessions of each length fit? A model and a layout go in; a row a length comes out, where tokens differ.

Where a layer keeps state of fixed size, or stops growing at a window, bytes are no multiple of positions, and room for
tokens is a function of how long the sessions are: a table, instead of one number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.traced import cell
from meshwright.job.serve import MOST_TOKENS
from meshwright.layout.layouts import table
from meshwright.scenarios._resident import resident_ledger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.layout.layout import Layout
    from meshwright.model.model import Model
    from meshwright.scenarios._resident import Kept
    from meshwright.system.system import System

_FIRST: Final = 1024
_STEP: Final = 4
_LONGEST: Final = 2**17


def by_length(model: Model, system: System, layout: Layout, options: Kept, context: int) -> dict[str, Any]:
    """`by_length` of fit's memory; nothing where a session's bytes are a multiple of its positions."""
    if not uneven(model):
        return {}
    lengths = _lengths(model, context)
    layouts, tokens = table([layout] * len(lengths)), np.array(lengths)
    sessions = np.ones(len(lengths), dtype=np.int64)
    ledger, _ = resident_ledger(model, layouts, options, sessions, tokens, system.accelerator.memory)
    rows: list[Mapping[str, int]] = []
    for row, length in enumerate(lengths):
        held = cell(ledger.max_sessions, row)
        session = cell(ledger.kv_cache, row)
        rows.append({"context": length, "session_bytes": session, "max_sessions": held, "max_kv_tokens": held * length})
    return {"by_length": rows}


def uneven(model: Model) -> bool:
    """Whether a session's bytes are no multiple of its positions."""
    mixers = [block.mixer for block in model.kinds]
    rows = [item.span for mixer in mixers for item in mixer.token_state()]
    return any(mixer.session_state() for mixer in mixers) or any(span.bounded or span.stride > 1 for span in rows)


def _lengths(model: Model, context: int) -> list[int]:
    """Powers of 4 from 1024 up to the longest position, that itself, the context, and where a window fills."""
    longest = max(model.max_positions or _LONGEST, context)
    found = {longest, *({context} if context else ())}
    length = _FIRST
    while length < longest:
        found.add(length)
        length *= _STEP
    spans = [item.span for block in model.kinds for item in block.mixer.token_state()]
    bounds = {bound for span in spans for bound in (span.window, span.chunk) if bound is not None}
    return sorted(length for length in found | bounds if 0 < length <= min(longest, MOST_TOKENS))
