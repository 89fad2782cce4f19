"""Does it fit? A model, a system and degrees go in; the ledger of the fullest rank and what still fits come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import JobError, LayoutError
from meshwright.base.result import Basis, Candidate, Excluded, Result, Verdict
from meshwright.base.traced import cell
from meshwright.base.units import Bytes, Tokens, show_bytes
from meshwright.cost.memory import Ledger, serving_ledger
from meshwright.cost.memory_parts import parts_bytes
from meshwright.job.serve import MOST_TOKENS, check_range
from meshwright.layout.layout import Layout, checked_layout, fields_of
from meshwright.layout.layouts import table
from meshwright.layout.placement import instances
from meshwright.layout.rules import first_broken
from meshwright.model.model import parameter_bytes
from meshwright.scenarios._shared import (
    NO_TOKENS,
    WORKSPACE,
    block_warning,
    check_resident,
    has_experts,
    position_warning,
    rule_error,
    smaller_degree,
    sources_of,
    stated_model,
    stated_system,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.model.model import Model
    from meshwright.system.system import System

NOT_MODELLED = (
    "what an engine reserves for itself (graphs, profiling run, fragmentation): only the workspace is set aside",
    "padding of the vocabulary and of KV pages",
    "rules of a serving engine: page sizes, kernels",
)

_MOST_SESSIONS: Final = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """sessions: of `context` positions each, on one replica; None is one, or none without a context.

    workspace: bytes kept free on every device (assumed).
    """

    context: Tokens = NO_TOKENS
    sessions: int | None = None
    workspace: Bytes = WORKSPACE

    @property
    def resident(self) -> int:
        """Sessions to be held."""
        return (1 if self.context else 0) if self.sessions is None else self.sessions


def fit(model: Model, system: System, layout: Layout, options: FitOptions) -> Result:
    """Memory of one replica laid out as given. Raises LAY002 (devices), LAY003.. (rules), JOB001 (sizes)."""
    if not 0 <= options.resident <= _MOST_SESSIONS or (options.resident and not options.context):
        raise JobError(1, f"{options.resident} sessions of {options.context} tokens", "give --sessions with --context")
    check_range("context", options.context, 0, MOST_TOKENS)
    check_resident(model, options.resident, options.context, options.workspace)
    check_layout(model, system, layout)
    ledger = fit_ledger(model, system, layout, options)
    memory = memory_row(ledger, 0, system, counted=options.context > 0) | _whole(model, system, layout, ledger)
    fits = memory["per_rank_bytes"] <= memory["capacity_bytes"]
    candidate = Candidate(
        id=layout.id,
        layout=fields_of(layout),
        fits=fits,
        excluded=None if fits else capacity_exclusion(memory, None),
        memory=memory,
        measures={},
    )
    return Result(
        command="fit",
        verdict=_verdict(model, system, layout, options, memory),
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
        notes=model.notes,
        not_modelled=NOT_MODELLED,
        sources=sources_of(model, system),
        basis={"memory": Basis.FORMULA.value, "memory.workspace_bytes": Basis.ASSUMED.value},
        body={"memory": memory},
    )


def replica_layout(model: Model, tp: int, pp: int, ep: int) -> Layout:
    """One replica of these degrees; the experts lie over the tp ranks, so etp is what ep leaves of tp."""
    return Layout(tp=tp, pp=pp, ep=ep, etp=max(tp // ep, 1) if has_experts(model) else 1)


def fit_ledger(model: Model, system: System, layout: Layout, options: FitOptions) -> Ledger:
    """The ledger columns of one layout."""
    return serving_ledger(
        model,
        table([layout]),
        sessions=np.array([options.resident]),
        tokens=options.context,
        workspace_bytes=options.workspace,
        capacity_bytes=system.accelerator.memory,
    )


def check_layout(model: Model, system: System, layout: Layout) -> None:
    """Raises LAY001 (a degree), the code of the first broken rule, or LAY002 when the system is too small."""
    columns = table([checked_layout(layout)])
    broken = first_broken(model, columns, system.devices)[0]
    if broken is not None:
        raise rule_error(broken)
    size = np.array([layout.world_size // layout.replicas])
    room = int(instances(size, system.nodes, system.devices_per_node)[0])
    if room < layout.replicas:
        cause = f"{layout.id} needs {layout.world_size} devices, and {system.name} has {system.devices}"
        raise LayoutError(2, cause, f"{smaller_degree(model, system, layout.pp)}, or more boxes (--on 'ID xN')")


def _whole(model: Model, system: System, layout: Layout, ledger: Ledger) -> dict[str, Any]:
    """What is free, what all ranks of the replica would take if each were as full, and the weights by part."""
    capacity, ranks = system.accelerator.memory, layout.world_size // layout.replicas
    used = cell(ledger.total, 0)
    return {
        "free_bytes": capacity - used,
        "all_ranks_bytes": used * ranks,
        "all_ranks_free_bytes": (capacity - used) * ranks,
        "weights_over_capacity": parameter_bytes(model)["total"] / capacity,
        "parameters_by_part_bytes": parts_bytes(model, layout, int(ledger.stage[0])),
    }


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
    return Excluded(code="LAY020", reason=reason, nearest=nearest, limit="capacity")


def _verdict(model: Model, system: System, layout: Layout, options: FitOptions, memory: Mapping[str, Any]) -> Verdict:
    used = f"{show_bytes(memory['per_rank_bytes'])} of {show_bytes(memory['capacity_bytes'])} on the fullest device"
    what = f"{model.name} at {layout.id} on {system.name}"
    if options.resident:
        what += f" with {options.resident} x {options.context} tokens"
    room = f"; room for {memory['max_kv_tokens']:,} KV tokens"
    if memory["max_sessions"] is not None:
        room += f", {memory['max_sessions']} sessions"
    if memory["per_rank_bytes"] <= memory["capacity_bytes"]:
        return Verdict(answer="yes", text=f"{what} fits: {used}{room}")
    return Verdict(answer="no", text=f"{what} does not fit: {used}{room}")
