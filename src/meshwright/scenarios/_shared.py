"""What every scenario says of its inputs: the four nouns as plain values, what was defaulted, and the sources used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import EngineError, JobError, LayoutError
from meshwright.base.result import Basis
from meshwright.base.traced import cell
from meshwright.base.units import Bytes, Tokens, Watts
from meshwright.cost.estimate import compute_formats
from meshwright.cost.memory import state_bytes_per_token
from meshwright.cost.reserve import ITEMS, Reserve, ReserveRule, reserve
from meshwright.job.serve import check_range
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import columns, table
from meshwright.layout.ownership import local_sizes
from meshwright.layout.rules import keeps_all
from meshwright.model.feed_forwards import Experts
from meshwright.model.formats import WHOLE
from meshwright.model.mixers import Attention, LatentAttention
from meshwright.model.model import block_weights
from meshwright.system.facts import Facts
from meshwright.workload.operators import FormChoice, operators

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.base.result import Source
    from meshwright.layout.layouts import Layouts
    from meshwright.layout.rules import Broken
    from meshwright.model.model import Model
    from meshwright.system.system import System


WORKSPACE: Final = Bytes(2 * 2**30)
"""Kept free on every device unless said otherwise: the reserve of chapter "Supernodes", section 6.1.2 (assumed)."""
NO_WATTS: Final = Watts(0.0)
NO_TOKENS: Final = Tokens(0)
_MOST_STATE: Final = 2**61
_MOST_WORKSPACE: Final = 2**60
_MOST_COUNT: Final = 2**20
_MOST_SCRATCH: Final = 2**40
_CUT_BLOCKS: Final = "engines such as vLLM and SGLang refuse to load that"
_CUT_GROUPS: Final = {"mxfp4": "engines such as vLLM pad each shard to whole groups, which is not counted"}


def form_notes(model: Model, form: FormChoice) -> tuple[str, ...]:
    """Which form latent attention has in a step; nothing where a model has one form alone."""
    mixers = [block.mixer for block in model.kinds]
    if any(item.pair_products("expanded") != item.pair_products("absorbed") for item in mixers):
        said = "absorbed in decode steps, expanded in prompts" if form == "by_phase" else form
        return (f"latent attention: {said} (--attention-form)",)
    if any(isinstance(item, LatentAttention) for item in mixers):
        return ("latent attention over chosen positions: absorbed, in prompts too",)
    return ()


def stated_system(system: System) -> System:
    """The system's numbers, each fact's provenance once: under `facts`, with sources that stand under `sources`."""
    parts: dict[str, Any] = {"accelerator": replace(system.accelerator, facts=Facts())}
    parts["facts"] = replace(system.facts, sources=())
    parts["scale_up"] = replace(system.scale_up, facts=Facts())
    if system.scale_out is not None:
        parts["scale_out"] = replace(system.scale_out, facts=Facts())
    return replace(system, **parts)


def stated_model(model: Model) -> Model:
    """The model's shapes without the list of defaulted fields, which stands under `defaulted`."""
    return replace(model, defaulted=())


def sources_of(model: Model, system: System | None) -> tuple[Source, ...]:
    """Where the numbers of the model and of the system were read."""
    own = () if model.source is None else (model.source,)
    return (*own, *(() if system is None else system.facts.sources))


def has_experts(model: Model) -> bool:
    """Whether any layer is a mixture."""
    return any(isinstance(block.feed_forward, Experts) for block in model.kinds)


def position_warning(model: Model, positions: int) -> tuple[str, ...]:
    """A warning when sessions grow past what the config claims, with what that would need."""
    most = model.max_positions
    if most is None or positions <= most:
        return ()
    if model.position_kind == "learned":
        return (
            f"{positions} positions are above the {most} of the learned position table: it has no row for the rest",
        )
    if model.position_kind == "alibi":
        return (
            f"{positions} positions are above the {most} the config claims: ALiBi goes on, quality is not modelled",
        )
    if model.position_kind == "none":
        return (f"{positions} positions are above the {most} the config claims: quality there is not modelled",)
    factor = positions / most
    already = "" if model.rope is None or model.rope.factor is None else f", beside the config's {model.rope.factor:g}"
    text = f"{positions} positions are above max_position_embeddings {most}: "
    return (f"{text}needs rope scaling by {factor:.4g}{already}; quality there is not modelled",)


def rate_notes(model: Model, system: System) -> tuple[str, ...]:
    """A note for every format that the accelerator has no rate for, with the rate that is used instead."""
    wanted = {compute_formats(model, operator) for operator in operators(model)}
    return other_rates(system, wanted)


def other_rates(system: System, wanted: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The same for formats, the best of each first. Raises SYS005 where there is a rate for none."""
    pairs = sorted({(formats[0], system.accelerator.peak_for(formats)[0]) for formats in wanted})
    return tuple(
        f"{system.accelerator.name} has no {format_name} matrix rate: those products are charged at its {used} rate"
        for format_name, used in pairs
        if format_name != used
    )


def block_warning(model: Model, layout: Layout) -> tuple[str, ...]:
    """A warning when a layout cuts the blocks that share a scale: most engines refuse to load such a shard."""
    layouts = table([layout])
    for kind in range(len(model.kinds)):
        for tensor in block_weights(model, kind):
            block = model.format_of(tensor).block
            sizes = (
                () if block is None else zip(tensor.dims[-2:], local_sizes(tensor, layouts)[-2:], block, strict=True)
            )
            for dim, local, width in sizes:
                if width != WHOLE and local[0] % width and local[0] != dim.size:
                    text = f"{layout.id} cuts {tensor.name} to {int(local[0])} of {dim.size}, not a multiple of its"
                    return (f"{text} {width}-wide scale blocks: {_CUT_GROUPS.get(model.weights.name, _CUT_BLOCKS)}",)
    return ()


RESERVE_BASIS: Final[Mapping[str, str]] = {
    "activations_bytes": "formula: of max_batched_tokens rows, the residual stream and all tensors of the widest "
    "block, or the logits of sampled_rows; both counts assumed",
    "comm_buffers_bytes": "assumed: groups that exchange x comm_channels (assumed) x comm_buffer (NCCL_BUFFSIZE)",
    "workspace_bytes": "assumed: matmul_workspace, what PyTorch gives cuBLAS on Hopper",
    "padding_bytes": "formula: page_tokens - 1 positions a resident session, the vocabulary up to vocabulary_multiple",
    "in_flight_bytes": "formula: max_batched_tokens rows received and sent at stage boundaries",
}
"""What each item of a computed reserve rests on. Its constants are fields of `ReserveRule`, which has their sources."""


def computed_reserve(model: Model, layouts: Layouts, rule: ReserveRule, sessions: Ints) -> Reserve:
    """The itemised reserve of every layout. Raises JOB001 for a rule out of range."""
    for name in ("max_batched_tokens", "sampled_rows", "page_tokens", "vocabulary_multiple", "comm_channels"):
        check_range(name, getattr(rule, name), 1, _MOST_COUNT)
    for name in ("comm_buffer", "matmul_workspace"):
        check_range(name, getattr(rule, name), 0, _MOST_SCRATCH)
    return reserve(model, layouts, rule, sessions)


def reserve_row(computed: Reserve | None, row: int) -> dict[str, Any]:
    """`reserve` of the front door's `memory`, when it was computed; the items add up to `workspace_bytes`."""
    if computed is None:
        return {}
    return {"reserve": {f"{item}_bytes": cell(getattr(computed, item), row) for item in ITEMS}}


def reserve_basis(computed: Reserve | None, prefix: str) -> dict[str, str]:
    """The basis of `workspace_bytes`, and of the items when they were computed."""
    own = {f"{prefix}.workspace_bytes": Basis.ASSUMED.value}
    if computed is None:
        return own
    own[f"{prefix}.workspace_bytes"] = f"{Basis.ASSUMED.value}: the sum of `reserve`"
    return own | {f"{prefix}.reserve.{item}": basis for item, basis in RESERVE_BASIS.items()}


def shared_left_out(model: Model) -> tuple[str, ...]:
    """What is left out where layers read the keys and values of others."""
    shared = any(isinstance(block.mixer, Attention) and block.mixer.shared_kv for block in model.kinds)
    return (SHARED_LEFT_OUT,) if shared else ()


SHARED_LEFT_OUT: Final = (
    "stages that lack the layer whose keys and values theirs read: a copy there, or reading it from another stage "
    "(study shared-state)"
)


def check_resident(model: Model, sessions: int, tokens: int, workspace: int) -> None:
    """What is to be kept can be counted in exact 64-bit bytes. Raises JOB001: far beyond any system."""
    per_token = sum(count * state_bytes_per_token(model, kind) for kind, count in enumerate(model.kind_counts))
    if max(sessions, 1) * tokens * per_token > _MOST_STATE:
        cause = f"{sessions} sessions of {tokens} tokens keep more than {_MOST_STATE} bytes"
        raise JobError(1, cause, "give fewer sessions, or shorter ones")
    check_range("workspace", workspace, 0, _MOST_WORKSPACE)


def smaller_degree(model: Model, system: System, pp: int) -> str:
    """What to type where a replica has more ranks than there are devices: the stages, or the widest tp they leave."""
    if pp > system.devices:
        return f"--layout pp={min(model.layers, system.devices)}"
    degrees = np.arange(1, system.devices // pp + 1)
    experts = degrees if has_experts(model) else np.ones_like(degrees)
    kept = keeps_all(model, columns({"tp": degrees, "etp": experts}))
    return f"--layout tp={degrees[kept].max(initial=1)}"


def rule_error(broken: Broken) -> LayoutError | EngineError:
    """The error for a layout that the user asked for and that breaks a rule, of any engine or of one."""
    fix = f"--layout {broken.nearest}" if broken.nearest else "no degree keeps this rule: leave it out of the layout"
    cls = EngineError if broken.code.startswith(EngineError.prefix) else LayoutError
    return cls(int(broken.code[3:]), broken.reason, fix)
