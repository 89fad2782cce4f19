"""`meshwright topology SYSTEM|SPEC [--load OP --algorithm NAME --bytes S]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from meshwright.base.errors import FileError
from meshwright.base.parse import build
from meshwright.cli.nouns import system_of
from meshwright.cli.options import Output, output_options, set_option, split_settings
from meshwright.cli.show import check_files, show, write_file
from meshwright.scenarios.topology import TopologyOptions, busy_of, is_spec, network_of, topology

if TYPE_CHECKING:
    from meshwright.system.system import System

_OF_LOADS: Final = ("algorithm", "bytes", "destinations")
_OF_SPECS: Final = ("port", "ports", "latency", "forward")


@click.command("topology")
@click.argument("network", metavar="SYSTEM|SPEC")
@click.option("--load", default=None, metavar="OP", help="What to put on the links: all_to_all, all_reduce, ...")
@click.option("--algorithm", default=None, help="Of the load, by name; an all_to_all without one is uniform traffic.")
@click.option("--bytes", "size", default=None, help="Of the message, as nccl-tests counts them [1MB].")
@click.option(
    "--destinations",
    type=click.Choice(["all", "others"]),
    default=None,
    help="Of uniform traffic: a device cuts its message over all devices, itself included [all], or over the others.",
)
@click.option("--port", default=None, help="Of a spec that does not say: one port, one way [50GB/s].")
@click.option("--ports", type=int, default=None, help="Of a spec that does not say: ports of a device.")
@click.option("--latency", default=None, help="Of a spec that does not say: between devices that one chip joins.")
@click.option("--forward", default=None, help="Of a spec that does not say: of a link between chips [200ns].")
@click.option("--svg", default=None, metavar="FILE", help="Write the network, and its loads, as a picture.")
@set_option
@output_options
def command(network: str, svg: str | None, settings: tuple[str, ...], output: Output, **given: Any) -> int:
    """What a network is made of, what cuts it in half, and what a collective puts on its links.

    NETWORK is a system (hgx-h100 x2) or a spec (torus:8x8x8, leaf-spine:leaves=4,down=32,up=32): see list topologies.
    """
    check_files(svg, output.file)
    given["bytes"] = given.pop("size")
    stated = {name: value for name, value in given.items() if value is not None}
    _check_used(network, stated)
    if "load" in stated:
        stated["load"] = stated["load"].replace("-", "_")
    options = build(TopologyOptions, {"network": network, **stated, "seed": output.seed}, "topology")
    system = _system(network, settings)
    result = topology(options, system)
    if svg is not None:
        from meshwright.output.network_svg import as_svg  # noqa: PLC0415 - a form is loaded when it is asked for

        fabric = network_of(options, system)
        write_file(Path(svg), as_svg(fabric, result.verdict.text, busy_of(fabric, options)).encode())
    return show(result, output)


def _check_used(network: str, stated: dict[str, Any]) -> None:
    """Nothing, where every option that is given has something to act on. Raises IO036."""
    unused = [name for name in _OF_LOADS if name in stated and "load" not in stated]
    if unused:
        raise FileError(36, f"--{unused[0]} without a load", "give --load, as in --load all_to_all")
    if {"algorithm", "destinations"} <= set(stated):
        raise FileError(36, "--destinations is of uniform traffic", "leave --algorithm or --destinations out")
    unused = [] if is_spec(network) else [name for name in _OF_SPECS if name in stated]
    if unused:
        raise FileError(
            36,
            f"--{unused[0]} is of a spec, and {network} is a system",
            "change the system, as in --set system.scale_up.latency=1us",
        )


def _system(network: str, settings: tuple[str, ...]) -> System | None:
    """The system; None for a spec. Raises IO032 for settings of a spec, which has its own options."""
    own = split_settings(settings, ("system",))["system"]
    if not is_spec(network):
        return system_of(network, own)
    if own:
        raise FileError(32, f"--set changes a system, and {network} is a spec", "write it as an option of the spec")
    return None
