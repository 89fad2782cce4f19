"""An engine's registry name goes in; what it takes and how it divides a device's memory comes out, with sources.

One file an engine says which axes of a layout it has and by which flags, what it refuses (`rules`, as conditions over
names of a layout, a model and a job), and what its memory is divided into. Export and import read the same files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from meshwright.base.errors import EngineError, SystemSpecError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.units import Bytes, Share
from meshwright.system.conditions import Condition, read_condition
from meshwright.system.facts import Facts, split

ENGINES: Final = Registry(
    kind="engines", package="meshwright.system", folder="engines", suffix=".toml", error=EngineError, number=1
)

EngineJob: TypeAlias = Literal["serve", "train"]
About: TypeAlias = Literal[
    "heads",
    "kv_heads",
    "widths",
    "vocabulary",
    "experts",
    "expert_width",
    "layers",
    "virtual_stages",
    "micro_batches",
    "sequence",
    "scale_blocks",
    "scale_groups",
    "state",
    "sp",
    "ranks",
]
"""What a rule is about: it decides the code of a refusal."""

LAYOUT_NAMES: Final = frozenset(
    {
        *("tp", "cp", "pp", "ep", "etp", "dp_shard", "dp_replicate", "replicas", "zero", "sp"),
        *("virtual_stages", "micro_batch", "schedule", "recompute", "offload", "attention"),
    }
)
"""Names of a rule that are fields of a layout."""
DERIVED_NAMES: Final = frozenset({"dp", "stage", "group"})
"""dp: dp_shard x dp_replicate.   stage: ranks of a pipeline stage, dp x cp x tp.   group: ranks that share a layer's
weights, tp, and those of cp where attention=context_parallel."""
MODEL_NAMES: Final = frozenset({"hidden", "vocab", "layers", "tied"})
BLOCK_NAMES: Final = frozenset(
    {
        *("heads", "kv_heads", "intermediate", "shared_intermediate"),
        *("experts", "expert_intermediate", "top_k"),
        *("shard", "width", "block", "side", "format", "part"),
    }
)
"""Names whose value is that of one part of a block: a rule holds where it holds for every part that has its names.

shard, width, block, side, format, part: of a matrix whose scales are for `block` neighbours along one side (`input` or
`output`), what a rank holds of that side and its whole width.
"""
JOB_NAMES: Final = frozenset({"sequence", "global_batch", "micro_batches"})
NAMES: Final = LAYOUT_NAMES | DERIVED_NAMES | MODEL_NAMES | BLOCK_NAMES | JOB_NAMES
POOL_NAMES: Final = frozenset({"utilization", "capacity", "weights", "reserve", "before"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A field of a layout that the engine has.

    flag: what carries it, empty where it follows from others.   values: of a choice, our word to the engine's; what is
    not there it does not have, and `uniform_*` is every word that begins so. Empty for degrees.
    """

    flag: str
    source: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRule:
    """What a layout must keep. axis: what to change where it does not.

    requires: the condition.   message: what the engine says, with names in braces; `literal` where it is its own
    wording, else a paraphrase.   note: what it does instead (padding, replication), and what follows.
    """

    about: About
    axis: str
    requires: str
    message: str
    source: str
    literal: bool = False
    note: str = ""


_NOTHING: Final = Bytes(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """How a serving engine divides a device.

    utilization: share that it takes unless `flag` says otherwise.   pool: bytes for KV, of `utilization`, `capacity`,
    `weights`, `reserve` (the activation peak of its profile run and non-torch memory) and `before`.   before: bytes
    taken before it asks what is free, where its share is of that.   kv_flag, blocks_flag: what states bytes for KV, or
    blocks (or tokens), instead; empty where nothing does.   block_size: positions of a KV block; `block_sizes` may be
    asked for.   layers: whose tokens are known: `alike`, where every layer keeps the same state of all positions;
    `groups`, also where layers of several kinds share blocks in groups.   graphs: least and most bytes of captured
    graphs; `graphs_within` says whether the pool leaves room for them.   outside: least and most bytes that it takes
    beside graphs and all that it counts.
    """

    utilization: Share
    flag: str
    pool: str
    block_size: int
    block_flag: str
    block_sizes: tuple[int, ...]
    layers: Literal["alike", "groups"]
    graphs: tuple[Bytes, Bytes]
    graphs_within: bool
    outside: tuple[Bytes, Bytes]
    before: Bytes = _NOTHING
    kv_flag: str = ""
    blocks_flag: str = ""
    note: str = ""

    def rule(self) -> Condition:
        """`pool` as a tree."""
        return read_condition(self.pool, POOL_NAMES, "pool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine, for the `versions` that its file holds for.

    jobs: what it is asked for.   axes: fields of a layout that it has; `replicas` are engines of their own, and need
    none.   memory: None where nothing is divided before it runs.
    """

    id: str
    name: str
    versions: str
    jobs: tuple[EngineJob, ...]
    axes: Mapping[str, Axis]
    rules: Mapping[str, EngineRule] = field(default_factory=dict[str, EngineRule])
    memory: Pool | None = None
    note: str = ""
    facts: Facts = field(default_factory=Facts)

    @property
    def titled(self) -> str:
        """Name and versions."""
        return f"{self.name} {self.versions}"


def read_engine(name: str) -> Engine:
    """The engine registered as `name`.

    Raises ENG001 when unknown, ENG005 for a condition that is none, SYS003 for faulty sources, IO013 and IO015.
    """
    values, facts = split(read_toml(ENGINES.text(name), name), name)
    engine = build(Engine, {"id": name, **values, "facts": facts}, name)
    known = {source.key for source in facts.sources}
    for place, item in (*engine.axes.items(), *engine.rules.items()):
        if item.source not in known:
            cause = f"{name}: {place} names the source {item.source!r}, which the file does not have"
            raise SystemSpecError(3, cause, f"add [sources.{item.source}] with title, place and read")
    for place, rule in engine.rules.items():
        read_condition(rule.requires, NAMES, f"{name}: rules.{place}")
    if engine.memory is not None:
        engine.memory.rule()
    return engine
