"""Nemotron-H and Nemotron 3: blocks of one part each - Mamba-2, attention, a dense feed-forward, or a mixture.

Defaults: transformers 5.24 `NemotronHConfig`, which reads the blocks from `layers_block_type` (also `layer_types`) or
the letters of `hybrid_override_pattern`, and takes their number from there; `num_local_experts` is an alias of
`n_routed_experts`. Feed-forwards have no gate, attention has no rotary positions. Older configs call `head_dim`
`attention_head_dim`, which the class does not read and the released code does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import ModelError
from meshwright.model.checks import MOST_LAYERS
from meshwright.model.config import shown
from meshwright.model.families._apart import buffers
from meshwright.model.families._common import assemble, read_experts, read_heads
from meshwright.model.families._hybrid import FULL, LINEAR, checked, read_kinds
from meshwright.model.families._multi_head import note_unused
from meshwright.model.feed_forwards import Dense, Experts, NoFeedForward
from meshwright.model.mixers import Attention
from meshwright.model.mixers.mamba2 import Mamba2
from meshwright.model.mixers.nothing import NoMixer
from meshwright.model.model import Apart, Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_MLP: Final = "mlp"
_MOE: Final = "moe"
_KNOWN: Final = (FULL, LINEAR, _MLP, _MOE)
_LETTERS: Final = {"M": LINEAR, "E": _MOE, "*": FULL, "-": _MLP}
_USUAL: Final = (LINEAR, _MOE, FULL, _MLP)
_MTP: Final = "layers that predict further tokens: named by the config, not built by its class, not counted"


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `nemotron_h` config. Raises MOD009 for blocks that are unknown or none."""
    hidden = fields.integer("hidden_size", default=4096)
    kinds = _read_kinds(fields)
    blocks = {kind: _read_block(fields, hidden, kind) for kind in sorted(set(kinds))}
    model = assemble(
        fields,
        name,
        hidden=hidden,
        vocab=fields.integer("vocab_size", default=131072),
        blocks=[blocks[kind] for kind in kinds],
        tied=False,
        max_positions=fields.integer("max_position_embeddings", default=4096),
        position_kind="none",
    )
    note_unused(fields, "tie_word_embeddings", "its class keeps a head of its own", usual=False)
    extra = fields.data.get("num_nextn_predict_layers")
    predictors = (Apart(name="mtp", parameters=None, note=_MTP),) if extra else ()
    return replace(model, apart=(*buffers(model), *predictors), notes=tuple(fields.notes))


def _read_kinds(fields: Fields) -> tuple[str, ...]:
    """The part that each block has."""
    listed = next((name for name in ("layers_block_type", "layer_types") if fields.data.get(name) is not None), None)
    pattern = fields.text("hybrid_override_pattern")
    if listed is None and pattern is not None:
        unknown = sorted(set(pattern) - set(_LETTERS))
        if unknown:
            cause = f"{fields.family}: hybrid_override_pattern holds {unknown[0]!r}"
            raise ModelError(9, cause, f"give one of {' '.join(_LETTERS)} a block")
        kinds = tuple(_LETTERS[letter] for letter in pattern)
    else:
        usual = (", ".join(_USUAL), _USUAL)
        kinds = read_kinds(fields, listed or "layers_block_type", None, known=_KNOWN, default=usual)
    if not 1 <= len(kinds) <= MOST_LAYERS:
        raise ModelError(12, f"{fields.family}: {len(kinds)} blocks", f"give 1 to {MOST_LAYERS}")
    stated = fields.data.get("num_hidden_layers")
    if stated is not None and stated != len(kinds):
        fields.notes.append(f"num_hidden_layers={shown(stated)} is not used: {len(kinds)} blocks are listed")
    return kinds


def _read_block(fields: Fields, hidden: int, kind: str) -> Block:
    if kind == LINEAR:
        return Block(mixer=_read_mamba(fields), feed_forward=NoFeedForward(), norms=("norm",))
    if kind == FULL:
        return Block(mixer=_read_attention(fields, hidden), feed_forward=NoFeedForward(), norms=("norm",))
    bias = fields.flag("mlp_bias", default=False)
    layer = _read_mixture(fields, bias=bias) if kind == _MOE else _read_dense(fields, bias=bias)
    return Block(mixer=NoMixer(), feed_forward=layer, norms=("norm",))


def _read_mamba(fields: Fields) -> Mamba2:
    mixer = Mamba2(
        heads=fields.integer("mamba_num_heads", default=128),
        head_dim=fields.integer("mamba_head_dim", default=64),
        groups=fields.integer("n_groups", "mamba_n_groups", default=8),
        state=fields.integer("ssm_state_size", default=128),
        kernel=fields.integer("conv_kernel", "mamba_d_conv", default=4),
        bias=fields.flag("use_bias", default=False),
        conv_bias=fields.flag("mamba_conv_bias" if "mamba_conv_bias" in fields.data else "use_conv_bias", default=True),
        chunk=fields.integer("chunk_size", "mamba_chunk_size", default=128),
        module="mixer",
    )
    return checked(fields, mixer)


def _read_attention(fields: Fields, hidden: int) -> Attention:
    older = fields.data.get("head_dim") is None and fields.data.get("attention_head_dim") is not None
    renamed = replace(fields, data={**fields.data, "head_dim": fields.data["attention_head_dim"]}) if older else fields
    attention = read_heads(renamed, hidden, heads=32, kv_heads=8, head_dim=128)
    note_unused(fields, "attention_bias", "attention of this family has none", usual=False)
    note_unused(fields, "sliding_window", "every position is seen", usual=None)
    return attention


def _read_dense(fields: Fields, *, bias: bool) -> Dense:
    return Dense(intermediate=fields.integer("intermediate_size", default=21504), gated=False, bias=bias)


def _read_mixture(fields: Fields, *, bias: bool) -> Experts:
    """Experts without a gate, in a latent space where the config says so, beside one shared expert."""
    width = fields.integer("moe_intermediate_size", default=7688)
    count = fields.integer("n_routed_experts", "num_local_experts", default=8)
    shared = fields.integer("moe_shared_expert_intermediate_size", default=7688)
    latent = fields.optional("moe_latent_size", default=None)
    return replace(
        read_experts(fields, width, count, top_k=2),
        gated=False,
        shared=Dense(intermediate=shared, gated=False, bias=bias),
        router_fp32=True,
        latent=latent,
        latent_bias=bias and latent is not None,
    )
