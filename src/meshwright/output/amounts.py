"""A number and the name of its field go in; text for reading, in the unit at the end of the name, comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from meshwright.base.units import show_bytes, show_flops, show_rate, show_seconds, show_watts

if TYPE_CHECKING:
    from collections.abc import Callable


def pair(key: str, value: Any) -> str:
    """A field as text: its name without the unit, then its number with it."""
    return f"{key.removesuffix('_bytes_per_s').removesuffix('_bytes').removesuffix('_s')} {short(key, value)}"


def short(key: str, value: Any) -> str:
    """A number by the unit at the end of its name; of a mapping each by its own name, or else by the mapping's."""
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value).items()
        return " ".join(f"{name}={short(name if _unit(name) else key, item)}" for name, item in inside)
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else str(value)
    shown = _unit(key)
    if shown is not None:
        return shown(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _unit(key: str) -> Callable[[float], str] | None:
    """How a number of that name is shown; a name that begins with `times_` is a ratio."""
    fitting = (shown for suffix, shown in _BY_SUFFIX if key.endswith(suffix))
    return None if key.startswith(_RATIO) else next(fitting, None)


_RATIO: Final = "times_"
_WHOLE: Final = 1000
BY_UNIT: Final[dict[str, Callable[[float], str]]] = {
    "s": show_seconds,
    "B": show_bytes,
    "B/s": show_rate,
    "W": show_watts,
    "FLOP/s": lambda value: show_flops(value, "FLOP/s"),
    "": lambda value: f"{value:,.0f}" if value == round(value) or abs(value) >= _WHOLE else f"{value:.4g}",
}
"""How a number is shown in the units of flips and levers."""
_BY_SUFFIX: Final[tuple[tuple[str, Callable[[float], str]], ...]] = (  # the first that fits
    ("bytes_per_s", show_rate),
    ("flops_per_s", lambda value: show_flops(value, "FLOP/s")),
    ("bytes", show_bytes),
    ("_per_gpu_s", lambda value: f"{value:,.1f} a GPU-s"),
    ("_gpu_s", lambda value: f"{value:,.3f} GPU-s"),
    ("_per_s", lambda value: f"{value:,.1f} a second"),
    ("_s", show_seconds),
    ("flops", show_flops),
)
