"""What a text decoder does not run, counted apart: correction biases of routers, and layers that predict more tokens.

Biases are buffers; the shapes of a predictor are those of transformers 5.24, `MtpLayer` (modeling_layers.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import ModelError
from meshwright.model.checks import MOST_LAYERS
from meshwright.model.feed_forwards import Experts
from meshwright.model.model import Apart, Block, Model, block_weights, group_blocks

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_BUFFERS: Final = "e_score_correction_bias, one a routed expert: fp32 beside the parameters, its bytes are not counted"
_MTP: Final = (
    "layers that predict further tokens are not planned; the embedding and the head that they share count once"
)
_MTP_NORMS: Final = 3


def read_predictors(fields: Fields, name: str = "num_nextn_predict_layers", *, default: int = 1) -> int:
    """How many layers predict further tokens, under `name`; null is none. Raises MOD012 beyond what any model has."""
    alias = "num_mtp_layers"
    said = alias if alias in fields.data and name not in fields.data else name
    if said in fields.data and fields.data[said] is None:
        return 0
    count = fields.integer(said, default=default, least=0)
    if count > MOST_LAYERS:
        raise ModelError(12, f"{said} is {count}", f"give at most {MOST_LAYERS}")
    return count


def buffers(model: Model) -> list[Apart]:
    """The correction bias of every routed expert."""
    layers = zip(model.kinds, model.kind_counts, strict=True)
    routed = [(block.feed_forward, count) for block, count in layers if isinstance(block.feed_forward, Experts)]
    biases = sum(layer.experts * count for layer, count in routed)
    return [Apart(name="buffers", parameters=biases, note=_BUFFERS)] if biases else []


def predictors(model: Model, blocks: list[Block], count: int) -> list[Apart]:
    """Each predictor: a block, a product from two rows to one, a norm of each of the two and one of the result."""
    if not blocks:
        return []
    alone = replace(model, groups=group_blocks(blocks))
    own = sum(tensor.elements for tensor in block_weights(alone, 0))
    each = own + 2 * model.hidden * model.hidden + _MTP_NORMS * model.hidden
    return [Apart(name="mtp", parameters=count * each, note=_MTP)]
