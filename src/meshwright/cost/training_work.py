"""A model's operators and columns of layouts go in; seconds and FLOPs of one layer's passes come out.

Forward multiplies by every matrix once; backward twice, for the gradient of its input and for that of its weights, or
once where adapters leave it as it is. What a recompute policy runs again is apart: a flat rate of model FLOPs holds it
already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from meshwright.base.numbers import where
from meshwright.base.traced import named, values
from meshwright.cost.kept import adapters, in_fp8
from meshwright.cost.pipelines import added, along_rows
from meshwright.cost.roofline import compute_s, matmul_flops, roofline_s
from meshwright.layout.layouts import distinct
from meshwright.layout.ownership import fullest_sizes, local_elements, product
from meshwright.workload.attention import score_flops
from meshwright.workload.batches import prefill
from meshwright.workload.context_split import RING_OF_ZIGZAG, ContextPlan, busiest_pairs
from meshwright.workload.expert_rows import EVEN, EVEN_LOADS, ExpertRows, Loads, loads_of
from meshwright.workload.operators import operators
from meshwright.workload.recomputing import repeated

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats
    from meshwright.job.recipe import Recipe
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.system.system import System
    from meshwright.workload.operators import Operator

EfficiencyKind: TypeAlias = Literal["model_flops", "compute"]
_PLAIN: Final = ("bf16", "fp16")
FIELDS: Final = ("tp", "cp", "ep", "etp", "micro_batch", "recompute")
"""What the work of a layer depends on; where matrices make low-rank rows, on sp besides."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingWork:
    """Columns [rows, kinds + 2] of one layer of each kind, of the first end (nothing) and of the last, one micro-batch.

    forward_s, input_s, weight_s: the passes.   repeated_s: what recompute runs again.   attention_s: the part of
    forward_s that scores and mixes positions; attention_again_fraction: how often that runs again.   forward_flops,
    backward_flops, repeated_flops: on one rank.   again_fraction: of layers that run again whole, and so their
    exchanges.
    """

    forward_s: Floats
    input_s: Floats
    weight_s: Floats
    repeated_s: Floats
    attention_s: Floats
    attention_again_fraction: Floats
    forward_flops: Floats
    backward_flops: Floats
    repeated_flops: Floats
    again_fraction: Floats

    def take(self, rows: Any) -> TrainingWork:
        """The chosen rows."""
        return TrainingWork(**{name: along_rows(getattr(self, name), rows) for name in self.__slots__})


def training_work(  # noqa: PLR0917 - the nouns, and the rate
    model: Model,
    system: System,
    layouts: Layouts,
    recipe: Recipe,
    sequence: int,
    efficiency: float | None,
    context: ContextPlan = RING_OF_ZIGZAG,
    experts: ExpertRows = EVEN,
) -> TrainingWork:
    """The work of every row; of cp the rank that scores most pairs counts, of experts the one that runs most rows.

    efficiency: the share of the peak that matrix products reach; None for a roofline.

    Raises SYS005 for an accelerator without a rate for the recipe. Source: chapter "Training systems", section 10.1.3.
    Leaves out norms, activation functions, optimizer and what else is no matrix product.
    """
    low_rank = any(_makes_low_rank_rows(item) for item in operators(model))
    own, place = distinct(layouts, (*FIELDS, "sp") if low_rank else FIELDS)
    return _work(model, system, own, recipe, sequence, efficiency, context, loads_of(model, experts)).take(place)


def _work(  # noqa: PLR0917 - as above
    model: Model,
    system: System,
    layouts: Layouts,
    recipe: Recipe,
    sequence: int,
    efficiency: float | None,
    context: ContextPlan,
    loads: Loads,
) -> TrainingWork:
    shape = (len(layouts), len(model.kinds) + 2)
    found: dict[str, Any] = {name: np.zeros(shape) for name in TrainingWork.__slots__}
    found["again_fraction"][:, :-2] = 1.0
    again = _repeated(model, layouts)
    for operator in operators(model):
        column = shape[1] - 1 if operator.kind is None else operator.kind
        each = values(operator.count) / (1 if operator.kind is None else values(model.kind_counts[operator.kind]))
        share = 0.0 if operator.kind is None else again[operator.name]
        for run in _runs(model, system, layouts, recipe, sequence, operator, efficiency, context, loads):
            parts = run.parts(each, share)
            for name, part in parts.items():
                if name == "attention_again_fraction":
                    found[name][:, column] = np.maximum(found[name][:, column], part)
                else:
                    found[name] = added(found[name], column, part)
        if operator.kind is not None:
            least = found["again_fraction"][:, column]
            found["again_fraction"][:, column] = np.minimum(least, share)
    return TrainingWork(**found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    """A product on one rank, forward. trained: its matrix has gradients.   scored: it has no matrix.

    backward: gradients go through it at all.
    """

    flops: Floats
    seconds: Floats
    trained: bool
    scored: bool
    backward: bool

    def parts(self, each: Any, share: Any) -> dict[str, Any]:
        """What it adds to `TrainingWork`. each: how often a layer runs it.   share: of them that run again."""
        seconds, flops = self.seconds * each, self.flops * each
        again = {
            "forward_s": seconds,
            "repeated_s": seconds * share,
            "forward_flops": flops,
            "repeated_flops": flops * share,
        }
        if not self.backward:
            return again
        found = {
            **again,
            "input_s": seconds * 2 if self.scored else seconds,
            "backward_flops": flops * 2 if self.trained or self.scored else flops,
        }
        if self.scored:
            return {**found, "attention_s": seconds, "attention_again_fraction": share}
        return {**found, "weight_s": seconds} if self.trained else found


def _runs(  # noqa: PLR0917 - the nouns, an operator, and the rate
    model: Model,
    system: System,
    layouts: Layouts,
    recipe: Recipe,
    sequence: int,
    operator: Operator,
    efficiency: float | None,
    context: ContextPlan,
    loads: Loads,
) -> list[_Run]:
    """Of an operator, then of the adapters of its matrix; beside adapters the matrix itself is frozen."""
    scored = not operator.weights
    ways = [operator]
    if not scored:
        ways += [replace(operator, weights=(half,)) for half in adapters(operator.weights[0], recipe)]
    found: list[_Run] = []
    for place, item in enumerate(ways):
        flops: Any = named(operator_flops(layouts, sequence, item, context, loads), f"{item.name}_flops")
        seconds = _seconds(model, system, layouts, recipe, item, flops, efficiency)
        trained = not scored and (place > 0 or recipe.lora_rank == 0)
        found.append(_Run(flops=flops, seconds=seconds, trained=trained, scored=scored, backward=operator.backward))
    return found


def operator_flops(
    layouts: Layouts,
    sequence: int,
    operator: Operator,
    context: ContextPlan = RING_OF_ZIGZAG,
    loads: Loads = EVEN_LOADS,
) -> Floats:
    """Forward FLOPs of one run of an operator on one rank, of cp on that which scores most pairs.

    Experts: the rows of the busiest rank that holds some; even and dropless, its share of all visits. Matrices that
    make low-rank rows are whole on every rank of tp, which multiplies all rows, or under sp its own.
    """
    rows: Any = layouts.degree("micro_batch") * (1.0 * sequence) / layouts.degree("cp")
    if operator.scores.dims:
        scored: Any = local_elements(operator.scores, layouts, "activations") * 1.0
        mixed: Any = local_elements(operator.values, layouts, "activations") * 1.0
        return score_flops(scored, mixed, _scored_pairs(layouts, sequence, operator, context))
    if operator.recurrence is not None:
        turned: Any = local_elements(operator.recurrence.chunked, layouts, "activations") * 1.0
        return matmul_flops(turned, rows)
    sizes: Any = fullest_sizes(operator.weights[0], layouts, "gathered")
    if operator.rows != "routed":
        if _makes_low_rank_rows(operator):
            rows = rows / where(layouts.columns["sp"], layouts.degree("tp"), np.ones(1, dtype=np.int64))
        return matmul_flops(product(sizes) * np.ones(len(layouts)), rows)
    visits = rows * operator.top_k * layouts.degree("etp") / layouts.degree("tp")
    visits = loads.run(operator.kind, layouts, _whole_rows(layouts, sequence), visits)
    return matmul_flops(product(sizes[1:]) * np.ones(len(layouts)), visits)


def _makes_low_rank_rows(operator: Operator) -> bool:
    return bool(operator.weights) and operator.weights[0].dims[0].role == "latent"


def _whole_rows(layouts: Layouts, sequence: int) -> Any:
    """Tokens of a micro-batch on one rank of cp."""
    return layouts.degree("micro_batch") * sequence // layouts.degree("cp")


def _scored_pairs(layouts: Layouts, sequence: int, operator: Operator, context: ContextPlan) -> Any:
    """(query, key) pairs of one micro-batch on the rank of cp that has most of them."""
    samples = layouts.degree("micro_batch")
    degrees = layouts.plain().degree("cp")
    if context.even(operator.span) or int(degrees.max(initial=1)) == 1:
        pairs: Any = samples * (1.0 * prefill(sequence).pairs_seen(operator.span))
        return pairs / layouts.degree("cp")
    distinct_degrees, place = np.unique(degrees, return_inverse=True)
    most = [
        busiest_pairs(context.split, (values(sequence),), degree, "causal", operator.span)
        for degree in distinct_degrees.tolist()
    ]
    return samples * named(np.array(most, dtype=np.float64)[place], "busiest_pairs")


def _seconds(  # noqa: PLR0917 - the nouns and an operator
    model: Model,
    system: System,
    layouts: Layouts,
    recipe: Recipe,
    operator: Operator,
    flops: Floats,
    efficiency: float | None,
) -> Floats:
    """Seconds of one run: at a share of the peak, or at the peak with every weight read once.

    Without a share, scores and matrices that have no copy in fp8 run at the rate of bf16. Source: DeepSeek-AI,
    "DeepSeek-V3 technical report" (arXiv 2412.19437), section 3.3.1.
    """
    rate: Any = system.accelerator.peak_for(recipe.rates)[1]
    if efficiency is not None:
        return compute_s(flops, rate * efficiency)
    if recipe.compute == "fp8" and not any(in_fp8(item, recipe) for item in operator.weights):
        rate = system.accelerator.peak_for(_PLAIN)[1]
    if not operator.weights:
        return compute_s(flops, rate)
    held: Any = product(fullest_sizes(operator.weights[0], layouts, "gathered")) * np.ones(len(layouts))
    memory: Any = system.accelerator.memory_bandwidth
    return roofline_s(flops, rate, held * (model.plain.bits / 8), memory)


def _repeated(model: Model, layouts: Layouts) -> dict[str, Floats]:
    """By operator, the share of its forward that each row's policy runs again."""
    policies = layouts.plain().columns["recompute"]
    found = {operator.name: np.zeros(len(layouts)) for operator in operators(model)}
    for policy in sorted(set(policies.tolist())):
        rows = policies == policy
        for name, share in repeated(model, policy).items():
            found[name][rows] = share
    return found
