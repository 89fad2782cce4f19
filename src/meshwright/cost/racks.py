"""Boxes and their end points go in, as columns; switches, racks, watts and money of a whole installation come out.

Kits come in steps: one switch joins `radix` end points, and the next end point needs a whole further tier. What a tier
costs is asked at the count in question, never at the largest one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.numbers import N, floor, maximum, where
from meshwright.base.traced import formula
from meshwright.system.levels import level_chips, reached_count

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

MOST_TIERS: Final = 4
"""Of switches, that are told apart here."""


@formula
def switch_tiers(end_points: Ints, radix: Any) -> Ints:
    """The fewest tiers that join the end points; none for none. Right up to `MOST_TIERS`.

    Source: chapter "Supernodes", section 6.5.2: 64 end points fit one switch of 64 ports, the 65th needs a second tier.
    """
    tiers = end_points * 0
    for number in range(MOST_TIERS):
        beyond = 0 if number == 0 else reached_count(number, radix)
        tiers = tiers + where(end_points > beyond, 1 + end_points * 0, end_points * 0)
    return tiers


@formula
def switch_count(end_points: Ints, radix: Any) -> Ints:
    """Switches of the fewest tiers that join the end points without taper: of each level those of `level_chips`.

    Source: chapter "Supernodes", section 6.5.1. Leaves out what a maker's kit rounds up to.
    """
    tiers = switch_tiers(end_points, radix)
    chips = tiers
    for number in range(2, MOST_TIERS + 1):
        found: Any = sum(level_chips(end_points, radix, number))
        chips = where(tiers == number, found, chips)
    return chips


@formula
def installed_w(fixed_w: N, boxes: Any, node_w: Any, switches: Any, switch_w: Any) -> N:
    """Watts of an installation at full load: what is there anyway, every box, and every switch between them.

    Source: chapter "Supernodes", equation 6-11, its reserve taken at the count in question.
    """
    return fixed_w + boxes * node_w + switches * switch_w


@formula
def boxes_per_rack(limit_w: N, node_w: N) -> N:
    """Whole boxes whose power stays within what the cooling of one rack is held to.

    Source: chapter "Supernodes", section 6.5.2. Leaves out switches, and how high a box is.
    """
    return maximum(floor(limit_w / node_w), 0)


@formula
def in_groups(boxes: N, grouped: Any) -> N:
    """Boxes left when growth comes in whole groups. Source: chapter "Supernodes", section 6.5.2, experiment 6-7."""
    return boxes // grouped * grouped


@formula
def installed_price(boxes: Any, box_price: N, switches: Any, switch_price: N) -> N:
    """Money, in the one currency of both prices: a staircase. Source: chapter "Supernodes", section 6.5.2."""
    return boxes * box_price + switches * switch_price
