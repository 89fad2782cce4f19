"""An explained number goes in; its formulas, from the number downwards, and its inputs are drawn on a console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.output.amounts import short
from meshwright.output.expressions import BRIEF, formulas, inputs
from meshwright.output.expressions import rounded as number

if TYPE_CHECKING:
    from rich.console import Console

    from meshwright.base.result import Result


def draw_explanation(console: Console, result: Result) -> None:
    """Formulas from the number downwards, then every input."""
    for item in formulas(result, BRIEF):
        pad = " " * len(item.name)
        lines = dict.fromkeys([item.words, item.values, number(item.value)])
        for start, line in zip([f"\n{item.name}", *[pad] * len(lines)], lines, strict=False):
            console.print(f"{start} = {line}")
        read = short(item.name, item.value)
        told = [*([read] if read != number(item.value) else []), *([item.source] if item.source else [])]
        if told:
            console.print(f"{pad}   {'; '.join(told)}")
    given = inputs(result)
    sources = list(dict.fromkeys(item.source for item in given if item.source))
    console.print("\ninputs" if given else "\nno input: counted, chosen, or worked out on the paths of a network")
    for item in given:
        where = f" [{sources.index(item.source) + 1}]" if item.source else ""
        console.print(f"  {item.path} = {number(item.value)}  {item.basis}{where}")
    for index, source in enumerate(sources):
        console.print(f"  [{index + 1}] {source}")
