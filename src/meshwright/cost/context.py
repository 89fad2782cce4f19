"""Columns of layouts with cp go in; what a rank has of positions and rows, and what ranks of cp exchange, come out.

Cached positions lie round robin: position n on rank n modulo cp, so that sessions, windows and rows of compressed
state alike are shared to within one. A decode step: every rank scores its positions, and what they say of each head is
merged. A prompt: its rows are dealt over ranks that repeat the weights; ranks that share them work as one tp group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.numbers import divide_up, maximum, where
from meshwright.base.traced import held, named, values
from meshwright.cost.collectives import formula_exchange, program_s
from meshwright.cost.groups import group_along
from meshwright.layout.context import has_context, joined_ways
from meshwright.layout.ownership import fullest_sizes, local_elements, product
from meshwright.model.mixers.told import ALL, Span
from meshwright.workload.context_split import busiest_pairs
from meshwright.workload.messages import Message
from meshwright.workload.ring_rounds import ring_rounds
from meshwright.workload.training_messages import training_messages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meshwright.base.numbers import Floats, Ints
    from meshwright.cost.collectives import Exchange
    from meshwright.cost.groups import Group
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.system.system import System
    from meshwright.workload.batches import Batch
    from meshwright.workload.context_split import ContextPlan
    from meshwright.workload.operators import Operator
    from meshwright.workload.training_messages import TrainingMessage

PARTIAL_BYTES: Final = 4
_SCALARS: Final = 2


def rows_of_rank(batch: Batch, layouts: Layouts) -> Any:
    """Rows of one session that a rank multiplies: its part of a prompt; of a decode step every rank has the token."""
    if batch.rows == 1 or not has_context(layouts):
        return batch.rows
    return divide_up(batch.rows, _dealt(layouts))


def positions_of_rank(count: Any, batch: Batch, layouts: Layouts) -> Any:
    """Of so many rows of state that a session's steps read, what a rank reads a step.

    Of a decode step those that it keeps, rounded up; a prompt's keys and values all pass through it.
    """
    if batch.rows > 1 or not has_context(layouts):
        return count / batch.steps
    return where(layouts.degree("cp") > 1, divide_up(count, layouts.degree("cp") * batch.steps), count / batch.steps)


def expanded_of_rank(batch: Batch, layouts: Layouts) -> Any:
    """Positions of one session whose keys and values a rank makes, where they are made of cached rows.

    Its own; where ranks share the weights, of so many of its heads' share as makes up for the others' heads.
    """
    count = batch.attended(None)
    if not has_context(layouts):
        return count / batch.steps
    if batch.rows > 1:
        dealt = _dealt(layouts)
        return where(dealt > 1, divide_up(count, dealt * batch.steps), count / batch.steps)
    return positions_of_rank(count, batch, layouts) * _shared(layouts)


def pairs_of_rank(batch: Batch, layouts: Layouts, span: Span, context: ContextPlan) -> Any:
    """(query, key) pairs of one session and step on the rank that scores most, for each head that it holds weights of.

    Ranks that share the weights score the heads of all of them. Of a prompt cut between ranks, those of its busiest.
    """
    pairs = batch.pairs_seen(span)
    if not has_context(layouts):
        return pairs / batch.steps
    if batch.rows == 1:
        return positions_of_rank(pairs, batch, layouts) * _shared(layouts)
    dealt = _dealt(layouts)
    if context.exchange == "ulysses":
        return pairs / batch.steps / dealt
    degrees, place = np.unique(values(dealt), return_inverse=True)
    most = [_busiest(context, int(values(batch.rows)), degree, span) for degree in degrees.tolist()]
    return where(dealt > 1, named(np.array(most)[place], "busiest_pairs"), pairs / batch.steps)


def context_exchanges(  # noqa: PLR0917 - the nouns, a step, and what runs beside it
    model: Model,
    system: System,
    layouts: Layouts,
    batch: Batch,
    sessions: Ints,
    products: Sequence[Operator],
    attention_s: Mapping[int, Floats],
    context: ContextPlan,
    link: float,
) -> tuple[tuple[Message, Exchange], ...]:
    """What ranks of cp exchange in a step of so many sessions each; nothing where no row has any.

    products: the operators of the step.   attention_s: of one layer of each kind, beside which a ring runs.
    """
    if not has_context(layouts):
        return ()
    group = group_along(system, layouts, "cp", "own", link)
    if batch.rows == 1:
        return tuple(_merge(model, layouts, sessions, group, item) for item in _merged(products))
    found: list[tuple[Message, Exchange]] = []
    rows: Any = rows_of_rank(batch, layouts) * sessions * 1.0
    dealt = _dealt(layouts)
    for message in training_messages(model, context):
        if message.axis != "cp":
            continue
        assert isinstance(message.place, int), "an end of the model that ranks of cp share"
        seconds = context_message_s(model, layouts, rows, sessions, message, group)
        if message.operation == "ring":
            beside = attention_s.get(message.place, np.zeros(len(layouts)))
            seconds = ring_wait_s(model, layouts, batch.rows, message.place, beside, seconds, context)
        seconds = where(dealt > 1, seconds, np.zeros(1))
        count = model.kind_counts[message.place] * message.forward
        each = context_message_bytes(model, layouts, 1.0, 1, message)
        found.append(_exchange(message.operation, message.after, message.place, count, each, seconds, layouts))
    return tuple(found)


def ring_wait_s(  # noqa: PLR0917 - a model, a sequence over ranks, and what runs beside each other
    model: Model, layouts: Layouts, tokens: Any, kind: int, attention_s: Any, sent_s: Any, context: ContextPlan
) -> Any:
    """Seconds that a layer waits for its ring beyond the attention of its busiest rank.

    Every round waits for the rank that scores most in it, and, but for the last, for one message beside it. The rounds'
    shares are counted, and stand as numbers in an expression.

    attention_s: of the busiest rank in all rounds.   sent_s: of the messages of all rounds. Source: Liu et al., Ring
    Attention, 2023 (arXiv:2310.01889), section 3; Brandon et al., Striped Attention, 2023 (arXiv:2311.09431), section
    2.2.
    """
    degrees = layouts.degree("cp")
    each = sent_s / maximum(degrees - 1, 1)
    late: Any = np.zeros(len(layouts))
    for ranks in np.unique(values(degrees)).tolist():
        if ranks == 1:
            continue
        rounds = ring_rounds(context.split, int(values(tokens)), min(ranks, int(values(tokens))), _span(model, kind))
        wait = attention_s * rounds.excess
        for share, count in rounds.sending:
            wait = wait + maximum(each - attention_s * share, 0.0) * count
        late = where(values(degrees) == ranks, wait, late)
    return late


def context_message_s(  # noqa: PLR0917 - a model, what a rank has of it, and a message
    model: Model, layouts: Layouts, rows: Any, samples: Any, message: TrainingMessage, group: Group
) -> Any:
    """Seconds of one exchange between ranks of cp that share sequences: round, gathered, passed on, or by heads.

    rows: of a rank.   samples: sequences that they are of.
    """
    sent = context_message_bytes(model, layouts, rows, samples, message)
    if message.operation == "all_to_all":
        return program_s("direct", "all_to_all", group, sent)
    # as many rounds as there are other ranks, one message each
    return program_s("ring", "all_gather", group, sent * layouts.degree("cp"))


def context_message_bytes(model: Model, layouts: Layouts, rows: Any, samples: Any, message: TrainingMessage) -> Floats:
    """Bytes of one exchange between ranks of cp, as `context_message_s` has it: of a round, or all by heads."""
    element: Any = model.plain.bits / 8
    if message.operation == "pass":
        return _session_bytes(model, layouts, message) * samples * np.ones(len(layouts))
    if message.operation in {"ring", "all_gather"}:
        sizes = [product(fullest_sizes(item, layouts, "kv_cache")) for item in message.state]
        return sum(size * element for size in sizes) * rows
    heads = [local_elements(item, layouts, "activations") * element for item in message.heads]
    return (sum(heads) + _repeated_heads(layouts, message) * element) * rows


def _session_bytes(model: Model, layouts: Layouts, message: TrainingMessage) -> Any:
    """State of fixed size of one sequence, on one rank."""
    total: Any = 0
    for item in message.sessions:
        kept = model.plain if item.format is None else item.format
        total = total + product(fullest_sizes(item.tensor, layouts, "kv_cache")) * (kept.bits / 8)
    return total


def _repeated_heads(layouts: Layouts, message: TrainingMessage) -> Any:
    """K and V of one row that a rank sends, of which every rank of cp needs a head: few heads are sent repeatedly."""
    total: Any = np.zeros(len(layouts))
    for tensor in message.state:
        local = local_elements(tensor, layouts, "kv_cache")
        grain = max(dim.grain for dim in tensor.dims if dim.role == "kv_heads")
        total = total + maximum(local, layouts.degree("cp") * grain)
    return total


def _span(model: Model, kind: int) -> Span:
    """What a layer's tokens see, without traces, as rounds are counted: of several products, that which mixes most."""
    met = model.kinds[kind].mixer.pair_products("expanded")
    seen = max(met, key=lambda item: item.values.elements).span if met else ALL
    return Span(window=held(seen.window), chunk=held(seen.chunk), stride=held(seen.stride), top=held(seen.top))


def _busiest(context: ContextPlan, tokens: int, ranks: int, span: Span) -> int:
    return busiest_pairs(context.split, (tokens,), min(ranks, tokens), "causal", span)


def _shared(layouts: Layouts) -> Any:
    """Ranks of cp that share a rank's weights."""
    ways = joined_ways(layouts)
    return np.ones(1, dtype=np.int64) if ways is None else ways


def _dealt(layouts: Layouts) -> Any:
    """Ranks of cp over which a prompt's rows are dealt: those that repeat the weights."""
    return layouts.degree("cp") // _shared(layouts)


def _merged(products: Sequence[Operator]) -> list[Operator]:
    """Of each kind of layer the attention whose heads' results are merged; what only chooses rows has none."""
    found: dict[int, Operator] = {}
    for item in products:
        if item.kind is None or not item.state or not item.values.elements:
            continue
        if item.kind not in found or item.values.elements > found[item.kind].values.elements:
            found[item.kind] = item
    return list(found.values())


def _merge(model: Model, layouts: Layouts, rows: Any, group: Group, operator: Operator) -> tuple[Message, Exchange]:
    """The partial results of every head, merged into what all ranks hold, or each of its own heads.

    Ranks that repeat the weights gather (m, l, u) in fp32. Those that share them gather queries first, so that each
    scores the heads of all of them, then the logarithms of sums, and reduce outputs to the owner of each head. Source:
    chapter "Supernodes", section 6.2.4; Bhatia et al., "Helix parallelism", 2025 (arXiv:2507.07120), section 2; vLLM
    0.11, attention/ops/common.py (`cp_lse_ag_out_rs`): entered from general knowledge, to be checked.
    """
    element: Any = model.plain.bits / 8
    mixed: Any = local_elements(operator.values, layouts, "activations") * 1.0
    asked: Any = local_elements(operator.scores, layouts, "activations") * 1.0
    heads: Any = mixed * (_heads(operator) / operator.values.elements)
    ranks = layouts.degree("cp")
    partial = (mixed + heads * _SCALARS) * PARTIAL_BYTES
    alone = partial * ranks
    ways = _shared(layouts)
    parts = {
        "all_gather": (asked * ranks * element, heads * ranks * ranks * PARTIAL_BYTES),
        "reduce_scatter": (mixed * ranks * element,),
    }
    seconds: Any = sum(program_s("ring", name, group, each * rows) for name, sent in parts.items() for each in sent)
    seconds = where(ways > 1, seconds, program_s("ring", "all_gather", group, alone * rows))
    each = where(ways > 1, sum(sum(sent) for sent in parts.values()), alone)
    kind = operator.kind
    assert kind is not None, "attention of no layer"
    return _exchange("merge", operator.name, kind, operator.count, each, seconds, layouts)


def _heads(operator: Operator) -> int:
    return sum(dim.units for dim in operator.scores.dims if dim.role in {"heads", "index_heads"})


def _exchange(  # noqa: PLR0917 - what is exchanged, where, and how long it takes
    operation: Any, after: str, kind: int, count: int, each_bytes: Any, seconds: Any, layouts: Layouts
) -> tuple[Message, Exchange]:
    message = Message(
        operation=operation,
        axis="cp",
        after=after,
        per_row_bytes=each_bytes + np.zeros(len(layouts)),
        count=count,
        kind=kind,
    )
    columns = np.zeros(len(layouts)) + seconds
    return message, formula_exchange(named(columns, f"{operation}_after_{after}_s"), "ring", layouts.degree("cp") - 1)
