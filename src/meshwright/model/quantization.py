"""The `quantization_config` of a config goes in; the format of the matrices it covers comes out.

One method is known: FP8 with one scale a block. Attention projections, feed-forward and expert matrices are stored in
it; embedding, head, norms, biases and router keep the plain format.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from meshwright.base.errors import ModelError
from meshwright.model.config import shown
from meshwright.model.formats import fp8_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.model.config import Fields
    from meshwright.model.formats import Format

SECTIONS: Final = ("quantization_config", "compression_config")
_LARGEST_BLOCK: Final = 2**20
_UNQUANTIZED: Final = "--weights bf16 plans the unquantized model"
_COVERED: Final = "quantized: attention projections, feed-forward and expert matrices; kept plain: the rest"
# What the FP8 settings of transformers 5.24 may say without changing what is stored; missing and null say it too.
_USUAL: Final[dict[str, tuple[object, ...]]] = {
    "activation_scheme": ("dynamic",),
    "scale_fmt": ("float", "ue8m0"),
    "expert_dtype": ("fp8",),
    "modules_to_convert": ([],),
    "dequantize": (False,),
}
_ALWAYS_PLAIN: Final = re.compile(
    r"(^|\.)(lm_head|embed_tokens|\w*norm|gate|router|shared_expert_gate"
    r"|visual|vision_tower|vision_model|multi_modal_projector)(\.|$)"
)


def read_quantization(fields: Fields, plain: Format) -> tuple[Format, tuple[str, ...]]:
    """The format of quantized matrices, `plain` when there is none, and notes for the reader of the result.

    Raises MOD021 for a method or setting whose storage is not known here, MOD022 when a matrix of some layers only is
    kept plain.
    """
    settings = next((found for name in SECTIONS if (found := fields.section(name)) is not None), None)
    if settings is None:
        return plain, ()
    method, block = settings.data.get("quant_method"), settings.data.get("weight_block_size")
    if method != "fp8" or not _is_block(block):
        cause = f"{fields.family}: {settings.prefix}quant_method is {shown(method)}, weight_block_size {shown(block)}"
        raise ModelError(21, cause, f'known: "fp8" with two block sizes; {_UNQUANTIZED}')
    for name, usual in _USUAL.items():
        value = settings.data.get(name)
        if value is not None and value not in usual:
            raise ModelError(21, f"{fields.family}: {settings.prefix}{name} is {shown(value)}", _UNQUANTIZED)
    rows, columns = cast("Sequence[int]", block)
    stored = fp8_block(rows, columns, scale_bytes=1 if settings.data.get("scale_fmt") == "ue8m0" else 4)
    return stored, (_COVERED, *_check_kept_plain(settings))


def _is_block(block: object) -> bool:
    if not isinstance(block, list):
        return False
    items = cast("list[object]", block)
    return len(items) == 2 and all(type(item) is int and 0 < item <= _LARGEST_BLOCK for item in items)  # noqa: PLR2004 - rows, columns


def _check_kept_plain(settings: Fields) -> tuple[str, ...]:
    """Check that the modules a config keeps plain are plain here anyway; a note when it does not list them."""
    for name in ("modules_to_not_convert", "ignored_layers"):
        if isinstance(settings.data.get(name), str):
            return (f"{settings.prefix}{name} is text, not a list of modules: read as the usual list",)
        odd = [item for item in settings.words(name) or () if not _ALWAYS_PLAIN.search(item)]
        if odd:
            cause = f"{settings.prefix}{name} keeps {odd[0]} plain, and layers of one kind share one format here"
            raise ModelError(22, cause, _UNQUANTIZED)
    return ()
