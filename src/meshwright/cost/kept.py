"""Weights and a recipe go in; every tensor that training keeps for them, as which state and in which format, comes out.

The one list of it: memory, tables by parameter and messages are read off it under the ownership table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.errors import JobError, suggest
from meshwright.base.traced import held
from meshwright.job.optimizer import Moment, Weight, moments
from meshwright.layout.ownership import product
from meshwright.model.formats import FP32, PLAIN, Format, fp8_block
from meshwright.model.model import USUALLY_QUANTIZED, block_weights, first_weights, last_weights
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Ints
    from meshwright.job.recipe import Recipe
    from meshwright.layout.ownership import State
    from meshwright.model.model import Model

_FP8: Final = fp8_block(128, 128)
_SCALE_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One tensor that stays between steps (or, as `gathered`, while its module is in use).

    name: parameters, fp8_copy, gradients, master, or what the optimizer calls its state.   state: how it is sharded.
    tensor: its shape.   stored: its format.
    """

    name: str
    state: State
    tensor: Tensor
    stored: Format

    def piece_bytes(self, sizes: Sequence[Ints | int]) -> Ints | int:
        """Bytes of a piece with these dims; a piece that shares scales over its rows is stored in one."""
        if self.stored.over == "elements":
            return self.stored.stored_bytes((1, product(sizes)))
        return self.stored.stored_bytes(sizes if len(sizes) > 1 else (1, *sizes))


def kept(tensors: tuple[Tensor, ...], recipe: Recipe) -> tuple[Kept, ...]:
    """What stays resident of weights and, under LoRA, of their adapters.

    A parameter in float32 needs no master: it is its own. A base that adapters freeze keeps its parameters alone.
    Source: Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 3.1; chapter "Training systems", section 10.1.2.
    """
    frozen, trained = _trained(tensors, recipe)
    found: list[Kept] = []
    for tensor in (*frozen, *trained):
        found += [_as(tensor, name, "parameters", stored) for name, stored in _copies(tensor, recipe)]
    for tensor in trained:
        found.append(_as(tensor, "gradients", "gradients", PLAIN[recipe.gradients]))
        if recipe.master != "none" and _plain(tensor, recipe) != FP32:
            found.append(_as(tensor, "master", "optimizer_state", FP32))
        found += [_state(tensor, moment) for moment in moments(recipe.optimizer, _weight(tensor))]
    return tuple(found)


def model_kept(model: Model, recipe: Recipe) -> tuple[tuple[Kept, int], ...]:
    """Everything that is kept of a whole model, with how often: every expert, a tied head once.

    Raises JOB043 for adapters of matrices that the model lacks.
    """
    check_targets(model, recipe)
    ends = (*first_weights(model), *(tensor for tensor in last_weights(model) if tensor.alias is None))
    layers = [
        (item, count)
        for kind, count in enumerate(model.kind_counts)
        for item in kept(block_weights(model, kind), recipe)
    ]
    return (*((item, 1) for item in kept(ends, recipe)), *layers)


def in_operands(model: Model, recipe: Recipe) -> Model:
    """The model as a recipe computes it: rows, activations and messages between ranks are as wide as operands.

    Operands in fp8 are cast for each product; rows stay in bf16. A config's own format says nothing about training:
    some were released in float32. Source: Micikevicius et al., "Mixed precision training" (arXiv 1710.03740), section
    3.1; DeepSeek-AI, "DeepSeek-V3 technical report" (arXiv 2412.19437), section 3.3.
    """
    operands = PLAIN.get(recipe.compute, PLAIN["bf16"])
    return model if held(model.plain.bits) == operands.bits else replace(model, plain=operands)


def saved_parts(model: Model, recipe: Recipe) -> dict[str, Any]:
    """Bytes of a save at the boundary of a step: parameters, master and optimizer_state; gradients are not saved there.

    Nor is a base that adapters freeze: it is where it was read. Raises JOB043, as `model_kept`. Source: chapter
    "Training systems", section 10.4.2.
    """
    found: dict[str, Any] = {"parameters": 0, "master": 0, "optimizer_state": 0}
    listed = model_kept(model, recipe)
    trained = {item.tensor.name for item, _ in listed if item.state == "gradients"}
    for item, count in listed:
        part = item.name if item.name in found else item.state
        if part in found and item.tensor.name in trained:
            found[part] = found[part] + item.piece_bytes(item.tensor.shape) * count
    return found


def gathered(tensors: tuple[Tensor, ...], recipe: Recipe) -> tuple[Kept, ...]:
    """What is brought together of a module whose parameters are sharded: the narrowest copy that its products read.

    That is the copy in fp8 where one is resident, else the parameters, cast before to a narrower format of the operands
    (as torch FSDP2 does to `param_dtype`).
    """
    found: list[Kept] = []
    frozen, trained = _trained(tensors, recipe)
    for tensor in (*frozen, *trained):
        stored = _copies(tensor, recipe)[-1][1]
        narrow = PLAIN.get(recipe.compute)
        if not tensor.fp32 and narrow is not None and narrow.bits < stored.bits:
            stored = narrow
        found.append(_as(tensor, "gathered", "gathered", stored))
    return tuple(found)


def gradient_buffers(tensors: tuple[Tensor, ...], recipe: Recipe) -> tuple[Kept, ...]:
    """The gradients of a module before they are reduced to their owners: of its gathered shapes."""
    return tuple(replace(item, state="gathered") for item in kept(tensors, recipe) if item.state == "gradients")


def updated(tensors: tuple[Tensor, ...], recipe: Recipe) -> tuple[Kept, ...]:
    """Parameters that an update changes, in every format in which they stay."""
    trained = {item.tensor.name for item in gradient_buffers(tensors, recipe)}
    return tuple(item for item in kept(tensors, recipe) if item.state == "parameters" and item.tensor.name in trained)


def written(tensors: tuple[Tensor, ...], recipe: Recipe) -> tuple[Kept, ...]:
    """The same as an update writes them, cut as the optimizer's state."""
    return tuple(replace(item, state="optimizer_state") for item in updated(tensors, recipe))


def read(tensors: tuple[Tensor, ...], recipe: Recipe) -> tuple[Kept, ...]:
    """What an update reads beside the optimizer's state, cut as that: gradients, and parameters without a master."""
    own = (
        item
        for item in updated(tensors, recipe)
        if item.name == "parameters" and (recipe.master == "none" or item.stored == FP32)
    )
    both = (*gradient_buffers(tensors, recipe), *own)
    return tuple(replace(item, state="optimizer_state") for item in both)


def operand_copies(tensors: tuple[Tensor, ...], recipe: Recipe) -> tuple[Kept, ...]:
    """The copies in fp8 that are made for a product and dropped behind it."""
    if recipe.fp8_copy != "transient":
        return ()
    frozen, trained = _trained(tensors, recipe)
    return tuple(_as(item, "fp8_copy", "gathered", _FP8) for item in (*frozen, *trained) if _multiplied(item))


def adapters(tensor: Tensor, recipe: Recipe) -> tuple[Tensor, ...]:
    """The two matrices that adapt one, in the order in which rows meet them; none for one that is not a target."""
    if recipe.lora_rank == 0 or not _multiplied(tensor) or _short(tensor) not in recipe.lora_targets:
        return ()
    return _adapter(tensor, recipe.lora_rank)


def in_fp8(tensor: Tensor, recipe: Recipe) -> bool:
    """Whether products with a matrix have operands in fp8: those that have a copy in it."""
    return recipe.compute == "fp8" and _multiplied(tensor)


def check_targets(model: Model, recipe: Recipe) -> None:
    """Every target names a matrix of the model. Raises JOB043 for one that does not."""
    weights = [tensor for kind in range(len(model.kinds)) for tensor in block_weights(model, kind)]
    known = dict.fromkeys(_short(tensor) for tensor in weights if _multiplied(tensor))
    for target in recipe.lora_targets:
        if target not in known:
            raise JobError(43, f"lora_targets: {model.name} has no matrix {target!r}", suggest(target, known))


def _trained(tensors: tuple[Tensor, ...], recipe: Recipe) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The frozen and the trained ones, adapters among the latter."""
    if recipe.lora_rank == 0:
        return (), tensors
    return tensors, tuple(half for tensor in tensors for half in adapters(tensor, recipe))


def _adapter(tensor: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """A [rank, in] and B [out, rank] of a matrix [out, in], each expert its own; cut where the matrix is.

    Source: Hu et al., "LoRA" (arXiv 2106.09685), section 4.1.
    """
    *outer, rows, columns = tensor.dims
    between = Dim(role="adapter_rank", size=rank)
    stem = tensor.name.removesuffix(".weight")
    shapes = {"lora_A": (between, columns), "lora_B": (rows, between)}
    first, second = (
        replace(tensor, name=f"{stem}.{name}.weight", dims=(*outer, *dims), quantized=False)
        for name, dims in shapes.items()
    )
    return first, second


def _copies(tensor: Tensor, recipe: Recipe) -> tuple[tuple[str, Format], ...]:
    """The resident copies that the forward can read, the one it does read last."""
    plain = ("parameters", _plain(tensor, recipe))
    if recipe.fp8_copy not in {"kept", "instead"} or not _multiplied(tensor):
        return (plain,)
    copy = ("fp8_copy", _FP8)
    return (copy,) if recipe.fp8_copy == "instead" else (plain, copy)


def _plain(tensor: Tensor, recipe: Recipe) -> Format:
    return FP32 if tensor.fp32 else PLAIN[recipe.parameters]


def _multiplied(tensor: Tensor) -> bool:
    """Whether it is a matrix whose operands have a copy in fp8: as DeepSeek-V3, not the ends, router and norms."""
    return tensor.quantized and tensor.part in USUALLY_QUANTIZED


def _short(tensor: Tensor) -> str:
    """`q_proj` of `self_attn.q_proj.weight`."""
    return tensor.name.removesuffix(".weight").rpartition(".")[2]


def _weight(tensor: Tensor) -> Weight:
    dims = sum(dim.role != "experts" for dim in tensor.dims)
    return Weight(part=tensor.part, dims=dims, elements=tensor.elements)


def _state(tensor: Tensor, moment: Moment) -> Kept:
    """A tensor of optimizer state: the weight's dims but the one that it is a statistic over."""
    *outer, rows, columns = (None, *tensor.dims)[-max(len(tensor.dims), 2) :]
    left = {"none": (rows, columns), "columns": (rows,), "rows": (columns,)}[moment.without]
    shape = replace(tensor, dims=tuple(dim for dim in (*outer, *left) if dim is not None))
    stored = Format(name=f"{moment.bits}-bit", bits=moment.bits, compute="fp32")
    if moment.block:
        stored = replace(stored, block=(1, moment.block), scale_bytes=_SCALE_BYTES, over="elements")
    return _as(shape, moment.name, "optimizer_state", stored)


def _as(tensor: Tensor, name: str, state: State, stored: Format) -> Kept:
    return Kept(name=name, state=state, tensor=tensor, stored=stored)
