"""End points and ports of a chip go in, as columns; levels of a network that blocks nothing, and chips, come out.

The one count of chips: `rack` asks it for every number of boxes, and the builders of fat trees and rails build by it.
"""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N, divide_up
from meshwright.base.traced import formula


@formula
def reached_count(tiers: Any, radix: Any) -> Any:
    """End points that so many tiers of switches join without taper: 2 (radix / 2)^tiers.

    Source: chapter "Supernodes", sections 6.5.1 and 6.5.2.
    """
    return 2 * (radix // 2) ** tiers


def level_chips(end_points: N, radix: Any, tiers: int) -> tuple[N, ...]:
    """Chips of each level, from the leaves up, of a tree of so many levels for at least one end point.

    One level is one chip. Of more, each but the top one has half of its ports down; a leaf is there for every radix / 2
    end points, a group of the next level for every radix / 2 groups below, with a chip for every line that one of these
    leads up; and the top has the chips that hold all lines, all ports in use. Source: chapter "Supernodes", section
    6.5.1 (P / (R / 2) leaves, half as many spines); M. Al-Fares et al., SIGCOMM 2008.
    """
    if tiers == 1:
        return (end_points * 0 + 1,)
    half = radix // 2
    groups = divide_up(end_points, half)
    chips = [groups]
    for level in range(1, tiers - 1):
        groups = divide_up(groups, half)
        chips.append(groups * half**level)
    return (*chips, top_chips(groups, half ** (tiers - 1), radix))


def top_chips(below: N, lines: Any, radix: Any) -> N:
    """Chips of a highest level that hold the `lines` of each vertex below: all their ports lead down.

    Lines of a vertex need not be as many to each chip: traffic is spread over them by their number.
    """
    return divide_up(below * lines, radix)


def even_chips(below: int, lines: int, radix: int) -> int:
    """As `top_chips`, with equally many lines from each vertex to each chip, as a hash over them asks."""
    least = top_chips(below, lines, radix)
    return next(count for count in range(least, lines + 1) if lines % count == 0)
