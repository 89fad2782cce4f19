"""What families with mixers of several kinds share: the kind of each layer, and Mamba-2 sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.base.errors import ModelError
from meshwright.base.result import Defaulted
from meshwright.model.mixers.mamba2 import Mamba2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.model.config import Fields

FULL: Final = "full_attention"
LINEAR: Final = "linear_attention"

_OLDER: Final = {"attention": FULL, "mamba": LINEAR}


def read_kinds(
    fields: Fields, name: str, layers: int | None, *, known: Sequence[str], default: tuple[str, Sequence[str]]
) -> tuple[str, ...]:
    """The kind of each layer, under `name`, in today's words for older ones.

    layers: how many there are, None where the list decides.   default: in words, and as a list.
    Raises MOD009 for a kind that is not known, and for a count that is not that of the layers.
    """
    listed = fields.words(name)
    if listed is None:
        words, kinds = default
        fields.defaulted.append(Defaulted(field=fields.prefix + name, value=words, origin=fields.origin))
        return tuple(kinds)
    kinds = tuple(_OLDER.get(kind, kind) for kind in listed)
    unknown = sorted(set(kinds) - set(known))
    if unknown:
        raise ModelError(9, f"{fields.family}: {name} holds {unknown[0]!r}", f"give {' or '.join(known)}")
    if layers is not None and len(kinds) != layers:
        cause = f"{fields.family}: {name} has {len(kinds)} entries for {layers} layers"
        raise ModelError(9, cause, "give one entry a layer")
    return kinds


def read_spaced_kinds(fields: Fields, layers: int) -> tuple[str, ...]:
    """Every `full_attention_interval`-th layer sees all positions, the others are linear, unless `layer_types` decides.

    Source: transformers 5.24, `Qwen3NextConfig`.
    """
    if fields.data.get("layer_types") is not None:
        return read_kinds(fields, "layer_types", layers, known=(LINEAR, FULL), default=("", ()))
    step = fields.integer("full_attention_interval", default=4)
    return tuple(LINEAR if (layer + 1) % step else FULL for layer in range(layers))


def read_mamba2(fields: Fields, hidden: int, *, heads: int) -> Mamba2:
    """The Mamba-2 mixer of a config whose fields are called `mamba_*`, as Bamba and Granite 4 do.

    Raises MOD007 for heads that do not make up the inner width, or that the groups do not divide.
    """
    inner = fields.integer("mamba_expand", default=2) * hidden
    count = fields.integer("mamba_n_heads", default=heads)
    if fields.data.get("mamba_d_head", "auto") == "auto":
        width = inner // count
        fields.defaulted.append(Defaulted(field=f"{fields.prefix}mamba_d_head", value=width, origin=fields.origin))
    else:
        width = fields.integer("mamba_d_head")
    if count * width != inner:
        cause = (
            f"{fields.family}: mamba_n_heads={count} x mamba_d_head={width} is not mamba_expand x hidden_size={inner}"
        )
        raise ModelError(7, cause, "give heads that make up the inner width")
    mixer = Mamba2(
        heads=count,
        head_dim=width,
        groups=fields.integer("mamba_n_groups", default=1),
        state=fields.integer("mamba_d_state", default=256),
        kernel=fields.integer("mamba_d_conv", default=4),
        bias=fields.flag("mamba_proj_bias", default=False),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        chunk=fields.integer("mamba_chunk_size", default=256),
    )
    return checked(fields, mixer)


def checked(fields: Fields, mixer: Mamba2) -> Mamba2:
    """The mixer itself. Raises MOD007 when its groups do not divide its heads."""
    if mixer.mismatch():
        raise ModelError(7, f"{fields.family}: {mixer.mismatch()}", "every group serves the same number of heads")
    return mixer
