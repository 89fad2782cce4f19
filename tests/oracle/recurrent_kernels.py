"""Kernels of recurrent mixers that keep what the packages' kernels keep, in place of torch's many operators.

Values are not computed: an output has its shape, and the backward is never run. What each keeps is the argument list
of `save_for_backward` in causal_conv1d 1.7, fla-core 0.6 and mamba_ssm 2.3.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHUNK = 64


class _Kernel(torch.autograd.Function):
    """Keeps what `runs` says of its inputs."""

    @staticmethod
    def forward(ctx: Any, runs: Callable[..., tuple[torch.Tensor, tuple[torch.Tensor, ...]]], *given: Any) -> Any:
        out, kept = runs(*given)
        ctx.save_for_backward(*kept)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError


def causal_conv1d_fn(x, weight, bias=None, activation=None, **_: Any):  # CausalConv1dFn
    return _Kernel.apply(lambda x, weight: (torch.empty_like(x), (x, weight)), x, weight)


def gated_delta_rule(query, key, value, *, g, beta, **_: Any):  # ChunkGatedDeltaRuleFunction
    def runs(q, k, v, g, beta):
        heads, wide = v.shape[:3], v.new_empty
        kept = (
            wide(q.shape), g.new_empty(q.shape[:3]), wide(k.shape), g.new_empty(k.shape[:3]),
            v.contiguous(), torch.empty_like(g), beta.contiguous(), wide(*heads, CHUNK),
        )  # fmt: skip
        return wide(v.shape), kept

    return _Kernel.apply(runs, query, key, value, g, beta), None


def kimi_delta(query, key, value, *, g, beta, **_: Any):  # ChunkKDAFunction
    def runs(q, k, v, g, beta):
        heads, wide = v.shape[:3], v.new_empty
        kept = (
            wide(q.shape), g.new_empty(q.shape[:3]), wide(k.shape), g.new_empty(k.shape[:3]), v.contiguous(),
            torch.empty_like(g), g.contiguous(), beta.contiguous(), wide(*heads, CHUNK), wide(*heads, CHUNK),
        )  # fmt: skip
        return wide(v.shape), kept

    return _Kernel.apply(runs, query, key, value, g, beta), None


def selective_scan(u, delta, A, B, C, D=None, z=None, **_: Any):  # noqa: N803, PLR0917 - SelectiveScanFn
    def runs(u, delta, b, c, z):
        chunks = -(-u.shape[-1] // 2048)
        states = u.new_empty(*u.shape[:2], chunks, 2 * b.shape[1], dtype=torch.float32)
        kept = (*(item.contiguous() for item in (u, delta, b, c, z)), states, torch.empty_like(delta))
        return torch.empty_like(delta), kept

    return _Kernel.apply(runs, u, delta, B, C, z)


def split_conv1d_scan(zxbcdt, *_: Any, outproj_weight, ngroups, **__: Any):  # MambaSplitConv1dScanCombinedFn
    def runs(zxbcdt, weight):
        rows, inner = zxbcdt.shape[:2], weight.shape[1]
        kept = (zxbcdt, zxbcdt.new_empty(*rows, inner), zxbcdt.new_empty(*rows, ngroups, dtype=torch.float32))
        return zxbcdt.new_empty(*rows, weight.shape[0]), kept

    return _Kernel.apply(runs, zxbcdt, outproj_weight)


def lightning(self, hidden_states, **_: Any):
    """MiniMaxLightningAttention.forward with chunk_lightning_attn in place of its loop over blocks."""

    def runs(q, k, v):
        return torch.empty_like(q), (q.contiguous(), k.contiguous(), v.contiguous())

    qkv = self.act_fn(self.qkv_proj(hidden_states))
    qkv = qkv.reshape(*hidden_states.shape[:2], self.num_attention_heads, 3 * self.head_dim)
    out = _Kernel.apply(runs, *torch.split(qkv, self.head_dim, dim=3))
    out = self.norm(out.reshape(*hidden_states.shape[:2], -1))
    return self.out_proj(torch.sigmoid(self.output_gate(hidden_states)) * out), None


KERNELS = {
    "causal_conv1d_fn": causal_conv1d_fn,
    "torch_chunk_gated_delta_rule": gated_delta_rule,
    "chunk_kimi_delta_attention": kimi_delta,
    "mamba_selective_scan": selective_scan,
    "mamba2_split_conv1d_scan_combined": split_conv1d_scan,
}


def gated_norm(self, hidden_states, gate=None):  # fla-core 0.6, FusedRMSNormGated
    def runs(x, gate):
        rows = x.reshape(-1, x.shape[-1])
        return torch.empty_like(x), (rows, gate, rows.new_empty(rows.shape[0], dtype=torch.float32))

    return _Kernel.apply(runs, hidden_states, gate)


def kimi_delta_and_gate(query, key, value, *, g, beta, **_: Any):  # ChunkKDAFunction with use_gate_in_kernel
    def runs(q, k, v, g, beta):
        heads, wide = v.shape[:3], v.new_empty
        kept = (
            wide(q.shape), g.new_empty(q.shape[:3], dtype=torch.float32), wide(k.shape),
            g.new_empty(k.shape[:3], dtype=torch.float32), v.contiguous(), g.contiguous(), beta.contiguous(),
            wide(*heads, CHUNK), wide(*heads, CHUNK),
        )  # fmt: skip
        return wide(v.shape), kept

    return _Kernel.apply(runs, query, key, value, g, beta), None


def raw_gate(self, hidden_states):
    """KimiLinearForgetGate.forward up to what the kernel makes a decay of."""
    return self.f_b_proj(self.f_a_proj(hidden_states)).unflatten(-1, (-1, self.head_dim))


FUSED = {"chunk_kimi_delta_attention": kimi_delta_and_gate}
FORWARDS = {"MiniMaxLightningAttention": lightning}
FUSED_FORWARDS = {
    **FORWARDS,
    "Qwen3NextRMSNormGated": gated_norm,
    "Qwen3_5RMSNormGated": gated_norm,
    "KimiLinearRMSNormGated": gated_norm,
    "KimiLinearForgetGate": raw_gate,
}


@contextmanager
def kernels_of(model: Any, elementwise: str = "eager") -> Iterator[None]:
    """While it lasts, the module that a model's class is written in calls these."""
    room = import_module(type(model).__module__)
    chosen = {**KERNELS, **(FUSED if elementwise == "fused" else {})}
    forwards = FUSED_FORWARDS if elementwise == "fused" else FORWARDS
    before = {name: getattr(room, name) for name in chosen if hasattr(room, name)}
    classes = {name: getattr(room, name) for name in forwards if hasattr(room, name)}
    own = {name: found.forward for name, found in classes.items()}
    for name in before:
        setattr(room, name, chosen[name])
    for name, found in classes.items():
        found.forward = forwards[name]
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(room, name, function)
        for name, found in classes.items():
            found.forward = own[name]
