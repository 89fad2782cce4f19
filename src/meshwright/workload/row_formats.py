"""A model and the name of a format go in; the bytes of one token's row on its way to experts, or back, come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.model.formats import PLAIN, Format, fp8_block, plain_format

if TYPE_CHECKING:
    from meshwright.model.model import Model

FP8: Final = "fp8"
ROW_FORMATS: Final = ("plain", FP8, *PLAIN)
"""`plain` is that of the model's activations; `fp8` has a float32 for 128 of a row; others by name."""


def row_format(model: Model, name: str) -> Format:
    """The format of rows on the way. Raises MOD020."""
    if name == FP8:
        return fp8_block(1, 128)
    return model.plain if name == "plain" else plain_format(name)


def row_format_bytes(model: Model, name: str, width: int | None = None) -> Any:
    """Bytes of one token's row in a format. width: of experts with columns of their own; None is the model's."""
    return row_format(model, name).stored_bytes((1, model.hidden if width is None else width))
