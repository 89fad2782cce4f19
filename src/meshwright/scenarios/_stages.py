"""Figures of whole stages, as text, go in; those of the virtual stages that layers are cut into come out, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

from meshwright.base.errors import ScheduleError
from meshwright.base.units import parse_exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Layers that follow each other, as a virtual stage holds them. rank: that of the first direction."""

    virtual_stage: int
    rank: int
    first_layer: int
    last_layer: int
    layers: int


def figures(text: str, dimension: str, what: str, counts: tuple[int, ...]) -> tuple[Fraction, ...]:
    """One figure, or as many by comma as one of `counts` says. Raises SCH007, and the codes of `parse_exact`."""
    found = tuple(parse_exact(item, dimension, what) for item in text.split(","))
    if len(found) not in {1, *counts}:
        wanted = " or ".join(str(count) for count in sorted({1, *counts} - {0}))
        raise ScheduleError(7, f"{what}: {len(found)} figures", f"give {wanted} of them, separated by commas")
    return found


def of_virtual_stages(
    whole: tuple[Fraction, ...], stages: int, pieces: int, layers: int | None
) -> tuple[Fraction, ...]:
    """What each virtual stage takes of what whole stages take, in proportion to layers.

    whole: of every stage, or of each; one figure is that of layers / stages layers.   layers: None cuts evenly.
    """
    if len(whole) == 1:
        return tuple(whole[0] * stages * (end - start) for start, end in pairwise(_cuts(pieces, layers)))
    bounds = _cuts(stages, layers)
    taken = [Fraction(0), *accumulate(whole)]

    def until(place: Fraction) -> Fraction:
        """Of the model up to a place of it, from 0 to 1."""
        stage = max(number for number, bound in enumerate(bounds[:-1]) if bound <= place)
        share = (place - bounds[stage]) / (bounds[stage + 1] - bounds[stage])
        return taken[stage] + share * whole[stage]

    return tuple(until(end) - until(start) for start, end in pairwise(_cuts(pieces, layers)))


def layer_counts(pieces: int, layers: int) -> tuple[int, ...]:
    """Layers of each piece, the first ones one more where they do not divide. Raises SCH005."""
    if layers < pieces:
        raise ScheduleError(5, f"{layers} layers in {pieces} virtual stages", f"--layers {pieces} or more")
    return tuple(layers // pieces + (piece < layers % pieces) for piece in range(pieces))


def _cuts(pieces: int, layers: int | None) -> tuple[Fraction, ...]:
    """Where pieces start and end along the model, as shares of it."""
    if layers is None:
        return tuple(Fraction(piece, pieces) for piece in range(pieces + 1))
    return tuple(Fraction(count, layers) for count in (0, *accumulate(layer_counts(pieces, layers))))
