"""A config.json goes in; what a decoder computes with beside its shapes comes out: norms, activation, rotation.

A plan needs shapes alone; a real run needs these too. They are read only for a run, from the same config.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from meshwright.base.errors import ModelError
from meshwright.model.config import Fields, shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

RotationKind: TypeAlias = Literal["default", "linear", "llama3"]

_KINDS: Final[tuple[RotationKind, ...]] = ("default", "linear", "llama3")
_EPSILON: Final = 1e-6
_THETA: Final = 10_000.0
_ACTIVATIONS: Final = ("silu",)
_RAMP: Final = ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Rotary positions. theta: base of the wave lengths.   factor: by which positions are stretched, 1 for none.

    low, high, original: of `llama3`, which stretches long waves alone: waves longer than original / low are stretched
    by `factor`, shorter than original / high are not, between the two in proportion.
    Source: transformers 5.24, `modeling_rope_utils`.
    """

    kind: RotationKind = "default"
    theta: float = _THETA
    factor: float = 1.0
    low: float = 1.0
    high: float = 1.0
    original: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """norm_epsilon: added to the mean square.   activation: of the gate, as Hugging Face names it."""

    norm_epsilon: float
    activation: str
    rotation: Rotation


def arithmetic_of(config: Mapping[str, Any]) -> Arithmetic:
    """The arithmetic of a decoder with RMSNorm, a gated feed-forward and rotary positions, of a checked config.

    Missing fields take the defaults of transformers 5.24, which its Llama, Qwen2 and Qwen3 classes share.
    Raises MOD006 for a field of another type, MOD015 for an activation or a stretching that is not read.
    """
    family = str(config.get("model_type"))
    fields = Fields(data=config, family=family, origin=f"transformers class default of {family}")
    activation = fields.text("hidden_act") or _ACTIVATIONS[0]
    if activation not in _ACTIVATIONS:
        raise ModelError(15, f"{family}: hidden_act is {activation!r}", f"a run knows: {', '.join(_ACTIVATIONS)}")
    epsilon = fields.number("rms_norm_eps")
    return Arithmetic(
        norm_epsilon=_EPSILON if epsilon is None else epsilon, activation=activation, rotation=_rotation(fields)
    )


def _rotation(fields: Fields) -> Rotation:
    """Of a config of transformers 5 (`rope_parameters`), or of an older one (`rope_theta`, `rope_scaling`)."""
    scaling = fields.section("rope_parameters") or fields.section("rope_scaling")
    theta = (scaling.number("rope_theta") if scaling else None) or fields.number("rope_theta") or _THETA
    kind = (scaling.text("rope_type", "type") if scaling else None) or "default"
    if kind not in _KINDS:
        raise ModelError(15, f"{fields.family}: rope_type is {shown(kind)}", f"a run knows: {', '.join(_KINDS)}")
    if scaling is None or kind == "default":
        return Rotation(theta=theta)
    factor = _number(scaling, "factor")
    if kind == "linear":
        return Rotation(kind="linear", theta=theta, factor=factor)
    low, high, original = (_number(scaling, name) for name in _RAMP)
    if not 0 < low < high:
        raise scaling.wrong(
            "high_freq_factor", high, f"a number above low_freq_factor, and that above 0 (it is {low:g})"
        )
    return Rotation(kind="llama3", theta=theta, factor=factor, low=low, high=high, original=original)


def _number(scaling: Fields, name: str) -> float:
    value = scaling.number(name)
    if value is None:
        raise scaling.wrong(name, None, "a number")
    return value
