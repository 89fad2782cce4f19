"""A number format's name goes in; how many bytes a piece of a tensor takes in it comes out, scales included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.errors import ModelError, suggest
from meshwright.base.numbers import divide_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How elements are stored.

    name: as `inspect` shows it.   bits: per element.   compute: the `peak` key of an accelerator that multiplies in it.
    block: rows and columns that share one scale (the last two dims of a tensor), or None.   scale_bytes: per block.
    """

    name: str
    bits: int
    compute: str
    block: tuple[int, int] | None = None
    scale_bytes: int = 0

    def stored_bytes(self, dims: Sequence[int | Ints]) -> int | Ints:
        """Exact bytes of a piece with these dims (ints, or columns): its elements, and a scale a started block.

        Dims are outermost first; a piece with fewer dims than a block has no scales.
        """
        elements: int | Ints = 1
        for size in dims:
            elements = elements * size
        total = elements * self.bits // 8
        if self.block is None or len(dims) < len(self.block):
            return total
        rows, columns = self.block
        scales: Any = divide_up(dims[-2], rows) * divide_up(dims[-1], columns)
        for size in dims[:-2]:
            scales = scales * size
        return total + scales * self.scale_bytes


BF16: Final = Format(name="bf16", bits=16, compute="bf16")
FP16: Final = Format(name="fp16", bits=16, compute="fp16")
FP32: Final = Format(name="fp32", bits=32, compute="fp32")
PLAIN: Final = {item.name: item for item in (BF16, FP16, FP32)}
_TORCH: Final = {"bfloat16": BF16, "float16": FP16, "float32": FP32}


def find_plain(name: str) -> Format | None:
    """bf16, fp16 or fp32 by its name here or in torch (`bfloat16`, `torch.float16`); None for any other word."""
    word = name.removeprefix("torch.")
    return PLAIN.get(word) or _TORCH.get(word)


def plain_format(name: str) -> Format:
    """As `find_plain`. Raises MOD020 for any other word."""
    found = find_plain(name)
    if found is None:
        raise ModelError(20, f"{name!r} is not a plain weight format", suggest(name, [*PLAIN, *_TORCH]))
    return found


def fp8_block(rows: int, columns: int, *, scale_bytes: int = 4) -> Format:
    """FP8 (e4m3) with one scale a block of the last two dims, a float32 unless `scale_bytes` says 1 (e8m0).

    Source: transformers 5.24, integrations/finegrained_fp8: `weight_scale_inv` has ceil(rows / block) x
    ceil(columns / block) elements. Expert matrices are counted as checkpoints store them, gate and up apart.
    """
    name = f"fp8[{rows}x{columns}]" if scale_bytes > 1 else f"fp8[{rows}x{columns},e8m0]"
    return Format(name=name, bits=8, compute="fp8", block=(rows, columns), scale_bytes=scale_bytes)
