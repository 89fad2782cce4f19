"""`meshwright topology SYSTEM|SPEC [--load OP --algorithm NAME --bytes S]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meshwright.base.errors import FileError
from meshwright.base.parse import build
from meshwright.cli.nouns import system_of
from meshwright.cli.options import Output, output_options, set_option, split_settings
from meshwright.cli.show import check_files, show, write_file
from meshwright.scenarios.topology import TopologyOptions, busy_of, is_spec, network_of, topology

if TYPE_CHECKING:
    from meshwright.system.system import System


@click.command("topology")
@click.argument("network", metavar="SYSTEM|SPEC")
@click.option("--load", default=None, metavar="OP", help="What to put on the links: all_to_all, all_reduce, ...")
@click.option("--algorithm", default=None, help="Of the load, by name; an all_to_all without one is uniform traffic.")
@click.option("--bytes", "size", default="1MB", show_default=True, help="Of the message, as nccl-tests counts them.")
@click.option(
    "--destinations",
    type=click.Choice(["all", "others"]),
    default="all",
    show_default=True,
    help="Of uniform traffic: a device cuts its message over all devices, itself included, or over the others.",
)
@click.option("--port", default=None, help="Of a spec that does not say: one port, one way [50GB/s].")
@click.option("--ports", type=int, default=None, help="Of a spec that does not say: ports of a device.")
@click.option("--latency", default=None, help="Of a spec that does not say: between devices that one chip joins.")
@click.option("--forward", default=None, help="Of a spec that does not say: of a link between chips [200ns].")
@click.option("--svg", default=None, metavar="FILE", help="Write the network, and its loads, as a picture.")
@set_option
@output_options
def command(network: str, size: str, svg: str | None, settings: tuple[str, ...], output: Output, **given: Any) -> int:
    """What a network is made of, what cuts it in half, and what a collective puts on its links.

    NETWORK is a system (hgx-h100 x2) or a spec (torus:8x8x8, leaf-spine:leaves=4,down=32,up=32): see list topologies.
    """
    check_files(svg, output.file)
    stated = {name: value for name, value in given.items() if value is not None}
    options = build(TopologyOptions, {"network": network, "bytes": size, **stated}, "topology")
    system = _system(network, settings)
    result = topology(options, system)
    if svg is not None:
        from meshwright.output.network_svg import as_svg  # noqa: PLC0415 - a form is loaded when it is asked for

        fabric = network_of(options, system)
        write_file(Path(svg), as_svg(fabric, result.verdict.text, busy_of(fabric, options)).encode())
    return show(result, output)


def _system(network: str, settings: tuple[str, ...]) -> System | None:
    """The system; None for a spec. Raises IO032 for settings of a spec, which has its own options."""
    own = split_settings(settings, ("system",))["system"]
    if not is_spec(network):
        return system_of(network, own)
    if own:
        raise FileError(32, f"--set changes a system, and {network} is a spec", "write it as an option of the spec")
    return None
