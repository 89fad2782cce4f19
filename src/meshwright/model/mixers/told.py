"""What the other floors ask of any token mixer: states that it keeps, and products that it runs beside its matrices.

A mixer multiplies each token by matrices (`MatrixProduct`), lets queries meet rows of cached state (`PairProduct`), and
may turn a state of fixed size once a token (`Recurrence`). What it keeps of positions is a `PositionState`, what it
keeps of a session whatever its length a `SessionState`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from meshwright.base.numbers import minimum
from meshwright.model.tensors import Tensor

if TYPE_CHECKING:
    from meshwright.model.formats import Format
    from meshwright.model.mixers.saving import AttentionKernel, Elementwise, Training

Form: TypeAlias = Literal["expanded", "absorbed"]
"""Of latent attention: keys and values of every head made from the latent rows that are read, or the matrices that
would make them folded into queries and outputs. Other mixers have one form, which both words mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which positions a token sees: itself and those before it, unless one of these bounds them.

    window: so many of the last.   chunk: those of its own chunk of so many.   stride: state has one row for so many
    positions, from when they are complete.   top: so many of these rows at most, chosen by the token.
    """

    window: int | None = None
    chunk: int | None = None
    stride: int = 1
    top: int | None = None

    @property
    def bounded(self) -> bool:
        """Whether a session stops growing at some length."""
        return self.window is not None or self.chunk is not None

    def kept(self, positions: Any) -> Any:
        """Rows of state of a session with so many positions (a number, or a column)."""
        rows = positions // self.stride if self.stride > 1 else positions
        bounds = [bound for bound in (self.window, self.chunk) if bound is not None]
        if not bounds:
            return rows
        return min(rows, *bounds) if isinstance(rows, int) else minimum(rows, min(bounds))


ALL: Final = Span()
ATTENTION_HEADS: Final = "attention heads"
"""Of `head_names`: what configs call num_attention_heads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionState:
    """A row of a layer's cache. tensor: the row.   span: which rows are kept.   format: None for the model's `kv`."""

    tensor: Tensor
    span: Span = ALL
    format: Format | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """State of fixed size that a session keeps in a layer. format: None for the model's plain format."""

    tensor: Tensor
    format: Format | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixProduct:
    """A weight matrix, by parameter name, and the rows it multiplies: new tokens, or all positions that they read.

    backward: whether training takes gradients through it.
    """

    name: str
    rows: Literal["tokens", "positions"] = "tokens"
    backward: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PairProduct:
    """Queries of a token meet the rows that its span shows it.

    scores: the columns of all its heads whose products with a row are scores.   values: the columns in which rows are
    mixed, of size 0 where nothing is.   state: what is read of each row.   backward: as of a `MatrixProduct`.
    """

    name: str
    scores: Tensor
    values: Tensor
    state: tuple[PositionState, ...]
    span: Span = ALL
    backward: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """State of fixed size that every token turns.

    multiply_adds: as many elements as one token needs multiply-adds, with the dims that say who computes which.
    chunked: as many as a token of a prompt needs, where a prompt is worked on in chunks.
    state: read and written once a step.
    """

    name: str
    multiply_adds: Tensor
    chunked: Tensor
    state: tuple[SessionState, ...]

    def work(self, rows: int) -> Tensor:
        """The multiply-adds of a token in a step in which each session has so many."""
        return self.multiply_adds if rows == 1 else self.chunked


class TokenMixer(Protocol):
    """The half of a block that reads other positions."""

    @property
    def kind(self) -> str:
        """The word of `kv_bytes_per_token_by_kind`."""
        ...

    @property
    def head_counts(self) -> tuple[int, ...]:
        """Counts of heads that tp must divide; none where no matrix is cut by heads."""
        ...

    @property
    def head_names(self) -> tuple[str, ...]:
        """What each of `head_counts` is a count of."""
        ...

    @property
    def kv_head_counts(self) -> tuple[int, ...]:
        """Counts of heads with a cache of their own, which tp must divide or be a multiple of."""
        ...

    def mismatch(self) -> str:
        """What is wrong with sizes that do not go together; empty where they do."""
        ...

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """Every parameter; matrices are [out, in] as Hugging Face stores them."""
        ...

    def token_state(self) -> tuple[PositionState, ...]:
        """What is kept of positions."""
        ...

    def session_state(self) -> tuple[SessionState, ...]:
        """State of fixed size that a session keeps whatever its length."""
        ...

    def matrix_products(self, form: Form) -> tuple[MatrixProduct, ...]:
        """The matrices that it multiplies by."""
        ...

    def pair_products(self, form: Form) -> tuple[PairProduct, ...]:
        """What runs over positions."""
        ...

    def recurrences(self) -> tuple[Recurrence, ...]:
        """What turns state of fixed size."""
        ...

    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """What it keeps from forward to backward beside its input, and what its backward holds (see `saving`)."""
        ...
