"""How large should a supernode be? What a model repeats and spreads, a card and sizes go in; a row a size comes out.

An instance takes all cards of a supernode. Every card has sessions of its own and a copy of attention, shared experts,
embedding and head; routed experts and look-up tables are spread over all cards (attention data parallel, ep = cards).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from meshwright.base.errors import JobError
from meshwright.base.numbers import divide_up
from meshwright.base.units import Bytes, Flops, Seconds
from meshwright.cost.collectives import send_s
from meshwright.cost.roofline import compute_s, read_s, roofline_s
from meshwright.cost.spread_instances import (
    held_bytes,
    reached_count,
    resident_count,
    routed_bytes,
    step_read_bytes,
)
from meshwright.job.serve import check_range
from meshwright.model.feed_forwards import Dense
from meshwright.model.formats import plain_format, weight_format
from meshwright.search.largest import largest
from meshwright.system.system import System
from meshwright.workload.feed_forward import distinct_experts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from meshwright.base.numbers import Bools, Floats, Ints

Shards: TypeAlias = Literal["even", "strict"]
Reads: TypeAlias = Literal["expected", "full"]
Sent: TypeAlias = Literal["copies", "deduplicated"]
Reach: TypeAlias = Literal["domain", "boxes"]
Tables: TypeAlias = Literal["spread", "elsewhere"]
_EXCHANGES: Final = 2
_MOST: Final = 2**60
_MOST_WIDTH: Final = 2**31
_MOST_SIZES: Final = 1000
_FORMATS: Final = ("bf16", "fp16")
LEFT_OUT: Final = (
    "skewed routing: every card gets as many rows as it sends, and reads as many experts as any other",
    "scheduling, first tokens and failures: a step of full batches, one token a session",
    "overlap of exchanges with computation, and of dispatch with combine",
    "between boxes: the links inside a box, which carry what does not leave it",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadModel:
    """What a model of experts asks of an instance.

    replicated_bytes: on every card; looked_up_bytes of them are looked up in and not read through (an embedding).
    expert_bytes: of one routed expert of one layer.   table_bytes: of look-up tables, spread over the cards.
    session_bytes: state of one session.   read_state_bytes, token_flops: that one token of it reads and takes.
    element_bytes: of a row on its way to an expert.
    """

    layers: int
    experts: int
    top_k: int
    hidden: int
    element_bytes: Bytes
    replicated_bytes: Bytes
    looked_up_bytes: Bytes
    expert_bytes: Bytes
    table_bytes: Bytes
    session_bytes: Bytes
    read_state_bytes: Bytes
    token_flops: Flops


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Choices that a study makes; `reach` and `tables` are one for all sizes, or one for each.

    shards: `even` cuts experts to fractions, `strict` gives a card whole ones.   reads: experts that a step reads:
    `expected` of uniform choices (equation 6-8), or all.   sent: a row once an expert, or once a card that holds some.
    reach: all cards in one `domain`, or in `boxes` of devices_per_node, between which every card has its share of the
    NICs; where one box holds them all it is a domain.   tables: `spread` over the cards, or `elsewhere`, where they
    take no memory of a card.
    """

    shards: Shards = "even"
    reads: Reads = "expected"
    sent: Sent = "copies"
    reach: tuple[Reach, ...] = ("domain",)
    tables: tuple[Tables, ...] = ("spread",)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSession:
    """A lone session of the whole instance: its step, and what is read, computed and exchanged in it."""

    ranks: int
    read_bytes: float
    local_s: float
    exchange_s: float
    exchange_fraction: float
    step_s: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRow:
    """One size. Bytes and sessions are of one card; `most` by its memory, `sessions` within the target as well.

    bound: what stops more sessions, `capacity`, `target`, or `nothing fits`.   batch: of the instance.   tokens_per_s:
    of one card.   times_first_*: over the first size of the list; None where either has none.
    """

    ranks: int
    experts_per_rank: float
    weights_bytes: float
    table_bytes: float
    most_sessions: int
    sessions: int
    bound: str
    batch: int
    read_s: float | None
    compute_s: float | None
    local_s: float | None
    exchange_s: float | None
    step_s: float | None
    tokens_per_s: float
    leaving_fraction: float
    times_first_sessions: float | None
    times_first_tokens: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupernodeSizes:
    """The rows in the order of the sizes. best_ranks: most tokens a second and card, the smallest of equals.

    read_weights_bytes: of a card's copy, each step.   routed_experts_bytes: of all layers.   exchanges: dispatch and
    combine of every layer.
    """

    best_ranks: int | None
    replicated_bytes: int
    table_bytes: int
    read_weights_bytes: int
    routed_experts_bytes: int
    exchanges: int
    rows: tuple[SizeRow, ...]
    one_session: tuple[OneSession, ...]
    not_modelled: tuple[str, ...]


def supernode_size(  # noqa: PLR0917 - the nouns, sizes and the two bounds
    model: SpreadModel,
    system: System,
    sizes: tuple[int, ...],
    workspace_bytes: Bytes,
    target_s: Seconds,
    setting: Setting,
) -> SupernodeSizes:
    """Sessions, step and throughput of a card for every size, with as many sessions as memory and target permit.

    A step: reading and computing overlap; each of two exchanges a layer is one message of a round. Raises JOB001
    (sizes), JOB134 (a model that cannot be), SYS005 (no matrix rate). Source: chapter "Supernodes", section 6.7.4,
    equation 6-14.
    """
    _check(model, system, sizes, workspace_bytes, target_s)
    case = _Case(
        model=model,
        system=system,
        setting=setting,
        ranks=np.array(sizes, dtype=np.int64),
        reach=_for_each("reach", setting.reach, len(sizes)),
    )
    spread_tables = _for_each("tables", setting.tables, len(sizes)) == "spread"
    table = np.where(spread_tables, float(model.table_bytes), 0.0)
    spread = case.experts_count * case.ranks * float(model.layers * model.expert_bytes)
    weights: Floats = np.asarray(held_bytes(float(model.replicated_bytes), spread + table, case.ranks))
    most = _resident(system, weights, workspace_bytes, model)
    fits = weights + workspace_bytes <= system.accelerator.memory
    places = np.flatnonzero(most > 0)
    sessions = np.zeros_like(most)
    if len(places):
        sessions[places] = largest(lambda count, rows: case.step_s(count, places[rows]), target_s, most[places])
    rows = _rows(case, weights, table / case.ranks, most, sessions, fits)
    running = [row for row in rows if row.sessions]
    return SupernodeSizes(
        best_ranks=max(running, key=lambda row: (row.tokens_per_s, -row.ranks)).ranks if running else None,
        replicated_bytes=model.replicated_bytes,
        table_bytes=model.table_bytes,
        read_weights_bytes=model.replicated_bytes - model.looked_up_bytes,
        routed_experts_bytes=model.layers * model.experts * model.expert_bytes,
        exchanges=_EXCHANGES * model.layers,
        rows=rows,
        one_session=tuple(_one_session(case, row) for row in range(len(sizes))),
        not_modelled=LEFT_OUT,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Case:
    """A model on cards of one system, by sizes: what a step takes of any number of sessions a card."""

    model: SpreadModel
    system: System
    setting: Setting
    ranks: Ints
    reach: NDArray[np.str_]

    @property
    def experts_count(self) -> Floats:
        """Experts of a layer on one card."""
        if self.setting.shards == "strict":
            return np.asarray(divide_up(np.full(len(self.ranks), self.model.experts), self.ranks), dtype=np.float64)
        return self.model.experts / self.ranks

    @property
    def over_boxes(self) -> Bools:
        """Where exchanges leave boxes."""
        return (self.reach == "boxes") & (self.ranks > self.system.devices_per_node)

    @property
    def leaving_fraction(self) -> Floats:
        """Of what is sent, that goes to other cards, or to other boxes."""
        return 1 - np.where(self.over_boxes, self.system.devices_per_node, 1) / self.ranks

    def local(self, sessions: Any, batch: Any, rows: Any) -> tuple[Floats, Floats]:
        """Bytes that a card reads in a step, and FLOPs."""
        model = self.model
        covered = distinct_experts(model.experts, model.top_k, batch) / model.experts
        covered = covered if self.setting.reads == "expected" else np.ones_like(covered)
        copy = float(model.replicated_bytes - model.looked_up_bytes)
        read = step_read_bytes(copy, model.layers, model.expert_bytes, self.experts_count[rows], covered)
        return read + sessions * float(model.read_state_bytes), sessions * model.token_flops

    def exchange_s(self, sessions: Any, rows: Any) -> Floats:
        """Of all layers; nothing where no row leaves."""
        model, system, far = self.model, self.system, self.over_boxes[rows]
        latency = np.where(far, system.nic_latency, system.scale_up.latency)
        rate = np.where(far, system.nic_bandwidth, system.scale_up.bandwidth)
        copies: Any = model.top_k
        if self.setting.sent == "deduplicated":
            copies = reached_count(model.top_k, self.ranks[rows], model.experts)
        leaving = self.leaving_fraction[rows]
        sent = routed_bytes(sessions, copies, model.hidden, model.element_bytes, leaving)
        return np.where(leaving > 0, send_s(sent, latency, rate), 0.0) * (_EXCHANGES * model.layers)

    def local_s(self, sessions: Any, batch: Any, rows: Any) -> Floats:
        """Reading and computing beside each other."""
        read, flops = self.local(sessions, batch, rows)
        return np.asarray(roofline_s(flops, self.rate, read, self.system.accelerator.memory_bandwidth))

    def step_s(self, sessions: Any, rows: Any) -> Floats:
        """With so many sessions on every card."""
        return self.local_s(sessions, sessions * self.ranks[rows], rows) + self.exchange_s(sessions, rows)

    @property
    def rate(self) -> float:
        """FLOP/s of a card."""
        return self.system.accelerator.peak_for(_FORMATS)[1]


def expert_bytes(hidden: int, intermediate: int, weights: str, plain: str) -> int:
    """Bytes of one routed expert (gate, up and down) in a format of weights, `mxfp4` or what `--weights` takes.

    Raises JOB001 (sizes), MOD codes of formats. Source: chapter "Supernodes", section 6.7.4; formats name their own.
    """
    for name, size in (("hidden", hidden), ("intermediate", intermediate)):
        check_range(name, size, 1, _MOST_WIDTH)
    kept = weight_format(weights, plain_format(plain))
    matrices = Dense(intermediate=intermediate).weights(hidden)
    return sum(int(kept.stored_bytes(tensor.shape)) for tensor in matrices)


def _resident(system: System, weights: Floats, workspace_bytes: int, model: SpreadModel) -> Ints:
    found = resident_count(float(system.accelerator.memory), weights, workspace_bytes, model.session_bytes)
    return np.asarray(found, dtype=np.int64)


def _rows(  # noqa: PLR0917 - the columns of a row
    case: _Case, weights: Floats, table: Floats, most: Ints, sessions: Ints, fits: Any
) -> tuple[SizeRow, ...]:
    every = np.arange(len(case.ranks))
    read, flops = case.local(sessions, sessions * case.ranks, every)
    times: dict[str, Any] = {
        "read_s": read_s(read, case.system.accelerator.memory_bandwidth),
        "compute_s": compute_s(flops, case.rate),
        "local_s": case.local_s(sessions, sessions * case.ranks, every),
        "exchange_s": case.exchange_s(sessions, every),
        "step_s": case.step_s(sessions, every),
    }
    speed = np.where(sessions > 0, sessions / times["step_s"], 0.0)
    return tuple(
        SizeRow(
            ranks=int(case.ranks[row]),
            experts_per_rank=float(case.experts_count[row]),
            weights_bytes=float(weights[row]),
            table_bytes=float(table[row]),
            most_sessions=int(most[row]),
            sessions=int(sessions[row]),
            bound="nothing fits" if not fits[row] else "capacity" if sessions[row] == most[row] else "target",
            batch=int(sessions[row] * case.ranks[row]),
            **{name: float(column[row]) if sessions[row] else None for name, column in times.items()},
            tokens_per_s=float(speed[row]),
            leaving_fraction=float(case.leaving_fraction[row]),
            times_first_sessions=_times(sessions[row], sessions[0]),
            times_first_tokens=_times(speed[row], speed[0]),
        )
        for row in every.tolist()
    )


def _one_session(case: _Case, row: int) -> OneSession:
    """The card whose session it is reads one expert a layer; the others have none of it."""
    rows = np.array([row])
    read, _ = case.local(1, 1, rows)
    local, exchange = case.local_s(1, 1, rows)[0], case.exchange_s(1, rows)[0]
    step = local + exchange
    return OneSession(
        ranks=int(case.ranks[row]),
        read_bytes=float(read[0]) - case.model.read_state_bytes,
        local_s=float(local),
        exchange_s=float(exchange),
        exchange_fraction=float(exchange / step),
        step_s=float(step),
        tokens_per_s=float(1 / step),
    )


def _times(value: Any, first: Any) -> float | None:
    return float(value / first) if first > 0 and value > 0 else None


def _for_each(name: str, values: tuple[str, ...], count: int) -> NDArray[np.str_]:
    """One for all sizes, or one for each. Raises JOB134."""
    if len(values) not in {1, count}:
        raise JobError(134, f"{len(values)} of {name} for {count} sizes", f"give one, or {count}")
    return np.array(values * (1 if len(values) == count else count))


def _check(model: SpreadModel, system: System, sizes: tuple[int, ...], workspace_bytes: int, target_s: float) -> None:
    check_range("sizes", len(sizes), 1, _MOST_SIZES)
    for size in sizes:
        check_range("sizes", size, 1, system.devices)
    check_range("workspace_bytes", workspace_bytes, 0, _MOST)
    counts = (model.layers, model.experts, model.top_k, model.hidden, model.element_bytes, model.expert_bytes)
    amounts = (model.replicated_bytes, model.table_bytes, model.read_state_bytes, model.token_flops)
    wrong = min(counts) < 1 or min(amounts) < 0 or max(*counts, *amounts) > _MOST or model.session_bytes < 1
    if wrong or model.top_k > model.experts or not 0 <= model.looked_up_bytes <= model.replicated_bytes:
        cause = "a model whose experts, bytes or FLOPs cannot be"
        raise JobError(134, cause, "give counts from 1, top_k of the experts, looked_up_bytes of replicated_bytes")
    if target_s <= 0:
        raise JobError(134, f"a target of {target_s:g} s", "give a time above zero")
