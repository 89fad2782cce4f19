"""A model and a sequence length go in; the FLOPs of training on it come out, by any of the conventions tools print.

`shapes` is the product's own: what the operator table multiplies, once forward and twice backward. The others are
rules of other tools, kept to compare with what they print. One multiply-add is 2 FLOPs in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from meshwright.base.errors import JobError
from meshwright.base.numbers import N
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.result import Source
from meshwright.base.traced import formula
from meshwright.cost.kept import adapters
from meshwright.cost.roofline import matmul_flops
from meshwright.model.feed_forwards import Experts
from meshwright.model.model import Model, block_weights, first_weights, last_weights, parameter_counts
from meshwright.workload.attention import score_flops
from meshwright.workload.batches import decode
from meshwright.workload.operators import Operator, operators

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.job.recipe import Recipe

CONVENTIONS: Final = Registry(
    kind="conventions",
    package="meshwright.cost",
    folder="conventions",
    suffix=".toml",
    error=JobError,
    number=60,
)
OWN: Final = "shapes"
PASSES: Final = 3
"""Forward, and backward for the inputs and for the weights: each as many FLOPs as forward. Source: chapter 10.1.3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """How one tool counts the FLOPs of a token.

    blocks: what its weight term counts: the matrix products of the operator table, parameters (those that a token
    visits), those without the input tables (a head counts, tied or not), all parameters, or the 12 h^2 weights of a
    GPT block.
    pairs: (query, key) pairs of a layer and sequence of s: those it sees, s^2, s^2 / 2, or none.
    width: columns of the two products of attention: heads x head_dim, or the model's width.
    block_passes: how often blocks run, 1 forward + 2 backward, and 1 more where recompute counts; the head runs thrice.
    """

    name: str
    title: str
    blocks: Literal["products", "parameters", "parameters_without_input", "all_parameters", "gpt"]
    pairs: Literal["visible", "square", "half_square", "none"]
    width: Literal["query", "model"]
    block_passes: int
    source: Source


def read_convention(name: str) -> Convention:
    """The convention registered as `name`. Raises JOB060 when unknown."""
    data = read_toml(CONVENTIONS.text(name), name)
    source = {"key": name, **data.pop("source")}
    return build(Convention, {"name": name, **data, "source": source}, name)


@formula
def model_flops(model: Model, sequence: N, convention: str = OWN) -> N:
    """FLOPs of training on one sequence of `sequence` tokens: forward, backward, and what else the convention counts.

    sequence: tokens; a number, a column or a traced number.   Of a mixture, the experts that a token visits. Raises
    JOB060 (convention). Source: chapter "Training systems", section 10.1.3; the conventions name their own. Leaves out
    what the operator table leaves out, and document masks: a sequence is one document.
    """
    chosen = read_convention(convention)
    rows: Any = 1.0 * sequence
    scored = [
        _attention_flops(model, item, sequence, chosen) * _passes(item, chosen.block_passes)
        for item in operators(model)
    ]
    return _weight_flops(model, rows, chosen) + sum(scored)


@formula
def trained_flops(model: Model, recipe: Recipe, sequence: N) -> N:
    """`model_flops` of a recipe: beside adapters a matrix has no gradient, and the adapters are matrices of their own.

    So of a frozen matrix two passes count, of scores and of adapters three. Source: Hu et al., "LoRA" (arXiv
    2106.09685), section 4.2. Leaves out that no gradient goes below the first adapter.
    """
    if recipe.lora_rank == 0:
        return model_flops(model, sequence)
    found: Any = 0
    for item in operators(model):
        frozen = PASSES - 1 if item.weights else PASSES
        found = found + forward_flops(item, sequence) * item.count * (frozen if item.backward else 1)
        for tensor in item.weights:
            for half in adapters(tensor, recipe):
                own = replace(item, weights=(half,))
                found = found + forward_flops(own, sequence) * item.count * PASSES
    return found


@formula
def flops_per_token(model: Model, sequence: N, convention: str = OWN) -> N:
    """`model_flops` of a token, the mean over its sequence. Source: chapter "Training systems", section 10.1.3."""
    return model_flops(model, sequence, convention) / sequence


@formula
def step_flops(model: Model, sequence: N, sequences: Any, convention: str = OWN) -> N:
    """`model_flops` of a step of `sequences` sequences. Source: chapter "Training systems", section 10.1.3."""
    return model_flops(model, sequence, convention) * sequences


@formula
def job_flops(model: Model, sequence: N, tokens: Any, convention: str = OWN) -> N:
    """`model_flops` of `tokens` tokens in whole sequences. Source: chapter "Training systems", section 10.1.3."""
    return flops_per_token(model, sequence, convention) * tokens


@formula
def mfu(tokens_per_s: N, token_flops: Any, ranks: Any, peak_flops_per_s: Any) -> N:
    """Share of the peak of all devices that the model's FLOPs take; no unit.

    tokens_per_s: of all ranks together, over the whole step, waits included.   token_flops: of one token, by the
    convention that is asked about.   peak_flops_per_s: dense, of one device.
    Source: chapter "Training systems", section 10.1.3.
    """
    return tokens_per_s * token_flops / (peak_flops_per_s * ranks)


def forward_flops(operator: Operator, sequence: N) -> N:
    """FLOPs of one layer's forward of an operator over one sequence, `operator.count` times in the model.

    Every token goes through the head. Of a mixture, the experts that a token visits.
    """
    rows: Any = 1.0 * sequence
    if operator.weights:
        share = operator.top_k / operator.experts if operator.rows == "routed" else 1
        elements: Any = operator.weights[0].elements
        return matmul_flops(elements, rows * share)
    if operator.recurrence is not None:
        turned: Any = operator.recurrence.chunked.elements
        return matmul_flops(turned, rows)
    scored: Any = operator.scores.elements
    return score_flops(scored, operator.values.elements, _visible_pairs(operator, sequence))


def active_parameters(model: Model) -> int:
    """Parameters one token meets: all but the experts that it does not visit; a tied table counts once."""
    idle = 0
    for kind, (block, count) in enumerate(zip(model.kinds, model.kind_counts, strict=True)):
        layer = block.feed_forward
        if isinstance(layer, Experts):
            routed = [item for item in block_weights(model, kind) if item.dims[0].role == "experts"]
            elements = sum(item.elements for item in routed)
            idle += count * elements * (layer.experts - layer.top_k) // layer.experts
    return parameter_counts(model)["total"] - idle


def _weight_flops(model: Model, rows: Any, convention: Convention) -> Any:
    """FLOPs of all products with weights over `rows` tokens."""
    if convention.blocks == "products":
        found: Any = 0
        for item in operators(model):
            if item.weights or item.recurrence is not None:
                passes = PASSES if item.kind is None else convention.block_passes
                found = found + forward_flops(item, rows) * item.count * _passes(item, passes)
        return found
    if convention.blocks == "gpt":
        blocks = matmul_flops(12 * model.layers * model.hidden * model.hidden, rows) * convention.block_passes
        return blocks + matmul_flops(model.vocab * model.hidden, rows) * PASSES
    return matmul_flops(_PARAMETERS[convention.blocks](model), rows) * convention.block_passes


def _passes(operator: Operator, passes: int) -> int:
    """Those of an operator that has no backward are fewer by the two of a backward."""
    return passes if operator.backward else passes - PASSES + 1


def _attention_flops(model: Model, operator: Operator, sequence: Any, convention: Convention) -> Any:
    """Forward FLOPs of QK^T and PV of all layers of an operator over one sequence; zero for any other operator."""
    if not operator.state:
        return 0
    sides: Any = (operator.scores.elements, operator.values.elements)
    scored, mixed = sides if convention.width == "query" else (model.hidden, model.hidden)
    return score_flops(scored, mixed, _PAIRS[convention.pairs](operator, sequence)) * operator.count


def _visible_pairs(operator: Operator, sequence: Any) -> Any:
    """Token j of a sequence sees what a step sees that decodes it: itself and what is before it, in the window."""
    return 1.0 * decode(0, sequence).pairs_seen(operator.span)


def _without_input(model: Model) -> int:
    """Active parameters but the tables that are only looked up in; a tied head is a product of its own."""
    tables = sum(item.elements for item in first_weights(model) if item.part == "embedding")
    tied = sum(item.elements for item in last_weights(model) if item.alias is not None)
    return active_parameters(model) - tables + tied


_PARAMETERS: Final[dict[str, Callable[[Model], int]]] = {
    "parameters": active_parameters,
    "parameters_without_input": _without_input,
    "all_parameters": lambda model: parameter_counts(model)["total"],
}
_PAIRS: Final[dict[str, Callable[[Operator, Any], Any]]] = {
    "visible": _visible_pairs,
    "square": lambda _operator, sequence: 1.0 * sequence * sequence,
    "half_square": lambda _operator, sequence: 1.0 * sequence * sequence / 2,
    "none": lambda _operator, _sequence: 0.0,
}
