"""The settings of one quantization method go in; how it stores a matrix, and which it covers, come out.

A file has one idea: here, what checkpoints store beside their packed elements. A setting that would change the bytes
and is not known is refused, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from meshwright.base.errors import ModelError
from meshwright.model.compressed_tensors import read_schemes
from meshwright.model.config import shown
from meshwright.model.coverage import UNQUANTIZED
from meshwright.model.formats import (
    FP16,
    KV,
    KV_NOTES,
    WHOLE,
    Beside,
    Format,
    find_plain,
    fp8_block,
    int8_rows,
    mxfp4,
    nvfp4,
)
from meshwright.model.model import USUALLY_QUANTIZED
from meshwright.model.settings import group_size, is_block, one_of, place, said, usual

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meshwright.model.config import Fields
    from meshwright.model.tensors import Part

_LINEAR: Final[tuple[Part, ...]] = (*USUALLY_QUANTIZED, "router", "head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How the covered matrices are stored, and which they are.

    parts: covered unless kept plain.   lists: fields that name what is kept plain.   kept: further such names.
    targets: what alone is covered, None for all.   kv: format of the cache, None when the config does not say.
    """

    stored: Format
    parts: tuple[Part, ...]
    lists: tuple[str, ...]
    kept: tuple[str, ...] = ()
    targets: tuple[str, ...] | None = None
    kv: Format | None = None
    notes: tuple[str, ...] = ()


def _fp8(settings: Fields, plain: Format) -> Method:
    """FP8 in blocks, or with one float32 scale a matrix where `weight_block_size` is null or activations are static.

    Source: transformers 5.24, integrations/finegrained_fp8 (weight_scale_inv, activation_scale); vLLM 0.11,
    quantization/fp8.py, which reads a missing block size as one scale a matrix, as AutoFP8 writes it.
    """
    del plain
    usual(settings, "scale_fmt", (None, "float", "ue8m0"))
    usual(settings, "expert_dtype", (None, "fp8"))
    usual(settings, "modules_to_convert", (None, []))
    usual(settings, "dequantize", (None, False))
    usual(settings, "activation_scheme", (None, "dynamic", "static"))
    static = settings.data.get("activation_scheme") == "static"
    block: object = settings.data.get("weight_block_size")
    scale_bytes = 1 if settings.data.get("scale_fmt") == "ue8m0" else 4
    lists = ("modules_to_not_convert", "ignored_layers")
    if block is None and (static or "weight_block_size" in settings.data):
        return Method(stored=_fp8_tensor(static=static), parts=USUALLY_QUANTIZED, lists=lists)
    if static or not is_block(block):
        cause = f"{place(settings, 'weight_block_size')} is {shown(block)}"
        cause = f"{cause}, activation_scheme {shown(settings.data.get('activation_scheme'))}"
        raise ModelError(21, cause, f"known: two block sizes; null; {UNQUANTIZED}")
    rows, columns = cast("Sequence[int]", block)
    return Method(stored=fp8_block(rows, columns, scale_bytes=scale_bytes), parts=USUALLY_QUANTIZED, lists=lists)


def _fbgemm(_: Fields, plain: Format) -> Method:
    """FP8 with a float32 scale an output channel. Source: transformers 5.24, integrations/fbgemm_fp8."""
    del plain
    return Method(stored=fp8_block(1, WHOLE), parts=_LINEAR, lists=("modules_to_not_convert",))


def _mxfp4(settings: Fields, plain: Format) -> Method:
    """The experts alone, multiplied as `formats.mxfp4` says. Source: transformers 5.24, integrations/mxfp4."""
    usual(settings, "dequantize", (None, False))
    return Method(stored=mxfp4(plain.compute), parts=("experts",), lists=("modules_to_not_convert",))


def _gptq(settings: Fields, plain: Format) -> Method:
    """Integers in int32 words along the inputs; scales and packed zero points a group; the group of every input.

    qweight [in x bits / 32, out], qzeros [groups, out x bits / 32], scales fp16 [groups, out], g_idx int32 [in]. Zero
    points are stored when the grid is symmetric, too. Source: GPTQModel 4.0, AutoGPTQ 0.7, `QuantLinear`; their kernels
    are weight-only and multiply in the format of the activations.
    """
    bits = one_of(settings, "bits", 2, 3, 4, 8)
    group = group_size(settings, "group_size")
    for name in ("checkpoint_format", "format"):
        usual(settings, name, (None, "gptq", "gptq_v2"))
    usual(settings, "pack_dtype", (None, "int32"))
    usual(settings, "modules_in_block_to_quantize", (None,))
    dynamic = settings.section("dynamic")
    kept = () if dynamic is None else _skipped(dynamic)
    index = Beside(name="group_index", block=(WHOLE, 1), value_bits=32)
    stored = _grouped("gptq", bits, group, plain, along="columns", more=(index,))
    head: tuple[Part, ...] = ("head",) if settings.data.get("lm_head") is True else ()
    return Method(stored=stored, parts=(*USUALLY_QUANTIZED, *head), lists=("modules_to_not_convert",), kept=kept)


def _awq(settings: Fields, plain: Format) -> Method:
    """4-bit integers in int32 words along the outputs, scales and packed zero points a group.

    qweight [in, out / 8], qzeros [groups, out / 8], scales fp16 [groups, out]. Source: AutoAWQ 0.2, `WQLinear_GEMM`;
    weight-only, multiplied in the format of the activations.
    """
    bits = one_of(settings, "bits" if "bits" in settings.data else "w_bit", 4)
    group = group_size(settings, "group_size" if "group_size" in settings.data else "q_group_size")
    version = settings.text("version")
    if version is not None and version.lower() != "gemm":
        raise ModelError(21, f"{place(settings, 'version')} is {shown(version)}", f'known: "gemm"; {UNQUANTIZED}')
    usual(settings, "backend", (None, "autoawq"))
    stored = _grouped("awq", bits, group, plain, along="rows")
    return Method(stored=stored, parts=USUALLY_QUANTIZED, lists=("modules_to_not_convert",))


def _bitsandbytes(settings: Fields, plain: Format) -> Method:
    """LLM.int8 (a float32 SCB an output channel), or 4 bits with an absmax for 64 elements and its tables.

    nf4, fp4: weight uint8 [elements / 2, 1], absmax float32; under double quantization absmax is a byte, with a float32
    for 256 of them and a table of 256 float32; always a table of 16 float32. Source: bitsandbytes 0.48,
    `QuantState.as_dict`, `Linear8bitLt._save_to_state_dict`. LLM.int8 multiplies in INT8 (its outlier columns in FP16
    are left out); 4 bits are widened and multiplied in `bnb_4bit_compute_dtype`.
    """
    lists = ("llm_int8_skip_modules",)
    parts: tuple[Part, ...] = (*USUALLY_QUANTIZED, "head")
    if said(settings, "load_in_8bit"):
        layout = Beside(name="weight_format", block=(WHOLE, WHOLE), value_bits=8)
        return Method(stored=replace(int8_rows(scale_bytes=4), beside=(layout,)), parts=parts, lists=lists)
    if not said(settings, "load_in_4bit"):
        cause = f"{settings.prefix[:-1]} says neither load_in_8bit nor load_in_4bit"
        raise ModelError(21, cause, f"say one; {UNQUANTIZED}")
    kind = settings.text("bnb_4bit_quant_type") or "fp4"
    usual(settings, "bnb_4bit_quant_type", (None, "nf4", "fp4"))
    compute = find_plain(settings.text("bnb_4bit_compute_dtype") or "") or plain
    double = settings.data.get("bnb_4bit_use_double_quant") is True
    tables = [Beside(name="quant_map", block=(WHOLE, WHOLE), value_bits=16 * 32)]
    if double:
        tables.append(Beside(name="nested_absmax", block=(1, 64 * 256), value_bits=32))
        tables.append(Beside(name="nested_quant_map", block=(WHOLE, WHOLE), value_bits=256 * 32))
    stored = Format(name=f"{kind}[64]", bits=4, compute=compute.compute, over="elements", beside=tuple(tables))
    stored = replace(stored, block=(1, 64), scale_bytes=1 if double else 4)
    note = "bitsandbytes: the text that describes each matrix (quant_state, some 100 bytes) is not counted"
    return Method(stored=stored, parts=parts, lists=lists, notes=(note,))


def _modelopt(settings: Fields, plain: Format) -> Method:
    """FP8 with one scale a matrix (and one of the activations), or NVFP4. Source: modelopt 0.33, unified checkpoints.

    weight_scale and input_scale are float32 scalars; the two scales of a quantized cache in each layer are not counted.
    """
    del plain
    inner = settings.section("quantization") or settings
    algorithm = inner.text("quant_algo")
    if algorithm == "FP8":
        stored = _fp8_tensor(static=True)
    elif algorithm == "NVFP4":
        usual(inner, "group_size", (None, 16))
        stored = nvfp4("fp4", singles=2)
    else:
        cause = f"{place(inner, 'quant_algo')} is {shown(algorithm)}"
        raise ModelError(21, cause, f'known: "FP8", "NVFP4"; {UNQUANTIZED}')
    kept = inner.words("exclude_modules") if inner is not settings else None
    kv = _kv_scheme(inner) or _kv_algorithm(inner)
    notes = () if kv is None else (KV_NOTES["fp8"],)
    lists = ("ignore", "exclude_modules")
    return Method(stored=stored, parts=_LINEAR, lists=lists, kept=kept or (), kv=kv, notes=notes)


def _compressed_tensors(settings: Fields, plain: Format) -> Method:
    """One scheme of `config_groups`. Source: compressed-tensors 0.12; see `compressed_tensors`."""
    stored, targets = read_schemes(settings, plain)
    kv = _kv_scheme(settings)
    notes = () if kv is None else (KV_NOTES["fp8"],)
    named = None if "Linear" in targets else targets
    return Method(stored=stored, parts=_LINEAR, lists=("ignore",), targets=named, kv=kv, notes=notes)


METHODS: Final[dict[str, Callable[[Fields, Format], Method]]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "gptq": _gptq,
    "awq": _awq,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
}


def _fp8_tensor(*, static: bool) -> Format:
    """A float32 scale a matrix, and one of its activations when they are static."""
    single = Beside(name="input_scale", block=(WHOLE, WHOLE), value_bits=32)
    return replace(fp8_block(WHOLE, WHOLE), beside=(single,) if static else ())


def _grouped(name: str, bits: int, group: int, plain: Format, *, along: str, more: tuple[Beside, ...] = ()) -> Format:
    zeros = Beside(name="zero_points", block=(1, group), value_bits=bits, word_bits=32)
    words = "channel" if group == WHOLE else f"1x{group}"
    return Format(
        name=f"int{bits}[{words},{name}]",
        bits=bits,
        compute=plain.compute,
        block=(1, group),
        scale_bytes=FP16.bits // 8,
        word_bits=32,
        words_along="columns" if along == "columns" else "rows",
        beside=(zeros, *more),
    )


def _skipped(dynamic: Fields) -> tuple[str, ...]:
    """The modules that GPTQModel's `dynamic` skips; it may also set others to other bits, which is refused."""
    changed = [key for key in dynamic.data if not key.startswith("-:")]
    if changed:
        raise ModelError(22, f"{place(dynamic, changed[0])} has settings of its own", UNQUANTIZED)
    return tuple(f"re:{key.removeprefix('-:')}" for key in dynamic.data)


def _kv_scheme(settings: Fields) -> Format | None:
    """The cache of `kv_cache_scheme`: 8-bit floats. Raises MOD021 for another."""
    scheme = settings.section("kv_cache_scheme")
    if scheme is None:
        return None
    if scheme.data.get("num_bits") != 8 or scheme.data.get("type") != "float":  # noqa: PLR2004 - FP8
        cause = f"{place(scheme, 'num_bits')} is {shown(scheme.data.get('num_bits'))}, type "
        raise ModelError(21, cause + shown(scheme.data.get("type")), "known: 8 bits of float; --kv chooses a format")
    return KV["fp8"]


def _kv_algorithm(settings: Fields) -> Format | None:
    value = settings.text("kv_cache_quant_algo")
    if value is None or value.lower() in {"auto", "none"}:
        return None
    if value != "FP8":
        cause = f"{place(settings, 'kv_cache_quant_algo')} is {shown(value)}"
        raise ModelError(21, cause, 'known: "FP8"; --kv chooses a format')
    return KV["fp8"]
