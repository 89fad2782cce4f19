"""Where does state lie that several layers share? Bytes, a context and stages go in; what each choice costs comes out.

A token's logical bytes count such state once. That is free only while the layers that share it are on one device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.units import Bytes, Tokens
from meshwright.job.serve import MOST_TOKENS, check_range

_MOST: Final = 2**50
_MOST_LAYERS: Final = 2**20
LEFT_OUT: Final = (
    "which layers share what: the state is shared by layers of all stages, or in one place by those of one",
    "seconds: bytes a token, to be set against the link between stages",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One way to keep shared state over stages.

    stored_bytes: of a session, on all stages.   rank_bytes: on the stage with most.   sent_token_bytes: between stages,
    for each token that is decoded.   constraint: what the layout must keep.
    """

    choice: str
    stored_bytes: int
    rank_bytes: int
    sent_token_bytes: int
    constraint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedState:
    """window_bytes: of all layers' windows.   session_bytes: each shared byte counted once."""

    window_bytes: int
    session_bytes: int
    choices: tuple[Choice, ...]
    not_modelled: tuple[str, ...]


def shared_state(  # noqa: PLR0917 - what a session keeps, and where
    tokens: Tokens,
    token_bytes: Bytes,
    layers: int,
    window: int,
    window_token_bytes: Bytes,
    read_state_bytes: Bytes,
    stages: int,
) -> SharedState:
    """State of a session whose token keeps `token_bytes` once for all layers, beside a window of its own on each layer.

    window_token_bytes: of one layer and position of its window.   read_state_bytes: of the state, that one decoded
    token reads over all layers; those of other stages read their part from its owner.   stages: over which the layers
    that share are spread evenly. Raises JOB001 (sizes). Source: chapter "Supernodes", section 6.7.1 and footnote 26.
    """
    check_range("tokens", tokens, 1, MOST_TOKENS)
    check_range("layers", layers, 1, _MOST_LAYERS)
    check_range("stages", stages, 1, layers)
    check_range("window", window, 0, MOST_TOKENS)
    for name, size in (
        ("token_bytes", token_bytes),
        ("window_token_bytes", window_token_bytes),
        ("read_state_bytes", read_state_bytes),
    ):
        check_range(name, size, 0, _MOST)
    windows = layers * min(window, tokens) * window_token_bytes
    shared = token_bytes * tokens
    own = -(-layers // stages) * min(window, tokens) * window_token_bytes
    choices = (
        Choice(
            choice="co_located",
            stored_bytes=shared + windows,
            rank_bytes=shared + own,
            sent_token_bytes=0,
            constraint="all layers that share it are on one stage",
        ),
        Choice(
            choice="replicated",
            stored_bytes=shared * stages + windows,
            rank_bytes=shared + own,
            sent_token_bytes=token_bytes * (stages - 1),
            constraint="every stage stores it whole, and gets each token's new part",
        ),
        Choice(
            choice="remote",
            stored_bytes=shared + windows,
            rank_bytes=shared + own,
            sent_token_bytes=read_state_bytes * (stages - 1) // stages,
            constraint="layers of the other stages wait for their reads from its owner",
        ),
    )
    return SharedState(window_bytes=windows, session_bytes=shared + windows, choices=choices, not_modelled=LEFT_OUT)


def logical_token_bytes(session_bytes: Bytes, window_bytes: Bytes, tokens: Tokens) -> float:
    """Bytes that a token adds to a session, all layers together: what is left of it beside the windows.

    Raises JOB001 (tokens, windows above the session). Source: chapter "Supernodes", section 6.7.1.
    """
    check_range("tokens", tokens, 1, MOST_TOKENS)
    check_range("window_bytes", window_bytes, 0, session_bytes)
    return (session_bytes - window_bytes) / tokens
