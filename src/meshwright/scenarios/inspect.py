"""What is this model? A `Model`, a batch and a length go in; parameters, bytes, state and work per token come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from meshwright.base.result import Basis, Result, Verdict
from meshwright.base.units import Tokens, show_bytes
from meshwright.cost.memory import state_bytes_per_token, state_row_bytes
from meshwright.cost.model_flops import (
    CONVENTIONS,
    OWN,
    active_parameters,
    flops_per_token,
    model_flops,
    read_convention,
)
from meshwright.job.serve import MOST_SESSIONS, MOST_TOKENS, check_range
from meshwright.layout.ownership import AXIS_OF_ROLE
from meshwright.model.model import Model, format_bytes, parameter_bytes, parameter_counts
from meshwright.scenarios._shared import NO_TOKENS, form_notes, position_warning, sources_of, stated_model
from meshwright.workload.attention import score_flops
from meshwright.workload.batches import Batch, decode, prefill
from meshwright.workload.feed_forward import distinct_experts
from meshwright.workload.operators import NOT_MODELLED, FormChoice, Operator, form_of, operators

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.base.result import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions:
    """batch: sessions decoded together, one token each.   context: positions cached per session before the step.

    sequence: length of a training sequence, to count the FLOPs of training on it; 0 leaves training out.
    attention_form: of latent attention in the decode step.
    """

    batch: int = 1
    context: Tokens = NO_TOKENS
    sequence: Tokens = NO_TOKENS
    attention_form: FormChoice = "by_phase"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWork:
    """One decode step of `batch` sessions, whole model, no layout: `flops` are per token, bytes per step."""

    flops: float
    weight_flops: float
    attention_flops: float
    weight_bytes: float
    state_bytes: int


def inspect(model: Model, options: InspectOptions) -> Result:
    """Everything that follows from the shapes alone. Raises JOB001 for a batch or a context out of range."""
    check_range("batch", options.batch, 1, MOST_SESSIONS)
    check_range("context", options.context, 0, MOST_TOKENS)
    check_range("sequence", options.sequence, 0, MOST_TOKENS)
    work = token_work(model, options.batch, options.context, options.attention_form)
    counts = parameter_counts(model)
    body: dict[str, Any] = {
        "parameters": counts,
        "parameter_bytes": parameter_bytes(model),
        "bytes_by_format": format_bytes(model),
        "active_parameters": active_parameters(model),
        "kv_bytes_per_token": kv_bytes_per_token(model),
        "kv_bytes_per_token_by_kind": kv_by_kind(model),
        "fixed_state_bytes": fixed_state_bytes(model),
        "flops_per_token": work.flops,
        "weight_bytes_per_step": work.weight_bytes,
        "state_bytes_per_step": work.state_bytes,
        "blocks": _blocks(model),
        "operators": _operators(model),
        "apart": apart(model),
        "training": training_work(model, options.sequence),
    }
    size = f"{counts['total']:,} parameters, {show_bytes(body['parameter_bytes']['total'])}"
    return Result(
        command="inspect",
        verdict=Verdict(answer="yes", text=f"{model.name}: {size}, {body['kv_bytes_per_token']:,} KV bytes a token"),
        inputs={"model": stated_model(model), "system": None, "job": None, "layout": None, "options": options},
        defaulted=model.defaulted,
        warnings=position_warning(model, options.sequence),
        notes=(*model.notes, *form_notes(model, options.attention_form)),
        not_modelled=NOT_MODELLED,
        sources=(*sources_of(model, None), *_convention_sources(options.sequence)),
        basis=_BASIS,
        body=body,
    )


def token_work(model: Model, batch: int, context: int, form: FormChoice = "by_phase") -> TokenWork:
    """FLOPs per token and bytes per step of decoding `batch` sessions that each have `context` positions cached.

    Weights are read once a step; a mixture reads the experts that the batch is expected to choose (uniform routing,
    equation 6-8). Source: chapter "Supernodes", sections 6.1.2, 6.2.2.
    """
    step = decode(context, 1)
    table = operators(model, form_of(step, form))
    weight_flops = sum(_matrix_flops(item, step) for item in table)
    scored = sum(_attention_flops(item, step) for item in table)
    read = sum(_read_bytes(model, item, batch) for item in table)
    return TokenWork(
        flops=1.0 * (weight_flops + scored),
        weight_flops=1.0 * weight_flops,
        attention_flops=1.0 * scored,
        weight_bytes=1.0 * read,
        state_bytes=batch * sum(_state_read_bytes(model, item, step) for item in table),
    )


def prefill_flops(model: Model, tokens: int) -> float:
    """FLOPs of one pass over a prompt of `tokens`; the head works on the last one only."""
    step = prefill(tokens)
    table = operators(model, form_of(step, "by_phase"))
    weight_flops = sum(_matrix_flops(item, step) * (step.sampled if item.sampled else tokens) for item in table)
    return 1.0 * (weight_flops + sum(_attention_flops(item, step) for item in table))


def training_work(model: Model, sequence: int) -> Mapping[str, Any] | None:
    """FLOPs of training on one sequence, by every convention, `shapes` first; None where no length is asked about.

    times_shapes: of the product's own count. Source: chapter "Training systems", section 10.1.3.
    """
    if not sequence:
        return None
    own = flops_per_token(model, sequence)
    names = (OWN, *(name for name in CONVENTIONS.names() if name != OWN))
    rows: list[Mapping[str, Any]] = []
    for name in names:
        flops = flops_per_token(model, sequence, name)
        rows.append(
            {
                "convention": name,
                "flops_per_token": flops,
                "times_shapes": flops / own,
                "title": read_convention(name).title,
            }
        )
    return {
        "sequence": sequence,
        "flops_per_token": own,
        "flops_per_sequence": model_flops(model, sequence),
        "conventions": rows,
    }


def _convention_sources(sequence: int) -> tuple[Source, ...]:
    return tuple(read_convention(name).source for name in CONVENTIONS.names()) if sequence else ()


def kv_bytes_per_token(model: Model) -> int:
    """Bytes that one more cached position adds over all layers, windows not yet full."""
    return sum(kv_by_kind(model).values())


def kv_by_kind(model: Model) -> dict[str, int]:
    """`kv_bytes_per_token` by kind of mixer."""
    found: dict[str, int] = {}
    for kind, (block, count) in enumerate(zip(model.kinds, model.kind_counts, strict=True)):
        found[block.mixer.kind] = found.get(block.mixer.kind, 0) + count * state_bytes_per_token(model, kind)
    return found


def cached_bytes(model: Model, tokens: int) -> int:
    """Bytes that a session of `tokens` positions keeps; a window keeps its last ones only."""
    total = 0
    for block, count in zip(model.kinds, model.kind_counts, strict=True):
        for item in block.mixer.token_state():
            total += count * item.span.kept(tokens) * state_row_bytes(model, item)
    return total + fixed_state_bytes(model)


def fixed_state_bytes(model: Model) -> int:
    """Bytes of state that a session keeps whatever its length."""
    return sum(fixed_state_by_name(model).values())


def fixed_state_by_name(model: Model) -> dict[str, int]:
    """`fixed_state_bytes` by what is kept, over all layers."""
    found: dict[str, int] = {}
    for block, count in zip(model.kinds, model.kind_counts, strict=True):
        for item in block.mixer.session_state():
            size = count * cast("int", model.session_bytes(item, item.tensor.elements))
            found[item.tensor.name] = found.get(item.tensor.name, 0) + size
    return found


def apart(model: Model) -> dict[str, Any]:
    """Parts that the text decoder does not run, by name: parameters, or a note where they are not counted."""
    found: dict[str, Any] = {"vision": 0, "mtp": 0, "buffers": 0}  # engram, where there is one
    for item in model.apart:
        found[item.name] = item.parameters if item.parameters is not None else {"parameters": None, "note": item.note}
    return found


def _matrix_flops(operator: Operator, step: Batch) -> int:
    """FLOPs of one token of a step."""
    if not operator.weights:
        return 0
    elements = 2 * operator.count * operator.weights[0].elements
    if operator.rows == "positions":
        return elements * int(step.attended(None)) // (step.rows * step.steps)
    return elements if operator.rows == "tokens" else elements * operator.top_k // operator.experts


def _attention_flops(operator: Operator, step: Batch) -> int:
    """FLOPs over positions and of recurrences, of all tokens of a step."""
    if operator.recurrence is not None:
        return 2 * operator.count * operator.recurrence.work(step.rows).elements * step.rows
    if not operator.state:
        return 0
    columns = operator.scores.elements, operator.values.elements
    return operator.count * score_flops(*columns, int(step.pairs_seen(operator.span))) // step.steps


def _state_read_bytes(model: Model, operator: Operator, step: Batch) -> int:
    """Cached state that a session's step reads; what recurrences write back of theirs is not in it."""
    if operator.recurrence is not None:
        held = [int(model.session_bytes(item, item.tensor.elements)) for item in operator.recurrence.state]
        return operator.count * sum(held)
    rows = int(step.rows_read(operator.span)) if operator.state else 0
    return operator.count * rows * sum(state_row_bytes(model, item) for item in operator.state) // step.steps


def _read_bytes(model: Model, operator: Operator, batch: int) -> float:
    if not operator.weights:
        return 0
    tensor = operator.weights[0]
    stored: Any = operator.count * model.format_of(tensor).stored_bytes(tensor.shape)
    if operator.rows != "routed":
        return stored
    return stored * distinct_experts(operator.experts, operator.top_k, batch) / operator.experts


def _blocks(model: Model) -> list[Mapping[str, Any]]:
    """The block groups in layer order."""
    return [
        {"count": group.count, "mixer": group.block.mixer, "feed_forward": group.block.feed_forward}
        for group in model.groups
    ]


def _operators(model: Model) -> list[Mapping[str, Any]]:
    """The operator table: name, layers, matrix [out, in] with the axis that cuts each dim, bytes and FLOPs a token."""
    rows: list[Mapping[str, Any]] = []
    for item in operators(model):
        turned = () if item.recurrence is None else item.recurrence.multiply_adds.dims
        dims = item.weights[0].dims if item.weights else item.scores.dims or turned
        rows.append(
            {
                "name": item.name,
                "layers": item.count,
                "shape": [dim.size for dim in dims],
                "axes": [AXIS_OF_ROLE.get(dim.role) for dim in dims],
                "experts": item.experts,
                "weight_bytes": _read_bytes(model, item, 1),
                "flops_per_token": _matrix_flops(item, decode(0, 1)),
            }
        )
    return rows


_BASIS = {
    "parameters": Basis.CONFIG.value,
    "parameter_bytes": Basis.CONFIG.value,
    "kv_bytes_per_token": Basis.CONFIG.value,
    "flops_per_token": Basis.FORMULA.value,
    "weight_bytes_per_step": Basis.FORMULA.value,
    "training": Basis.FORMULA.value,
}
