"""What the JSON documents of the catalog and of studies hold: names and types, for the published schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from meshwright.base.result import Basis, Source
from meshwright.output.bodies import Amount, Count, Name
from meshwright.system.facts import Fact

# ------------------------------------------------------------------------------------------------- catalog and studies


class ModelItem(TypedDict):
    """A model of the catalog."""

    id: Name
    family: Name
    parameters: Count
    parameter_bytes: Count
    weights: Name
    layers: Count
    sources: list[Source]


class SystemItem(TypedDict):
    """A system of the catalog. topology: within a box, and between boxes.   cpu_links: between two CPUs."""

    id: Name
    name: Name
    accelerator: Name
    devices: Count
    cpus: Count | None
    cpu_links: Count | None
    topology: Name
    scale_up: Name
    scale_up_bytes_per_s: Amount
    scale_out: str | None
    nic_bytes_per_s: Amount
    note: str
    facts: list[Fact]
    sources: list[Source]


class AcceleratorItem(TypedDict):
    """An accelerator of the catalog."""

    id: Name
    name: Name
    memory_bytes: Count
    memory_bytes_per_s: Amount
    peak_flops_per_s: Mapping[str, Amount]
    power_w: Amount | None
    note: str
    facts: list[Fact]
    sources: list[Source]


class LinkItem(TypedDict):
    """A link of the catalog. ports: of a device, null where its bandwidth is told as a whole."""

    id: Name
    name: Name
    one_way_bytes_per_s: Amount
    ports: Count | None
    port_bytes_per_s: Amount | None
    latency_s: Amount
    latency_basis: Basis
    measured_bytes_per_s: Amount | None
    note: str
    facts: list[Fact]
    sources: list[Source]


class CollectiveItem(TypedDict):
    """A collective algorithm of the registry."""

    id: Name
    operations: list[Name]
    what: Name
    sources: list[Source]


class EngineRuleItem(TypedDict):
    """What an engine requires of a layout. message: what it says where that does not hold."""

    id: Name
    code: Name
    about: Name
    axis: Name
    requires: Name
    message: Name
    wording: Literal["literal", "paraphrase"]
    source: Name
    note: str


class EngineItem(TypedDict):
    """An engine of the catalog. axes: fields of a layout that it has, with their flags.   choices: our words, and its.

    pool: what of a device is left for KV, null of an engine that trains, as its share and block are.
    """

    id: Name
    name: Name
    versions: Name
    jobs: list[Literal["serve", "train"]]
    axes: Mapping[str, str]
    choices: Mapping[str, Mapping[str, str]]
    rules: list[EngineRuleItem]
    gpu_memory_utilization: Amount | None
    block_size: Count | None
    pool: str | None
    note: str
    facts: list[Fact]
    sources: list[Source]


class ScheduleItem(TypedDict):
    """A pipeline schedule of the registry. bubble_of, bubble_holds: null where no formula is known."""

    id: Name
    what: Name
    directions: Count
    parameter_copies: Count
    bubble_of: Literal["step", "rank"] | None
    bubble_holds: str | None
    published: Name
    sources: list[Source]


class TopologyItem(TypedDict):
    """A topology of the registry. example: a spec as one types it.   options: fields that a spec may set."""

    id: Name
    what: Name
    example: Name
    options: Name
    sources: list[Source]


class CatalogBody(TypedDict):
    """The entries of one kind."""

    items: (
        list[ModelItem]
        | list[SystemItem]
        | list[AcceleratorItem]
        | list[LinkItem]
        | list[CollectiveItem]
        | list[EngineItem]
        | list[ScheduleItem]
        | list[TopologyItem]
    )


class StudyItem(TypedDict):
    """A packaged study."""

    id: Name
    title: Name
    function: Name
    inputs: Mapping[str, Any]
    sources: list[Source]


class StudiesBody(TypedDict):
    """Every packaged study."""

    items: list[StudyItem]


class StudyStep(TypedDict):
    """A step that was run, in order; its answer stands under its id."""

    id: Name
    title: Name
    function: Name


class StudyBody(TypedDict):
    """answer: what the study's function returns, in its own shape; of several steps, that of each by name."""

    answer: Any
    steps: NotRequired[list[StudyStep]]
