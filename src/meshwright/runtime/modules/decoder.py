"""A `Model`, its arithmetic and a rank's index ranges go in; the modules of a stage come out: Llama and Qwen2/3, dense.

Parameters are called as Hugging Face calls them (`model.layers.3.self_attn.q_proj.weight`), whatever stage they are on.
Their sizes are those of the ownership table: a rank's heads, columns and token numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import torch
from torch import Tensor, nn

from meshwright.model.mixers import Attention as AttentionShape
from meshwright.model.mixers import plain_attention
from meshwright.runtime.modules.linear import Later, Linear
from meshwright.runtime.modules.recompute import Wraps, again, remade
from meshwright.runtime.modules.rotation import turned, turns
from meshwright.runtime.parallel.tensor import ALONE, TensorGroup, enter, leave
from meshwright.runtime.parallel.vocabulary import TokenTable, token_loss

if TYPE_CHECKING:
    from meshwright.model.arithmetic import Arithmetic
    from meshwright.model.model import Model

Ranges: TypeAlias = Mapping[str, tuple[range, ...]]
"""By the Hugging Face name of a weight, the index range of each dim that this rank holds."""

LAYER: Final = "model.layers.{layer}.{name}"
_WIDEST: Final = torch.float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a rank has of a stage. ranges: of its weights.   tp: who has the rest.   later: put-off gradients."""

    ranges: Ranges
    tp: TensorGroup = ALONE
    later: Later
    wraps: Wraps


class RmsNorm(nn.Module):
    """weight [width]; the mean square is taken in float32 or wider."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.epsilon = epsilon

    def forward(self, rows: Tensor) -> Tensor:
        """[..., width], each row brought to mean square 1 and weighted."""
        return self.weight * self.plain(rows)

    def plain(self, rows: Tensor) -> Tensor:
        """Without the weight."""
        wide = rows.to(torch.promote_types(rows.dtype, _WIDEST))
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)).to(rows.dtype)


class Attention(nn.Module):
    """Grouped-query attention over this rank's heads; causal, every position sees itself and all before it."""

    def __init__(self, shape: AttentionShape, hidden: int, share: Share, layer: int, arithmetic: Arithmetic) -> None:
        super().__init__()
        widths = {name: _rows(share, layer, f"self_attn.{name}_proj.weight") for name in ("q", "k", "v")}
        for name, width in widths.items():
            setattr(self, f"{name}_proj", Linear(width, hidden, share.later, bias=shape.qkv_bias))
        self.o_proj = Linear(hidden, widths["q"], share.later)
        if shape.qk_norm == "head":
            self.q_norm, self.k_norm = (RmsNorm(shape.head_dim, arithmetic.norm_epsilon) for _ in range(2))
        self.head_dim, self.normed, self.wraps = shape.head_dim, shape.qk_norm == "head", share.wraps

    def forward(self, rows: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """[batch, positions, hidden] to this rank's part of the same."""
        q, k, v = (self._heads(name, rows) for name in ("q", "k", "v"))
        if self.normed:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = (turned(item.transpose(1, 2), cosines, sines) for item in (q, k))
        core = again(_core, q, k, v.transpose(1, 2)) if self.wraps.attention else _core(q, k, v.transpose(1, 2))
        return self.o_proj(core.transpose(1, 2).flatten(2))

    def _heads(self, name: str, rows: Tensor) -> Tensor:
        return cast("Tensor", getattr(self, f"{name}_proj")(rows)).unflatten(-1, (-1, self.head_dim))


class FeedForward(nn.Module):
    """down(silu(gate) * up) over this rank's columns."""

    def __init__(self, hidden: int, share: Share, layer: int) -> None:
        super().__init__()
        width = _rows(share, layer, "mlp.gate_proj.weight")
        self.gate_proj, self.up_proj = (Linear(width, hidden, share.later) for _ in range(2))
        self.down_proj = Linear(hidden, width, share.later)
        self.wraps = share.wraps

    def forward(self, rows: Tensor) -> Tensor:
        """[batch, positions, hidden] to this rank's part of the same."""
        gate, up = nn.functional.silu(self.gate_proj(rows)), self.up_proj(rows)
        product = gate * up
        with remade(product, lambda: gate * up, wanted=self.wraps.products):
            return self.down_proj(product)


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, model: Model, arithmetic: Arithmetic, share: Share, layer: int, place: int) -> None:
        super().__init__()
        shape = plain_attention(model.kinds[model.kind_of_layer[layer]].mixer, "runs")
        self.self_attn = Attention(shape, model.hidden, share, layer, arithmetic)
        self.mlp = FeedForward(model.hidden, share, layer)
        self.input_layernorm, self.post_attention_layernorm = (
            RmsNorm(model.hidden, arithmetic.norm_epsilon) for _ in range(2)
        )
        self.tp, self.products, self.whole = share.tp, share.wraps.products, share.wraps.treats(place)

    def forward(self, rows: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """[batch, positions (of this rank under sp), hidden] to the same."""
        return again(self._run, rows, cosines, sines) if self.whole else self._run(rows, cosines, sines)

    def _run(self, rows: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        rows = rows + self._part(self.input_layernorm, lambda given: self.self_attn(given, cosines, sines), rows)
        return rows + self._part(self.post_attention_layernorm, self.mlp, rows)

    def _part(self, norm: RmsNorm, part: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
        """The norm, gathered; the part; and its sum over the group. Between the two stands what `products` remakes."""
        plain = norm.plain(rows)
        normed = enter(norm.weight * plain, self.tp)
        # under sp the product that is kept is a gathered one: made again it would be gathered again
        wanted = self.products and not self.tp.cuts_positions
        with remade(normed, lambda: norm.weight * plain, wanted=wanted):
            return leave(part(normed), self.tp)


class Stage(nn.Module):
    """Neighbouring blocks of a model, with the token table before the first and the head behind the last."""

    def __init__(self, model: Model, arithmetic: Arithmetic, layers: range, share: Share) -> None:
        super().__init__()
        self.first, self.last = layers.start == 0, layers.stop == model.layers
        self.model = nn.Module()
        if self.first:
            owned = share.ranges["model.embed_tokens.weight"][0]
            self.model.embed_tokens = TokenTable(owned, model.hidden, share.tp)
        blocks = {str(layer): Block(model, arithmetic, share, layer, place) for place, layer in enumerate(layers)}
        self.model.layers = nn.ModuleDict(blocks)
        if self.last:
            self.model.norm = RmsNorm(model.hidden, arithmetic.norm_epsilon)
            self.owned = share.ranges["lm_head.weight"][0]
            self.lm_head = Linear(len(self.owned), model.hidden, share.later)
            if model.tied and self.first:
                self.lm_head.weight = cast("TokenTable", self.model.embed_tokens).weight
        self.rotation = arithmetic.rotation
        self.head_dim = plain_attention(model.kinds[0].mixer, "runs").head_dim
        self.tp, self.wraps = share.tp, share.wraps

    @property
    def blocks(self) -> list[Block]:
        """In order."""
        return cast("list[Block]", list(cast("nn.ModuleDict", self.model.layers).values()))

    def forward(self, given: Tensor, labels: Tensor | None = None) -> Tensor:
        """Tokens [batch, positions], or rows of the stage before, to rows; with labels, to their summed loss.

        The last stage without labels gives the logits of this rank's token numbers.
        """
        rows = cast("Tensor", cast("TokenTable", self.model.embed_tokens)(given)) if self.first else given
        cut = self.tp.size if self.tp.cuts_positions else 1
        positions = torch.arange(rows.shape[1] * cut, device=rows.device)
        cosines, sines = turns(self.rotation, self.head_dim, positions, rows.dtype)
        rows = self._through(rows, cosines, sines)
        if not self.last:
            return rows
        rows = enter(cast("Tensor", cast("RmsNorm", self.model.norm)(rows)), self.tp)
        logits = cast("Tensor", self.lm_head(rows))
        if labels is None:
            return logits
        wide = logits.to(torch.promote_types(logits.dtype, _WIDEST))
        return token_loss(wide, labels, self.owned, self.tp)

    def _through(self, rows: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """All blocks, in chunks that are made again together where the policy has such."""
        blocks, chunk = self.blocks, self.wraps.chunk

        def several(first: int, given: Tensor) -> Tensor:
            for block in blocks[first : first + chunk]:
                given = block(given, cosines, sines)
            return given

        for first in range(0, len(blocks), chunk):
            rows = again(several, first, rows) if chunk > 1 else several(first, rows)
        return rows


def _rows(share: Share, layer: int, name: str) -> int:
    """How many rows of a matrix this rank has."""
    return len(share.ranges[LAYER.format(layer=layer, name=name)][0])


def _core(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """[batch, heads, positions, head_dim]: scores, a causal softmax, and the mix of values."""
    grouped = queries.shape[1] != keys.shape[1]
    return nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=grouped)
