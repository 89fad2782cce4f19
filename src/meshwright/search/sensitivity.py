"""A function of one parameter and its present value go in; what doubling or halving it saves comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.base.result import Lever

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CHANGES = (("doubled", 2.0), ("halved", 0.5))


def levers(
    parameters: Sequence[tuple[str, float, str]], seconds_with: Callable[[str, float], float], now_s: float
) -> tuple[Lever, ...]:
    """Every parameter doubled and halved, the largest saving first.

    parameters: (path, present value in SI, unit).   seconds_with: the time when one parameter has another value.
    now_s: the time with all of them as they are.
    """
    found = [
        Lever(
            parameter=path,
            change=change,
            value=value * factor,
            unit=unit,
            saving_s=now_s - seconds_with(path, value * factor),
        )
        for path, value, unit in parameters
        for change, factor in CHANGES
    ]
    return tuple(sorted(found, key=lambda lever: (-lever.saving_s, lever.parameter, lever.change)))
