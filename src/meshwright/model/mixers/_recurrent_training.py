"""What mixers with a state of fixed size share of training: entries of kernels and of gated norms, and their gradients.

Convolutions and scans are single kernels with a backward of their own, whatever `elementwise` says, as the packages
have them that transformers 5.24 calls: causal_conv1d 1.7 keeps the input of a convolution; fla-core 0.6 and mamba_ssm
2.3 keep what each mixer's file lists. The states between chunks are made again in the backward, which holds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from meshwright.model.mixers.saving import FP32_BITS, Kept, held

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import Elementwise, Need
    from meshwright.model.tensors import Dim

LEFT_OUT: Final = (
    "recurrent mixers: that their backward makes states between chunks again (its memory is counted, its time is not)",
    "RMSNorms that multiply by their weight in fp32 (Qwen3-Next, Nemotron-H), operator by operator: 2 bytes a column",
)


def kept(name: str, dim: Dim, operator: str, *, need: Need = "nonlinear", bits: int | None = None) -> Kept:
    """One tensor of a row a position."""
    return Kept(name=name, operator=operator, dims=(dim,), need=need, bits=bits)


def gated_norm(
    name: str, dim: Dim, groups: Dim, gate: Literal["silu", "sigmoid"], elementwise: Elementwise
) -> tuple[Kept, ...]:
    """An RMSNorm of heads, multiplied by an activated gate; its output is the input of the last product.

    Called operator by operator a silu keeps its input and its result, all of it in fp32 but the normed values and these
    times the weight, which a gate by sigmoid keeps in fp32 too. One kernel keeps input, gate and rstd. Source:
    transformers 5.24, Qwen3NextRMSNormGated and KimiLinearRMSNormGated; fla-core 0.6, FusedRMSNormGated.
    """
    rstd = kept(f"{name}.rstd", groups, name, bits=FP32_BITS)
    if elementwise == "fused":
        return (kept(f"{name}.input", dim, name), rstd, kept(f"{name}.gate", dim, name))
    plain = None if gate == "silu" else FP32_BITS
    found = (
        Kept(name=f"{name}.input", operator=name, dims=(dim,), need="copy", bits=FP32_BITS),
        rstd,
        kept(f"{name}.normed", dim, name, bits=plain),
        kept(f"{name}.scaled", dim, name, bits=plain),
        kept(f"{name}.activated_gate", dim, name, bits=FP32_BITS),
    )
    return (*found, kept(f"{name}.gate", dim, name, bits=FP32_BITS)) if gate == "silu" else found


def product_input(name: str, dim: Dim, operator: str) -> Kept:
    """An elementwise product that a matrix product keeps."""
    return Kept(name=name, operator=operator, dims=(dim,), product=True)


def gated_norm_gradients(dim: Dim, elementwise: Elementwise) -> tuple[Kept, ...]:
    """Of the output, of the gate, and of the normed values."""
    if elementwise == "fused":
        return tuple(held(name, dim) for name in ("gated_output", "gate", "scan_output"))
    steps = ("gated_product", "scaled", "activated_gate")
    return (held("gated_output", dim), *(held(name, dim, bits=FP32_BITS) for name in steps))
