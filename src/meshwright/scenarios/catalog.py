"""What does the catalog know? A kind goes in; its entries, each with its sources, come out."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.errors import FileError, suggest
from meshwright.base.result import Basis, Result, Source, Verdict
from meshwright.cost.collectives import COLLECTIVES
from meshwright.layout.engine_rules import code_of
from meshwright.model.model import parameter_bytes, parameter_counts
from meshwright.model.reader import CATALOG, read_model
from meshwright.system.accelerator import ACCELERATORS, read_accelerator
from meshwright.system.engine import ENGINES, read_engine
from meshwright.system.fabric import TOPOLOGIES
from meshwright.system.link import LINKS, read_link
from meshwright.system.system import SYSTEMS, read_system
from meshwright.workload.slots import SCHEDULES, read_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.system.facts import Facts

KINDS: Final = ("models", "systems", "accelerators", "links", "collectives", "schedules", "topologies", "engines")


def catalog(kind: str) -> Result:
    """Every entry of `kind` (one of `KINDS`). Raises IO034 for another kind."""
    readers: dict[str, tuple[tuple[str, ...], Callable[[str], dict[str, Any]]]] = {
        "models": (CATALOG.names(), _model),
        "systems": (SYSTEMS.names(), _system),
        "accelerators": (ACCELERATORS.names(), _accelerator),
        "links": (LINKS.names(), _link),
        "collectives": (COLLECTIVES.names(), _collective),
        "schedules": (SCHEDULES.names(), _schedule),
        "topologies": (TOPOLOGIES.names(), _topology),
        "engines": (ENGINES.names(), _engine),
    }
    if kind not in readers:
        raise FileError(34, f"{kind!r} is not a kind of the catalog", suggest(kind, KINDS))
    names, read = readers[kind]
    items = [read(name) for name in names]
    return Result(
        command="list",
        verdict=Verdict(answer="yes", text=f"{len(items)} {kind}"),
        inputs={"model": None, "system": None, "job": None, "layout": None, "options": {"kind": kind}},
        body={"items": items},
    )


def _model(key: str) -> dict[str, Any]:
    model = read_model(key.replace("--", "/"))
    counts = parameter_counts(model)
    return {
        "id": model.name,
        "family": model.family,
        "parameters": counts["total"],
        "parameter_bytes": parameter_bytes(model)["total"],
        "weights": model.weights.name,
        "layers": model.layers,
        "sources": [] if model.source is None else [model.source],
    }


def _system(name: str) -> dict[str, Any]:
    system = read_system(name)
    return {
        "id": name,
        "name": system.name,
        "accelerator": system.accelerator.id,
        "devices": system.devices,
        "cpus": None if system.host is None else system.host.cpus,
        "cpu_links": None if system.host is None else system.host.cpu_links,
        "topology": f"{system.topology.scale_up}, {system.topology.scale_out}",
        "scale_up": system.scale_up.name,
        "scale_up_bytes_per_s": system.scale_up.bandwidth,
        "scale_out": None if system.scale_out is None else system.scale_out.name,
        "nic_bytes_per_s": system.nic_bandwidth,
        "note": system.note,
        **_provenance(system.facts),
    }


def _accelerator(name: str) -> dict[str, Any]:
    item = read_accelerator(name)
    return {
        "id": name,
        "name": item.name,
        "memory_bytes": item.memory,
        "memory_bytes_per_s": item.memory_bandwidth,
        "peak_flops_per_s": dict(item.peak),
        "power_w": item.power,
        "note": item.note,
        **_provenance(item.facts),
    }


def _link(name: str) -> dict[str, Any]:
    link = read_link(name)
    return {
        "id": name,
        "name": link.name,
        "one_way_bytes_per_s": link.bandwidth,
        "ports": link.ports,
        "port_bytes_per_s": link.port_bandwidth,
        "latency_s": link.latency,
        "latency_basis": str(link.facts.basis_of("latency", Basis.ASSUMED)),
        "measured_bytes_per_s": link.measured_bandwidth,
        "note": link.note,
        **_provenance(link.facts),
    }


def _collective(name: str) -> dict[str, Any]:
    module = COLLECTIVES.module(name)
    return {"id": name, "operations": module.OPERATIONS, "what": (module.__doc__ or "").splitlines()[0], "sources": []}


def _schedule(name: str) -> dict[str, Any]:
    program = read_schedule(name)
    formula = program.BUBBLE
    return {
        "id": name,
        "what": program.TITLE,
        "directions": program.DIRECTIONS,
        "parameter_copies": program.COPIES,
        "bubble_of": None if formula is None else formula.of,
        "bubble_holds": None if formula is None else formula.where,
        "published": program.SOURCE,
        "sources": [],
    }


def _topology(name: str) -> dict[str, Any]:
    module = TOPOLOGIES.module(name)
    options = ", ".join(item.name for item in fields(module.Spec))
    return {"id": name, "what": module.TITLE, "example": module.EXAMPLE, "options": options, "sources": []}


def _engine(name: str) -> dict[str, Any]:
    item = read_engine(name)
    return {
        "id": name,
        "name": item.name,
        "versions": item.versions,
        "jobs": item.jobs,
        "axes": {axis: held.flag for axis, held in item.axes.items()},
        "choices": {axis: dict(held.values) for axis, held in item.axes.items() if held.values},
        "rules": [
            {
                "id": place,
                "code": code_of(rule),
                "about": rule.about,
                "axis": rule.axis,
                "requires": rule.requires,
                "message": rule.message,
                "wording": "literal" if rule.literal else "paraphrase",
                "source": rule.source,
                "note": rule.note,
            }
            for place, rule in item.rules.items()
        ],
        "gpu_memory_utilization": None if item.memory is None else item.memory.utilization,
        "block_size": None if item.memory is None else item.memory.block_size,
        "pool": None if item.memory is None else item.memory.pool,
        "note": item.note,
        **_provenance(item.facts),
    }


def _provenance(facts: Facts) -> dict[str, Any]:
    """Every fact with its basis, and the sources that the facts name."""
    sources: list[Source] = list(facts.sources)
    return {"facts": list(facts.facts), "sources": sources}
