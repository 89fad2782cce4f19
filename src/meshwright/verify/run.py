"""A checked setting goes in; it is run on real processes of this machine, and what was predicted stands beside it.

Predictions come from the planner's tables; where a run differs by design, the difference is a term with a reason.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from meshwright.base.result import Basis, Result, Verdict
from meshwright.base.units import Seconds
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.layout import fields_of
from meshwright.layout.mesh import coordinates, rank_of
from meshwright.runtime.job import RunOptions
from meshwright.runtime.launch.member import Member
from meshwright.runtime.launch.supervisor import launch
from meshwright.runtime.loop.samples import SyntheticTokens
from meshwright.runtime.loop.trainer import Batch, Recipe, trainer_of
from meshwright.runtime.state.weights import made_up
from meshwright.runtime.tape.tape import taped
from meshwright.runtime.train import crew_of, precision_of
from meshwright.runtime.world import join
from meshwright.verify.expected_flops import hardware_flops, model_flops
from meshwright.verify.expected_memory import resident
from meshwright.verify.expected_peak import peak
from meshwright.verify.expected_traffic import traffic
from meshwright.verify.local.runs import RealRun
from meshwright.verify.predict import predicted
from meshwright.verify.terms import LEDGER, Term, total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meshwright.model.arithmetic import Arithmetic
    from meshwright.runtime.tape.record import Record
    from meshwright.verify.local.calibration import LocalCalibration
    from meshwright.verify.predict import Predicted
    from meshwright.verify.setting import Setting

Quantity: TypeAlias = Literal["resident", "peak", "traffic", "flops"]
PEAK_WITHIN: Final = 0.10
_RESIDENT: Final = (("parameters", "left"), ("optimizer_state", "left"), ("gradients", "held"))
NO_TIME: Final = "a step time is predicted from rates measured on this machine: --calibration FILE.calibration.toml"
NO_RATES: Final = "calibrate local measures float32: no step in another format is predicted"
NOT_MODELLED: Final = (
    "peak: what a kernel takes and gives back inside, what gloo holds, and what an allocator adds",
    "peak: a first gradient beside the sum that it is added to, and temporaries of the update",
    "traffic: bytes that gloo really sends are a formula of the collective that runs, not counted on the wire",
    "step time and bubble decide no verdict: they depend on what else a machine does",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number of one pipeline rank. planned: what the plan alone says; None where it says nothing.

    predicted: the sum of `terms`.   error: predicted / measured - 1; None where nothing was measured.   within: what it
    may be, 0 for a number that is to be exact.
    """

    rank: int
    quantity: Quantity
    name: str
    unit: str
    planned: int | None
    predicted: int
    measured: int
    error: float | None
    within: float
    holds: bool
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Of one rank: its tape, and seconds of every step before it."""

    record: Record
    steps_s: tuple[float, ...]


def verify_run(
    setting: Setting, arithmetic: Arithmetic, *, timeout_s: float = 300.0, rates: LocalCalibration | None = None
) -> Result:
    """Run a setting and compare. timeout_s: the longest a rank may stand.   rates: of this machine, None for none.

    Raises RUN010 and RUN011 for a rank, RUN035 and RUN036 for rates that say nothing of the layout.

    The verdict is yes where state, traffic and FLOPs are exactly as predicted, and every peak is within `PEAK_WITHIN`.
    """
    foreseen = _foreseen(setting, arithmetic, rates)
    return compared(setting, measure(setting, arithmetic, timeout_s=timeout_s), foreseen)


def measure(setting: Setting, arithmetic: Arithmetic, *, timeout_s: float = 300.0) -> list[Measured]:
    """Of every rank."""
    crew = crew_of(setting.layout, RunOptions(timeout=Seconds(timeout_s)))
    return list(launch(_rank, (setting, arithmetic), crew, _quietly))


def _quietly(_: object) -> None:
    """Nothing is told meanwhile."""


def compared(setting: Setting, measured: Sequence[Measured], foreseen: Predicted | str = NO_TIME) -> Result:
    """The answer: of every stage and number the rank that has most of it, and what was alive at its origin's peak."""
    rows: list[Row] = []
    alive: list[dict[str, Any]] = []
    sent: list[dict[str, Any]] = []
    for stage in range(setting.layout.pp):
        rows += _fullest(setting, stage, measured)
        rank = _origin(setting, stage)
        record = measured[rank].record
        alive += (
            {"rank": rank, "phase": record.peak_phase, "category": name, "bytes": size}
            for name, size in sorted(record.peak.items(), key=lambda item: -item[1])
        )
        sent += ({"rank": rank, **asdict(item)} for item in record.traffic)
    wrong = [row for row in rows if not row.holds]
    worst = max(abs(row.error or 0.0) for row in rows if row.quantity == "peak")
    exact = sum(row.within == 0 for row in rows)
    text = f"{exact} numbers of state, traffic and FLOPs as predicted, peaks within {worst:.1%}"
    if wrong:
        named = ", ".join(f"{row.quantity} {row.name} of rank {row.rank}" for row in wrong[:3])
        text = f"{len(wrong)} of {len(rows)} numbers not as predicted: {named}"
    return Result(
        command="verify run",
        verdict=Verdict(answer="no" if wrong else "yes", text=text),
        inputs=inputs_of(setting),
        not_modelled=NOT_MODELLED,
        basis=_BASIS,
        body={
            "rows": tuple(rows),
            "peak_alive": tuple(alive),
            "traffic": tuple(sent),
            "model_flops": tuple(model_flops(setting, stage) for stage in range(setting.layout.pp)),
            "times": _times(setting, measured, foreseen),
        },
    )


def _fullest(setting: Setting, stage: int, measured: Sequence[Measured]) -> list[Row]:
    """Of each number the row of the rank of the stage that has most of it, the first of several."""
    found: dict[tuple[Quantity, str], Row] = {}
    for rank, item in enumerate(measured):
        if coordinates(setting.layout, rank, PIPELINE_OUTSIDE)["pp"] != stage:
            continue
        for row in rows_of(setting, stage, rank, item.record):
            key = (row.quantity, row.name)
            if key not in found or row.measured > found[key].measured:
                found[key] = row
    return list(found.values())


def rows_of(setting: Setting, stage: int, rank: int, record: Record) -> list[Row]:
    """Of one pipeline rank."""
    state = resident(setting, stage)
    rows = [
        _row(rank, "resident", name, "B", state[name], getattr(record, when).get(name, 0)) for name, when in _RESIDENT
    ]
    fullest = peak(setting, stage)
    top = _row(rank, "peak", "all", "B", fullest.terms, record.peak_bytes)
    error = top.error or 0.0
    rows.append(replace(top, planned=fullest.planned_bytes, within=PEAK_WITHIN, holds=abs(error) <= PEAK_WITHIN))
    expected, found = traffic(setting, stage), _by_group(record)
    rows += (
        _row(rank, "traffic", " over ".join(key), "B", expected.get(key, ()), found.get(key, 0))
        for key in sorted({*expected, *found})
    )
    rows.append(_row(rank, "flops", "hardware", "FLOP", hardware_flops(setting, stage), record.total_flops))
    return rows


def _row(  # noqa: PLR0917 - the columns, in their order
    rank: int, quantity: Quantity, name: str, unit: str, terms: Sequence[Term], measured: int
) -> Row:
    """A number that is to be exact."""
    own = [term.value for term in terms if term.name == LEDGER]
    predicted = total(terms)
    return Row(
        rank=rank,
        quantity=quantity,
        name=name,
        unit=unit,
        planned=sum(own) if own else None,
        predicted=predicted,
        measured=measured,
        error=predicted / measured - 1 if measured else None,
        within=0.0,
        holds=predicted == measured,
        terms=_merged(terms),
    )


def _merged(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Terms of one name added up."""
    values: defaultdict[tuple[str, str], int] = defaultdict(int)
    for term in terms:
        values[term.name, term.reason] += term.value
    return tuple(Term(name=name, value=value, reason=reason) for (name, reason), value in values.items() if value)


def _by_group(record: Record) -> Mapping[tuple[str, str], int]:
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for item in record.traffic:
        found[item.collective, item.axis] += item.message_bytes
    return found


def _origin(setting: Setting, stage: int) -> int:
    return rank_of(setting.layout, {**dict.fromkeys(PIPELINE_OUTSIDE, 0), "pp": stage}, PIPELINE_OUTSIDE)


def _foreseen(setting: Setting, arithmetic: Arithmetic, rates: LocalCalibration | None) -> Predicted | str:
    """The step that the rates of this machine give, or why there is none."""
    if rates is None:
        return NO_TIME
    if setting.recipe.compute != "fp32":
        return NO_RATES
    batch = Batch(global_batch=setting.global_batch, sequence=setting.sequence)
    run = RealRun(model=setting.model, arithmetic=arithmetic, layout=setting.layout, batch=batch)
    return predicted(rates, run)


def _times(setting: Setting, measured: Sequence[Measured], foreseen: Predicted | str) -> dict[str, Any]:
    """Of steps without a tape, the slowest rank's; and of the recorded one, the share that no slot ran.

    What is foreseen of the latter is the bubble's share of a step without its update.
    """
    steps = [statistics.median(item.steps_s) for item in measured]
    records = [measured[_origin(setting, stage)].record for stage in range(setting.layout.pp)]
    waits = [1 - record.slots_s / record.run_s for record in records]
    return {
        "step_s": max(steps),
        "idle_fraction": tuple(waits),
        **_told(foreseen),
    }


def _told(foreseen: Predicted | str) -> dict[str, Any]:
    names = ("predicted_step_s", "predicted_low_s", "predicted_high_s", "predicted_bubble_fraction")
    if isinstance(foreseen, str):
        return {**dict.fromkeys(names), "reason": foreseen}
    bubble = foreseen.bubble_s / (foreseen.median_s - foreseen.update_s)
    values = (foreseen.median_s, foreseen.low_s, foreseen.high_s, bubble)
    return {**dict(zip(names, values, strict=True)), "reason": None}


def inputs_of(setting: Setting) -> dict[str, Any]:
    """The nouns of an answer about a setting."""
    options = {
        "recipe": setting.recipe,
        "global_batch": setting.global_batch,
        "sequence": setting.sequence,
        "steps": setting.steps,
        "seed": setting.seed,
    }
    return {
        "model": setting.model,
        "system": None,
        "job": None,
        "layout": fields_of(setting.layout),
        "options": options,
    }


_BASIS: Final = {
    "rows[].planned": Basis.FORMULA,
    "rows[].predicted": Basis.FORMULA,
    "rows[].measured": Basis.MEASURED,
    "peak_alive[].bytes": Basis.MEASURED,
    "traffic[].message_bytes": Basis.MEASURED,
    "traffic[].sent_bytes": Basis.FORMULA,
    "traffic[].backend_bytes": Basis.FORMULA,
    "model_flops": Basis.FORMULA,
    "times.step_s": Basis.MEASURED,
    "times.idle_fraction": Basis.MEASURED,
}


def _rank(member: Member, given: tuple[Setting, Arithmetic]) -> Measured:
    """One rank: steps that are timed, then one that is recorded."""
    setting, arithmetic = given
    batch = Batch(global_batch=setting.global_batch, sequence=setting.sequence)
    world = join(setting.layout, member.rank, member.device)
    values, recipe = made_up(setting.model, setting.seed), Recipe(precision=precision_of(setting.recipe))
    trainer = trainer_of(setting.model, arithmetic, world, setting.slots, batch, recipe, values)
    data = SyntheticTokens(seed=setting.seed, vocab=setting.model.vocab, sequence=setting.sequence, ragged=True)
    took: list[float] = []
    for number in range(setting.steps):
        began = time.perf_counter()
        trainer.step(number, data.sample)
        took.append(time.perf_counter() - began)
    trainer, tape = taped(trainer)
    trainer.step(setting.steps, data.sample)
    return Measured(record=tape.record(), steps_s=tuple(took))
