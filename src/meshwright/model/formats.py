"""A number format's name goes in; how many bytes a piece of a tensor takes in it comes out, scales included."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, cast

from meshwright.base.errors import ModelError, suggest
from meshwright.base.numbers import divide_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Ints

WHOLE: Final = 10**9
"""The side of a block that takes in a whole dim: no dim is longer (`config.LARGEST`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Values stored beside a matrix, one for every started block of it: zero points, indices, scales of scales.

    block: rows and columns that share one.   value_bits: of one.   word_bits: those of neighbouring rows are packed
    into words of so many bits, the last one filled up.
    """

    name: str
    block: tuple[int, int]
    value_bits: int
    word_bits: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How elements are stored.

    name: as `inspect` shows it.   bits: per element.   compute: the `peak` key of an accelerator that multiplies in it.
    block: rows and columns that share one scale (the last two dims of a tensor), or None.   scale_bytes: per block.
    word_bits: elements are packed into words of so many bits, along the columns of a row unless `words_along` says
    rows; the last word of a line is filled up.   over: blocks and words lie on the matrix, or on its `elements` in one
    row.   beside: what else is stored.
    """

    name: str
    bits: int
    compute: str
    block: tuple[int, int] | None = None
    scale_bytes: int = 0
    word_bits: int = 8
    words_along: Literal["columns", "rows"] = "columns"
    over: Literal["matrix", "elements"] = "matrix"
    beside: tuple[Beside, ...] = ()

    def stored_bytes(self, dims: Sequence[int | Ints]) -> int | Ints:
        """Exact bytes of a piece with these dims (ints, or columns): its elements, and a scale a started block.

        Dims are outermost first; a piece with fewer dims than a block has no scales. A shard that cuts a block or a
        word pays a whole one.
        """
        if len(dims) < 2:  # noqa: PLR2004 - rows, columns
            return _packed(dims[0] if dims else 1, self.bits, 8)
        *outer, rows, columns = dims
        if self.over == "elements":
            rows, columns = 1, rows * columns
        lines, along = (rows, columns) if self.words_along == "columns" else (columns, rows)
        total = lines * _packed(along, self.bits, self.word_bits)
        if self.block is not None:
            total = total + _blocks(rows, self.block[0]) * _blocks(columns, self.block[1]) * self.scale_bytes
        for item in self.beside:
            values = _packed(_blocks(rows, item.block[0]), item.value_bits, item.word_bits)
            total = total + _blocks(columns, item.block[1]) * values
        for size in outer:
            total = total * size
        return total


def _blocks(size: int | Ints, side: int) -> int | Ints:
    return divide_up(cast("Ints", size), side)


def _packed(count: int | Ints, bits: int, word_bits: int) -> int | Ints:
    """Bytes of `count` values of `bits` in words of `word_bits`."""
    if bits % word_bits == 0:  # no word holds a part of a value
        return count * bits // 8
    return divide_up(cast("Ints", count * bits), word_bits) * word_bits // 8


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
    words = {(1, WHOLE): "channel", (WHOLE, WHOLE): "tensor"}.get((rows, columns), f"{rows}x{columns}")
    name = f"fp8[{words}]" if scale_bytes > 1 else f"fp8[{words},e8m0]"
    return Format(name=name, bits=8, compute="fp8", block=(rows, columns), scale_bytes=scale_bytes)


def int8_rows(*, scale_bytes: int) -> Format:
    """INT8 with one scale an output channel, multiplied in INT8 with activations quantized on the way."""
    return Format(name="int8[channel]", bits=8, compute="int8", block=(1, WHOLE), scale_bytes=scale_bytes)


def packed_groups(bits: int, group: int, *, scale_bytes: int, compute: str) -> Format:
    """Integers in 32-bit words along the columns, one scale for `group` of them, and two int64 that give the shape.

    Source: compressed-tensors `pack-quantized`: weight_packed int32, weight_scale, weight_shape. Weight-only kernels
    (Marlin in vLLM) widen the integers and multiply in the format of the activations.
    """
    words = "channel" if group == WHOLE else f"1x{group}"
    shape = Beside(name="shape", block=(WHOLE, WHOLE), value_bits=2 * 64)
    stored = Format(name=f"int{bits}[{words}]", bits=bits, compute=compute, word_bits=32, beside=(shape,))
    return replace(stored, block=(1, group), scale_bytes=scale_bytes)


def mxfp4(compute: str) -> Format:
    """FP4 (e2m1), two a byte, with an e8m0 byte for 32 of a row, as gpt-oss stores its experts.

    The kernels of gpt-oss widen them and multiply in the format of the activations: `compute` is theirs. Source:
    transformers 5.24, integrations/mxfp4; OCP Microscaling Formats 1.0.
    """
    return Format(name="mxfp4", bits=4, compute=compute, block=(1, 32), scale_bytes=1)


def nvfp4(compute: str, *, singles: int) -> Format:
    """FP4 (e2m1), two a byte, with an e4m3 byte for 16 of a row and `singles` float32 a matrix.

    singles: 1 is the scale of the scales; 2, that of the activations too, which are then quantized and multiplied in
    FP4. Source: modelopt `NVFP4` (weight_scale, weight_scale_2, input_scale) and compressed-tensors
    `nvfp4-pack-quantized` (weight_scale, weight_global_scale, input_global_scale).
    """
    scales = Beside(name="global_scales", block=(WHOLE, WHOLE), value_bits=32 * singles)
    return Format(name="nvfp4", bits=4, compute=compute, block=(1, 16), scale_bytes=1, beside=(scales,))


_GGUF: Final = {
    "q8_0": (8, 32, 2),
    "q4_0": (4, 32, 2),
    "q4_1": (4, 32, 4),
    "q5_0": (5, 32, 2),
    "q5_1": (5, 32, 4),
    "q2_k": (2, 256, 20),
    "q3_k": (3, 256, 14),
    "q4_k": (4, 256, 16),
    "q5_k": (5, 256, 16),
    "q6_k": (6, 256, 18),
}
"""Bits, elements of a row that make a block, bytes of a block beside its elements: scales, and least values of some.

Source: ggml-common.h (block_q8_0: 34 bytes for 32 elements, block_q4_K: 144 for 256), and `GGML_QUANT_SIZES` of the
Python package gguf 0.19 (PyPI). Kernels widen them, or multiply in INT8 blocks: `compute` is that of the activations.
"""


def gguf(name: str, compute: str) -> Format:
    """One type of a GGUF file, in which a row is whole blocks."""
    bits, group, beside = _GGUF[name]
    return Format(name=name, bits=bits, compute=compute, block=(1, group), scale_bytes=beside)


GGUF: Final = tuple(_GGUF)
"""Types of a GGUF file. A file mixes them by matrix (Q4_K_M: Q4_K, and Q6_K for some); here one is that of all."""

QUANTIZED: Final = {
    "fp8": "one fp32 scale a block of 128 x 128, as DeepSeek-V3 and Qwen3 FP8",
    "int8": "one scale an output channel in the plain format, as compressed-tensors w8a8",
    "int4": "one scale for 128 of a row in the plain format, no zero points, as compressed-tensors w4a16",
    "mxfp4": "one e8m0 byte for 32 of a row, as gpt-oss",
    "nvfp4": "one e4m3 byte for 16 of a row and two fp32 a matrix, as modelopt NVFP4",
    **{
        name: f"{group * bits // 8 + beside} bytes for {group} of a row, as GGUF; embedding and head too"
        for name, (bits, group, beside) in _GGUF.items()
    },
}
"""The what-if weight formats, each with the grouping that it is read with."""


def weight_format(name: str, plain: Format) -> Format:
    """A plain or what-if format by name; `plain` is that of activations and scales. Raises MOD020 for another word."""
    scale_bytes = plain.bits // 8
    known = {
        **PLAIN,
        "fp8": fp8_block(128, 128),
        "int8": int8_rows(scale_bytes=scale_bytes),
        "int4": packed_groups(4, 128, scale_bytes=scale_bytes, compute=plain.compute),
        "mxfp4": mxfp4(plain.compute),
        "nvfp4": nvfp4("fp4", singles=2),
        **{item: gguf(item, plain.compute) for item in GGUF},
    }
    if name not in known:
        raise ModelError(20, f"{name!r} is no weight format", suggest(name, known))
    return known[name]


KV: Final = {
    **PLAIN,
    "fp8": Format(name="fp8", bits=8, compute="fp8"),
    "int8": Format(name="int8", bits=8, compute="int8", block=(1, WHOLE), scale_bytes=4),
}
"""Formats of cached keys and values, stored as [..., heads, head_dim].

fp8: vLLM 0.11 keeps one scale a layer for all keys and one for all values: no bytes a token. int8: LMDeploy 0.9
(`quant_policy=8`) keeps a scale and a zero point, 2 bytes each, for the key and the value of every token and head.
"""
KV_NOTES: Final = {
    "fp8": "KV cache in fp8: scales are per tensor, as in vLLM, and add no bytes a token",
    "int8": "KV cache in int8: 4 bytes of scale and zero point for every key and value of a head, as in LMDeploy",
}


def kv_format(name: str) -> Format:
    """A format of the cache by name. Raises MOD023 for any other word."""
    if name not in KV:
        raise ModelError(23, f"{name!r} is no format of the KV cache", suggest(name, KV))
    return KV[name]
