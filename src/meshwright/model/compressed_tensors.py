"""The `config_groups` of compressed-tensors go in; how they store a matrix, and what they target, come out.

Source: compressed-tensors 0.12, `quantization/lifecycle/initialize.py` (shapes and types of scales and zero points) and
`compressors/` (packing). A scale has the type of the unquantized weight unless `scale_dtype` says otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from meshwright.base.errors import ModelError
from meshwright.model.config import shown
from meshwright.model.coverage import UNQUANTIZED
from meshwright.model.formats import WHOLE, Beside, Format, find_plain, mxfp4, nvfp4, packed_groups
from meshwright.model.settings import group_size, is_block, one_of, place, usual

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.model.config import Fields

_UNPACKED: Final = ("float-quantized", "int-quantized", "naive-quantized")
_PACKED: Final = ("pack-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized")


def read_schemes(settings: Fields, plain: Format) -> tuple[Format, tuple[str, ...]]:
    """The one format of all groups, and their targets. Raises MOD021 for several formats, or one not known here."""
    sparsity = settings.section("sparsity_config")
    if sparsity is not None:
        usual(sparsity, "format", (None, "dense"))
    groups = settings.section("config_groups")
    found = [] if groups is None else [groups.section(name) for name in groups.data]
    schemes = [scheme for scheme in found if scheme is not None]
    if not schemes or len(schemes) < len(found):
        raise ModelError(21, f"{place(settings, 'config_groups')} holds no scheme", f"give one; {UNQUANTIZED}")
    stored = {_scheme(settings, scheme, plain): scheme.prefix for scheme in schemes}
    if len(stored) > 1:
        names = " and ".join(item.name for item in stored)
        cause = f"{place(settings, 'config_groups')} stores matrices in {names}, and a model has one format here"
        raise ModelError(21, cause, UNQUANTIZED)
    targets = [word for scheme in schemes for word in scheme.words("targets") or ("Linear",)]
    return next(iter(stored)), tuple(dict.fromkeys(targets))


def _scheme(settings: Fields, scheme: Fields, plain: Format) -> Format:
    weights = scheme.section("weights")
    if weights is None:
        raise ModelError(21, f"{place(scheme, 'weights')} is missing", UNQUANTIZED)
    usual(scheme, "output_activations", (None,))
    layout = scheme.text("format") or settings.text("format")
    activations = scheme.section("input_activations")
    if layout == "pack-quantized":
        return _with_inputs(_packed(weights, plain), activations, plain)
    if layout == "nvfp4-pack-quantized":
        usual(weights, "num_bits", (4,))
        usual(weights, "group_size", (16,))
        return nvfp4(plain.compute, singles=1) if activations is None else nvfp4("fp4", singles=2)
    if layout == "mxfp4-pack-quantized":
        usual(weights, "num_bits", (4,))
        usual(weights, "group_size", (32,))
        return mxfp4(plain.compute if activations is None else "fp4")
    if layout not in _UNPACKED:
        cause = f"{place(settings, 'format')} is {shown(layout)}"
        raise ModelError(21, cause, f"known: {', '.join((*_UNPACKED, *_PACKED))}; {UNQUANTIZED}")
    return _with_inputs(_unpacked(weights, plain), activations, plain)


def _packed(weights: Fields, plain: Format) -> Format:
    """weight_packed int32 [out, in / values a word], weight_shape, weight_scale; zero points, too, packed along out."""
    usual(weights, "type", ("int",))
    bits = one_of(weights, "num_bits", 4, 8)
    rows, columns = _block(weights)
    if rows != 1:
        raise ModelError(21, f"{place(weights, 'strategy')} is {shown(weights.data.get('strategy'))}", UNQUANTIZED)
    stored = packed_groups(bits, columns, scale_bytes=_scale_bytes(weights, plain), compute=plain.compute)
    beside = list(stored.beside)
    if weights.data.get("symmetric") is False:
        beside.append(Beside(name="zero_points", block=(1, columns), value_bits=bits, word_bits=32))
    usual(weights, "actorder", (None, False, True, "group", "weight", "static"))
    if weights.data.get("actorder") in {True, "group"}:
        beside.append(Beside(name="group_index", block=(WHOLE, 1), value_bits=32))
    return replace(stored, beside=tuple(beside))


def _unpacked(weights: Fields, plain: Format) -> Format:
    """weight in 8 bits, weight_scale a tensor, a row, a group or a block; zero points of a byte when asymmetric."""
    usual(weights, "num_bits", (8,))
    usual(weights, "type", ("float", "int"))
    kind = "fp8" if weights.data["type"] == "float" else "int8"
    rows, columns = block = _block(weights)
    words = {(1, WHOLE): "channel", (WHOLE, WHOLE): "tensor"}.get(block, f"{rows}x{columns}")
    zero = Beside(name="zero_points", block=block, value_bits=8)
    return Format(
        name=f"{kind}[{words}]",
        bits=8,
        compute=plain.compute,
        block=block,
        scale_bytes=_scale_bytes(weights, plain),
        beside=(zero,) if weights.data.get("symmetric") is False else (),
    )


def _with_inputs(stored: Format, activations: Fields | None, plain: Format) -> Format:
    """The format as it is multiplied: in that of the activations when they are quantized, whose static scale is stored.

    Without quantized activations the weights are widened and multiplied in the plain format (vLLM 0.11, w4a16, w8a16).
    """
    if activations is None:
        return stored
    usual(activations, "num_bits", (8,))
    usual(activations, "type", ("float", "int"))
    usual(activations, "dynamic", (None, True, False))
    found = replace(stored, compute="fp8" if activations.data["type"] == "float" else "int8")
    if activations.data.get("dynamic") is True:
        return found
    usual(activations, "strategy", (None, "tensor"))
    bits = 8 * _scale_bytes(activations, plain) + (8 if activations.data.get("symmetric") is False else 0)
    return replace(found, beside=(*found.beside, Beside(name="input_scale", block=(WHOLE, WHOLE), value_bits=bits)))


def _block(weights: Fields) -> tuple[int, int]:
    """Rows and columns that share a scale."""
    usual(weights, "strategy", (None, "tensor", "channel", "group", "block"))
    size, strategy = weights.data.get("group_size"), weights.data.get("strategy")
    if strategy is None:  # as QuantizationArgs infers it
        strategy = "tensor" if size is None else "channel" if size == -1 else "group"
    if strategy == "block":
        block = weights.data.get("block_structure")
        if not is_block(block):
            raise ModelError(21, f"{place(weights, 'block_structure')} is {shown(block)}", UNQUANTIZED)
        rows, columns = cast("Sequence[int]", block)
        return rows, columns
    if strategy == "group":
        return 1, group_size(weights, "group_size")
    return (WHOLE if strategy == "tensor" else 1), WHOLE


def _scale_bytes(values: Fields, plain: Format) -> int:
    said = values.text("scale_dtype")
    stored = plain if said is None else find_plain(said)
    if stored is None:
        raise ModelError(21, f"{place(values, 'scale_dtype')} is {shown(said)}", UNQUANTIZED)
    return stored.bits // 8
