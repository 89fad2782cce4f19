"""`meshwright explain RESULT.json PATH`."""

from __future__ import annotations

from pathlib import Path

import click

from meshwright.cli.options import Output, output_options
from meshwright.cli.show import show
from meshwright.scenarios.compare import read_answer
from meshwright.scenarios.explain import ExplainOptions, explain


@click.command("explain")
@click.argument("result", metavar="RESULT")
@click.argument("path", metavar="PATH")
@click.option("--depth", type=click.IntRange(min=1), default=3, show_default=True, help="Levels of formulas shown.")
@output_options
def command(result: str, path: str, depth: int, output: Output) -> int:
    """Where a number of a saved result comes from: its formula with the values, their basis and their sources.

    PATH is as in best.step_time_s, candidates[3].memory.per_rank_bytes or candidates[id=...].cost_gpu_s.
    """
    return show(explain(read_answer(Path(result)), ExplainOptions(path=path, depth=depth)), output)
