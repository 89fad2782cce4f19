"""`meshwright pool --demand S,... --node S [--window N --item S --latency T --path R] [--trace FILE]`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from meshwright.base.parse import build, read_text, read_toml
from meshwright.cli.options import Output, output_options
from meshwright.cli.show import check_files, show, write_file
from meshwright.scenarios.memory_pool import PoolOptions, pool
from meshwright.sim.memory_pool import Operation

_LISTS: Final = ("demand", "node", "periods")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A file of operations, in their order."""

    operations: tuple[Operation, ...]


@click.command("pool")
@click.option("--demand", required=True, metavar="S,...", help="Bytes of each job, one a node, as in 100GB,60GB.")
@click.option("--node", required=True, metavar="S[,...]", help="Memory of every node, or of each.")
@click.option("--link", default=None, help="Of the catalog: its path, and twice its latency, where they are not given.")
@click.option("--path", default=None, help="To other nodes, one way, as in 50GB/s.")
@click.option("--latency", default=None, help="Of a read there and back, as in 7.52us.")
@click.option("--one-way", default=None, help="Or of one way, as in 3.76us: a read takes two.")
@click.option("--window", type=int, default=None, help="Requests under way at once [any number].")
@click.option("--item", default="256B", show_default=True, help="Bytes of one request.")
@click.option("--local", default="3350GB/s", show_default=True, help="Rate of a node's own memory.")
@click.option("--data", default=None, help="Read again and again [the most that one job borrows].")
@click.option("--periods", default=None, metavar="T,...", help="Between its reads, as in 60s,1s,50ms.")
@click.option("--reads", type=int, default=10, show_default=True, help="How many, over the path or after one fetch.")
@click.option("--trace", default=None, metavar="FILE", help="Replay these operations (TOML) on the nodes.")
@click.option("--svg", default=None, metavar="FILE", help="Write who holds what as a picture.")
@output_options
def command(output: Output, trace: str | None, svg: str | None, **given: Any) -> int:
    """Who lends whom memory, what each node then holds, and at which rate that is read.

    A wrong order of a trace is refused by its code: read before completion, access without a right, reuse before
    return, and more.
    """
    check_files(svg, output.file)
    stated = {name: value for name, value in given.items() if value is not None}
    lists = {name: [part.strip() for part in stated[name].split(",")] for name in _LISTS if name in stated}
    operations = () if trace is None else build(Trace, read_toml(read_text(Path(trace)), trace), trace).operations
    options = build(PoolOptions, {**stated, **lists, "operations": operations}, "pool")
    result = pool(options)
    if svg is not None:
        from meshwright.output.pool_svg import as_svg  # noqa: PLC0415 - a form is loaded when it is asked for

        write_file(Path(svg), as_svg(result).encode())
    return show(result, output)
