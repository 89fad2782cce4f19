"""What a rank must keep free beside weights and KV, from shapes: a model, layouts and a rule go in; items come out.

    item           bytes on the rank that needs most
    activations    the forward step of most tokens: the residual stream and every tensor of the widest block at once,
                   or, where larger, the residual stream and the logits of the sampled rows (a rank's part in the plain
                   format, and all of them in fp32)
    comm_buffers   groups of more than one rank that exchange x channels x buffer
    workspace      the scratch memory of the matrix library
    padding        of each resident session a last KV page that holds one token; the vocabulary rounded up
    in_flight      at stage boundaries: a step's rows received, and as many sent

Every constant is a field of `ReserveRule`, with where its default was read. Left out: fragmentation of the allocator,
captured graphs, the device context, buffers of routed rows beyond those that a rank's own tokens make.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.numbers import divide_up, maximum, minimum, where
from meshwright.base.units import Bytes, Tokens
from meshwright.cost.memory import cached_columns, stored_columns
from meshwright.layout.context import has_context
from meshwright.layout.ownership import local_elements, local_samples
from meshwright.model.model import first_weights, last_weights
from meshwright.workload.activations import activations, logits, routed
from meshwright.workload.messages import has_message, messages

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.model.tensors import Tensor

ITEMS: Final = ("comm_buffers", "activations", "workspace", "padding", "in_flight")
_FP32_BYTES: Final = 4
_NEIGHBOURS: Final = 2
_BATCHED: Final = Tokens(8192)
_PAGE: Final = Tokens(16)
_CHANNEL: Final = Bytes(4 * 2**20)
_SCRATCH: Final = Bytes(32 * 2**20)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveRule:
    """What the reserve is computed with; every default is assumed for an engine that is not named.

    max_batched_tokens: rows of the largest step (vLLM 0.11 `EngineArgs.get_batch_defaults`: its server's 8192 on
    devices of 70 GiB and more, A100 apart; 2048 on others).   sampled_rows: rows that get logits (its `max_num_seqs`:
    256, and 1024 on the former).   page_tokens: of a KV page (its `block_size` on NVIDIA).   vocabulary_multiple: to
    which the vocabulary is rounded up (its `DEFAULT_VOCAB_PADDING_SIZE`).   comm_buffer: of a channel (NCCL user guide,
    NCCL_BUFFSIZE: 4 MiB).   comm_channels: of a group; NCCL decides them by topology: assumed.   matmul_workspace: of
    cuBLAS (PyTorch 2, CUDABlas `getChosenWorkspaceSize`: 32 MiB on Hopper, 8 MiB before it).
    """

    max_batched_tokens: Tokens = _BATCHED
    sampled_rows: int = 256
    page_tokens: Tokens = _PAGE
    vocabulary_multiple: int = 64
    comm_buffer: Bytes = _CHANNEL
    comm_channels: int = 16
    matmul_workspace: Bytes = _SCRATCH


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reserve:
    """Columns of int64 bytes, one row a layout; each item of the rank that needs most of it."""

    comm_buffers: Ints
    activations: Ints
    workspace: Ints
    padding: Ints
    in_flight: Ints

    @property
    def total(self) -> Ints:
        """All items together."""
        return self.outside_pool + self.padding

    @property
    def outside_pool(self) -> Ints:
        """All but the padding, which lies inside weights and KV pages."""
        return self.comm_buffers + self.activations + self.workspace + self.in_flight


def reserve(model: Model, layouts: Layouts, rule: ReserveRule, sessions: Ints) -> Reserve:
    """The reserve of every layout with `sessions` (a column) resident on one replica."""
    rows = rule.max_batched_tokens
    return Reserve(
        comm_buffers=_groups(model, layouts) * (rule.comm_channels * rule.comm_buffer),
        activations=_activations(model, layouts, rule),
        workspace=np.broadcast_to(np.asarray(rule.matmul_workspace), len(layouts)),
        padding=_page_padding(model, layouts, rule, sessions) + _vocabulary_padding(model, layouts, rule),
        in_flight=_boundary_bytes(model) * rows * minimum(layouts.degree("pp") - 1, _NEIGHBOURS),
    )


def _groups(model: Model, layouts: Layouts) -> Ints:
    """How many groups a rank is in that exchange anything."""
    found: dict[str, Any] = {}
    for message in messages(model):
        found[message.axis] = found.get(message.axis, False) | has_message(message, layouts)
    if has_context(layouts):
        found["cp"] = layouts.degree("cp") > 1
    return np.stack(list(found.values())).sum(axis=0, dtype=np.int64)


def _boundary_bytes(model: Model) -> int:
    return sum(message.per_row_bytes for message in messages(model) if message.boundary)


def _activations(model: Model, layouts: Layouts, rule: ReserveRule) -> Ints:
    rows: Any = rule.max_batched_tokens
    sampled = min(rule.sampled_rows, rows)
    residual = _bytes(model, layouts, activations(model, 0, 1, rows)[:1])
    widest = np.zeros(len(layouts), dtype=np.int64)
    for kind in range(len(model.kinds)):
        block = (*activations(model, kind, 1, rows), *routed(model, kind, 1, rows))
        widest = maximum(widest, _bytes(model, layouts, block))
    head = _bytes(model, layouts, (logits(model, 1, sampled),)) + logits(model, 1, sampled).elements * _FP32_BYTES
    return residual + maximum(widest, head)


def _bytes(model: Model, layouts: Layouts, tensors: tuple[Tensor, ...]) -> Ints:
    """Activations on the fullest rank, in the plain format."""
    total = np.zeros(len(layouts), dtype=np.int64)
    for tensor in tensors:
        total = total + local_elements(tensor, layouts, "activations") * model.plain.bits // 8
    return total


def _page_padding(model: Model, layouts: Layouts, rule: ReserveRule, sessions: Ints) -> Ints:
    """At most a page less one token a session: a last page holds at least one."""
    unfilled = cached_columns(model, layouts, maximum(rule.page_tokens - 1, 0))
    return unfilled * local_samples(sessions, layouts)


def _vocabulary_padding(model: Model, layouts: Layouts, rule: ReserveRule) -> Ints:
    """Embedding and head: of one rank without stages, else of the stage that has the larger."""
    first = _padding_of(model, first_weights(model), layouts, rule.vocabulary_multiple)
    own = tuple(tensor for tensor in last_weights(model) if tensor.alias is None)
    last = _padding_of(model, own, layouts, rule.vocabulary_multiple)
    apart = maximum(first, _padding_of(model, last_weights(model), layouts, rule.vocabulary_multiple))
    return where(layouts.degree("pp") > 1, apart, first + last)


def _padding_of(model: Model, tensors: tuple[Tensor, ...], layouts: Layouts, multiple: int) -> Ints:
    padded = tuple(_rounded(tensor, multiple) for tensor in tensors)
    return stored_columns(model, padded, layouts) - stored_columns(model, tensors, layouts)


def _rounded(tensor: Tensor, multiple: int) -> Tensor:
    """The tensor with its vocabulary rounded up."""
    dims: list[Any] = [
        replace(dim, size=divide_up(dim.size, multiple) * multiple) if dim.role == "vocab" else dim
        for dim in tensor.dims
    ]
    return replace(tensor, dims=tuple(dims))
