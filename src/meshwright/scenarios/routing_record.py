"""What does it take to record which experts were chosen, and what would choose others? Counts or scores go in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes
from meshwright.workload.routing import record_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TopExperts:
    """chosen: experts of a token, the best first, numbered from 1.   margin: what parts the last from the next."""

    chosen: tuple[int, ...]
    margin: float


def routing_record(tokens: int, layers: int, top_k: int, id_bytes: Bytes) -> int:
    """Bytes of the expert numbers of every token and layer. Raises JOB129.

    Source: chapter "Training systems", section 10.5.4.
    """
    if min(tokens, layers, top_k, id_bytes) < 1:
        cause = f"{tokens} tokens, {layers} layers, {top_k} choices of {id_bytes} B"
        raise JobError(129, cause, "give 1 or more of each")
    return record_bytes(tokens, layers, top_k, id_bytes)


def top_experts(scores: tuple[float, ...], top_k: int) -> TopExperts:
    """The experts of the largest scores; of equal ones the first. Raises JOB129.

    Source: chapter "Training systems", section 10.5.4: a change of a thousandth chooses another.
    """
    if not 1 <= top_k <= len(scores):
        raise JobError(129, f"{top_k} of {len(scores)} scores", "give as many scores as experts, and choose fewer")
    order = np.argsort(-np.array(scores, dtype=np.float64), kind="stable")
    ranked = [scores[int(place)] for place in order]
    margin = ranked[top_k - 1] - ranked[top_k] if top_k < len(ranked) else ranked[-1]
    return TopExperts(chosen=tuple((order[:top_k] + 1).tolist()), margin=margin)
