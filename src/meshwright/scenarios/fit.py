"""Does it fit? A model, a system and degrees go in; the ledger of the fullest rank and what still fits come out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import JobError, LayoutError
from meshwright.base.numbers import divide_up
from meshwright.base.result import Basis, Candidate, Excluded, Result, Verdict
from meshwright.base.traced import cell
from meshwright.base.units import Bytes, Tokens, show_bytes
from meshwright.cost.memory import Ledger
from meshwright.cost.memory_even import Shards, sharded_parts, sharded_token
from meshwright.cost.reserve import Reserve, ReserveRule
from meshwright.job.serve import MOST_TOKENS, check_range
from meshwright.layout.context import weight_ranks
from meshwright.layout.layout import AttentionCopies, Layout, checked_layout, fields_of
from meshwright.layout.layouts import table
from meshwright.layout.placement import instances
from meshwright.layout.rules import cuts_unevenly, first_broken, keeps_all
from meshwright.model.model import group_blocks, parameter_bytes
from meshwright.scenarios._by_length import by_length
from meshwright.scenarios._engine import FIT_LEFT_OUT, engine_refusal, for_engine, serving_rules
from meshwright.scenarios._engine_pool import EngineOptions, engine_block, engine_exclusion, engine_notes
from meshwright.scenarios._resident import resident_ledger
from meshwright.scenarios._shared import (
    NO_TOKENS,
    WORKSPACE,
    block_warning,
    check_resident,
    has_experts,
    position_warning,
    reserve_basis,
    reserve_row,
    rule_error,
    shared_left_out,
    smaller_degree,
    sources_of,
    stated_model,
    stated_system,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meshwright.layout.rules import Rule
    from meshwright.model.model import Model
    from meshwright.system.system import System

STATED_LEFT_OUT: Final = (
    "what an engine reserves for itself (graphs, profiling run, fragmentation): only the workspace is set aside",
    "padding of the vocabulary and of KV pages",
)
COMPUTED_LEFT_OUT: Final = (
    "fragmentation, captured graphs and the device context: the computed reserve has no item for them",
    "page padding of more sessions than the stated ones in max_sessions and max_kv_tokens",
)

_MOST_SESSIONS: Final = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """sessions: of `context` positions each, on one replica; None is one, or none without a context.

    workspace: bytes kept free on every device (assumed).   reserve: computes and itemises them instead.
    shards: `strict` as the ownership table says; `even` divides weights and state by tp exactly.   engine: whose budget
    rule is answered beside.
    """

    context: Tokens = NO_TOKENS
    sessions: int | None = None
    workspace: Bytes = WORKSPACE
    reserve: ReserveRule | None = None
    shards: Shards = "strict"
    engine: EngineOptions | None = None

    @property
    def pool(self) -> EngineOptions | None:
        """None: an engine's pool is answered beside what is kept here."""
        return None

    @property
    def resident(self) -> int:
        """Sessions to be held."""
        return (1 if self.context else 0) if self.sessions is None else self.sessions


def fit(model: Model, system: System, layout: Layout, options: FitOptions) -> Result:
    """Memory of one replica laid out as given.

    Raises LAY002 (devices), LAY003.. (rules), JOB001 (sizes), ENG001 and ENG002 (an engine's options).
    """
    if not 0 <= options.resident <= _MOST_SESSIONS or (options.resident and not options.context):
        raise JobError(1, f"{options.resident} sessions of {options.context} tokens", "give --sessions with --context")
    check_range("context", options.context, 0, MOST_TOKENS)
    check_resident(model, options.resident, options.context, options.workspace)
    refused = check_layout(model, system, layout, () if options.engine is None else serving_rules(options.engine.name))
    ledger, computed = fit_ledger(model, system, layout, options)
    memory = memory_row(ledger, 0, system, counted=options.context > 0) | reserve_row(computed, 0)
    memory |= _whole(model, system, layout, ledger, options.shards) | _engine(model, system, layout, options)
    memory |= by_length(model, system, layout, options, options.context)
    if refused is None and options.engine is not None:
        refused = engine_exclusion(memory["engine"], options.engine)
    enough = memory["per_rank_bytes"] <= memory["capacity_bytes"]
    fits = enough and refused is None
    candidate = Candidate(
        id=layout.id,
        layout=fields_of(layout),
        fits=fits,
        excluded=refused if enough or (refused and refused.limit == "engine") else capacity_exclusion(memory, None),
        memory=memory,
        measures={},
    )
    result = Result(
        command="fit",
        verdict=_verdict(model, system, layout, options, memory, refused),
        inputs={
            "model": stated_model(model),
            "system": stated_system(system),
            "job": None,
            "layout": layout,
            "options": options,
        },
        defaulted=model.defaulted,
        best=candidate if fits else None,
        candidates=(candidate,),
        warnings=(*position_warning(model, options.context), *block_warning(model, layout)),
        notes=(*model.notes, *(engine_notes(model, memory["engine"]) if "engine" in memory else ())),
        not_modelled=(
            *(STATED_LEFT_OUT if options.reserve is None else COMPUTED_LEFT_OUT),
            FIT_LEFT_OUT,
            *shared_left_out(model),
        ),
        sources=sources_of(model, system),
        basis={"memory": Basis.FORMULA.value, **reserve_basis(computed, "memory")},
        body={"memory": memory},
    )
    return for_engine(result, None if options.engine is None else options.engine.name)


def replica_layout(  # noqa: PLR0917 - degrees by name
    model: Model, tp: int, pp: int, ep: int, cp: int = 1, attention: AttentionCopies = "replicated"
) -> Layout:
    """One replica of these degrees; the experts lie over the ranks that share a layer, so etp is what ep leaves."""
    plain = Layout(tp=tp, pp=pp, ep=ep, cp=cp, attention=attention)
    return replace(plain, etp=max(weight_ranks(plain) // ep, 1)) if has_experts(model) else plain


def fit_ledger(model: Model, system: System, layout: Layout, options: FitOptions) -> tuple[Ledger, Reserve | None]:
    """The ledger columns of one layout, and the reserve when the options compute one."""
    sessions = np.array([options.resident])
    return resident_ledger(model, table([layout]), options, sessions, options.context, system.accelerator.memory)


def check_layout(model: Model, system: System, layout: Layout, engine: Sequence[Rule] = ()) -> Excluded | None:
    """Why an engine refuses a layout, or None. Where one is asked, so is one whose degrees cut unevenly.

    Raises LAY001 (a degree), the code of the first broken rule where it can not be held or none is asked, or LAY002
    when the system is too small.
    """
    columns = table([checked_layout(layout)])
    broken = first_broken(model, columns, system.devices, engine)[0]
    told = cuts_unevenly(model, columns) if engine else keeps_all(model, columns)
    if broken is not None and not told[0]:
        raise rule_error(broken)
    size = np.array([layout.world_size // layout.replicas])
    room = int(instances(size, system.nodes, system.devices_per_node)[0])
    if room < layout.replicas:
        cause = f"{layout.id} needs {layout.world_size} devices, and {system.name} has {system.devices}"
        raise LayoutError(2, cause, f"{smaller_degree(model, system, layout.pp)}, or more boxes (--on 'ID xN')")
    return None if broken is None else engine_refusal(broken)


def _engine(model: Model, system: System, layout: Layout, options: FitOptions) -> dict[str, Any]:
    """What the engine's own rule says, when one is named."""
    if options.engine is None:
        return {}
    return {"engine": engine_block(model, system, layout, options.engine, options.shards, options.context)}


def _whole(model: Model, system: System, layout: Layout, ledger: Ledger, shards: Shards) -> dict[str, Any]:
    """What is free, what all ranks would take if each were as full, a cached position, and the weights by part.

    kv_bytes_per_token: what one more position of a session adds to a rank, while no window is full; where ranks of cp
    take turns, of one turn each the mean, rounded up.   kv_layers: the same of one layer of each kind that keeps
    positions.
    """
    capacity, ranks = system.accelerator.memory, layout.world_size // layout.replicas
    used = cell(ledger.total, 0)
    return {
        "free_bytes": capacity - used,
        "all_ranks_bytes": used * ranks,
        "all_ranks_free_bytes": (capacity - used) * ranks,
        "kv_bytes_per_token": divide_up(cell(sharded_token(model, table([layout]), shards), 0), layout.cp),
        "kv_layers": _kv_layers(model, layout, shards),
        "weights_over_capacity": parameter_bytes(model)["total"] / capacity,
        "parameters_by_part_bytes": sharded_parts(model, layout, int(ledger.stage[0]), shards),
    }


def _kv_layers(model: Model, layout: Layout, shards: Shards) -> list[dict[str, Any]]:
    """Layers by kind of attention and bytes that one more position of a session adds to one of them on a rank."""
    found: dict[tuple[str, int], int] = {}
    for block, count in zip(model.kinds, model.kind_counts, strict=True):
        if block.mixer.token_state():
            alone, flat = replace(model, groups=group_blocks([block])), table([replace(layout, pp=1)])
            key = (block.mixer.kind, divide_up(cell(sharded_token(alone, flat, shards), 0), layout.cp))
            found[key] = found.get(key, 0) + count
    return [{"kind": kind, "layers": count, "bytes_per_token": size} for (kind, size), count in found.items()]


def memory_row(ledger: Ledger, row: int, system: System, *, counted: bool) -> dict[str, Any]:
    """One row of a ledger as the front door's `memory`; max_sessions is null when no session length was given."""
    return {
        "parameters_bytes": cell(ledger.parameters, row),
        "kv_cache_bytes": cell(ledger.kv_cache, row),
        "workspace_bytes": cell(ledger.workspace, row),
        "per_rank_bytes": cell(ledger.total, row),
        "capacity_bytes": system.accelerator.memory,
        "max_sessions": cell(ledger.max_sessions, row) if counted else None,
        "max_kv_tokens": cell(ledger.max_kv_tokens, row),
        "fullest_stage": int(ledger.stage[row]),
    }


def capacity_exclusion(memory: Mapping[str, Any], nearest: str | None) -> Excluded:
    """Why a layout does not fit, with the bytes that are missing."""
    over = memory["per_rank_bytes"] - memory["capacity_bytes"]
    reason = (
        f"needs {show_bytes(memory['per_rank_bytes'])} a device, "
        f"{show_bytes(over)} more than its {show_bytes(memory['capacity_bytes'])}"
    )
    if memory["workspace_bytes"] >= memory["capacity_bytes"]:
        reason += ": what is kept beside weights and KV (--workspace, or what an engine leaves to neither) is all of it"
    return Excluded(code="LAY020", reason=reason, nearest=nearest, limit="capacity")


def _verdict(  # noqa: PLR0917 - the nouns and what was found
    model: Model,
    system: System,
    layout: Layout,
    options: FitOptions,
    memory: Mapping[str, Any],
    refused: Excluded | None,
) -> Verdict:
    used = f"{show_bytes(memory['per_rank_bytes'])} of {show_bytes(memory['capacity_bytes'])} on the fullest device"
    what = f"{model.name} at {layout.id} on {system.name}"
    if options.resident:
        what += f" with {options.resident} x {options.context} tokens"
    windowed = any(item.span.bounded for block in model.kinds for item in block.mixer.token_state())
    fixed = any(block.mixer.session_state() for block in model.kinds)
    told = (" of sessions that fill no window" if windowed else "") + (" beside state of fixed size" if fixed else "")
    room = f"; room for {memory['max_kv_tokens']:,} KV tokens{told}"
    if memory["max_sessions"] is not None:
        room += f", {memory['max_sessions']} sessions"
    if refused is not None:
        nearest = "" if refused.nearest is None else f"; the nearest that it takes: {refused.nearest}"
        return Verdict(answer="no", text=f"{refused.reason} ({what}){nearest}")
    if memory["per_rank_bytes"] <= memory["capacity_bytes"]:
        return Verdict(answer="yes", text=f"{what} fits: {used}{room}")
    return Verdict(answer="no", text=f"{what} does not fit: {used}{room}")
