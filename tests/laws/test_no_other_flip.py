"""The list of flips is complete: at any value, the plan's own choice is the one that the list says.

Every value is put into the nouns as `--set` and flags would, and planned anew, without the search for flips. The gate
draws a few values of each parameter; the campaign a value in each of 200 parts of the span, and new ones each run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from zlib import crc32

import numpy as np
import pytest

from meshwright.base.parse import get_path
from meshwright.base.result import Result
from meshwright.job.serve import ServeJob
from meshwright.model.reader import read_model
from meshwright.scenarios._engine_pool import EngineOptions
from meshwright.scenarios._serving_flips import SPAN
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.system.system import read_system
from tests.laws.test_flips_and_faults import changed

DENSE, MIXTURE = "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B"
RING, AUTO = ServeOptions(all_reduce="ring"), ServeOptions()
LONG = ServeJob(sessions=4, context=131064, new_tokens=8, deadline=0.13, on_time=0.75)
BATCH = ServeJob(sessions=64, context=8192, new_tokens=256, tpot=0.03)
CASES = {
    "ring, deadline": (DENSE, "hgx-h100", LONG, RING),
    "auto, no deadline": (DENSE, "hgx-h200", ServeJob(sessions=12, context=30_000, new_tokens=4), AUTO),
    "mixture, two boxes": (
        MIXTURE,
        "hgx-h100 x2",
        ServeJob(sessions=8, context=30_000, new_tokens=16, deadline=0.1),
        AUTO,
    ),
    "throughput, two boxes": (
        DENSE,
        "hgx-h100 x2",
        ServeJob(sessions=6, context=60_000, new_tokens=20, deadline=0.4),
        ServeOptions(objective="throughput"),
    ),
    "no": (DENSE, "hgx-h100", replace(LONG, deadline=0.03), RING),
    "batch": (DENSE, "hgx-h100", BATCH, AUTO),
    "batch, in flight": (
        DENSE,
        "hgx-h100",
        replace(BATCH, ttft=2.0, concurrency=40),
        ServeOptions(objective="latency"),
    ),
    "batch, prompts": (DENSE, "hgx-h100", replace(BATCH, ttft=2.0), ServeOptions(prefill="between_steps")),
    "batch, mixture, two boxes": (MIXTURE, "hgx-h100 x2", BATCH, AUTO),
    "latent, copies of attention": (
        "deepseek-ai/DeepSeek-V2-Lite",
        "hgx-h100",
        BATCH,
        ServeOptions(attention="any", dedup="none"),
    ),
    "recurrent, over cp": (
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        "hgx-h100",
        ServeJob(sessions=8, context=120_000, new_tokens=16),
        ServeOptions(cp=(1, 2, 4)),
    ),
    "windows, an engine's pool": (
        "openai/gpt-oss-120b",
        "hgx-h100",
        replace(BATCH, context=30_000),
        ServeOptions(engine=EngineOptions(name="vllm")),
    ),
}
IN_GATE = [case for case in CASES if case != "batch, mixture, two boxes"]
IN_CAMPAIGN = [case for case in CASES if case not in {"batch, in flight", "batch, prompts"}]
COUNTS = {"sessions", "context", "concurrency", "system.accelerator.memory"}
SEARCHED = [
    "deadline",
    "tpot",
    "ttft",
    "sessions",
    "concurrency",
    "context",
    "all-reduce-time",
    "system.accelerator.memory",
    "system.accelerator.memory_bandwidth",
    "system.scale_up.latency",
    "system.scale_up.bandwidth",
    "system.scale_out.latency",
    "system.scale_out.bandwidth",
]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One parameter of one case: its flips by value, a value that has none beside it, and the ends of its span."""

    case: str
    parameter: str
    flips: list[dict]
    now: float
    low: float
    high: float

    def expected(self, value: float) -> str | None:
        """What the list says is chosen at a value."""
        below = [flip["to"] for flip in self.flips if flip["value"] <= value]
        return below[-1] if below else self.flips[0]["from"] if self.flips else self.chosen(self.now)

    def chosen(self, value: float) -> str | None:
        """What a plan of its own chooses there."""
        model, on, job, options = CASES[self.case]
        return _answer(model, *changed(read_system(on), job, options, self.parameter, value))

    def spread(self, count: int, draw: np.random.Generator) -> list[float]:
        """One value in each of `count` parts of the span, evenly in its logarithm; whole ones once each."""
        edges = np.linspace(np.log(self.low), np.log(self.high), count + 1)
        values = np.exp(draw.uniform(edges[:-1], edges[1:]))
        if self.parameter in COUNTS:
            return [int(value) for value in np.unique(np.clip(np.round(values), self.low, self.high))]
        return values.tolist()

    def sides(self, at: int) -> dict[float, str | None]:
        """Both sides of a flip: 0.1 % beside it, or half-way to its neighbour; whole numbers before and at it."""
        value = self.flips[at]["value"]
        if self.parameter in COUNTS:
            return {value - 1: self.flips[at]["from"], value: self.flips[at]["to"]}
        before = [(flip["value"] + value) / 2 for flip in self.flips[:at][-1:]]
        after = [(flip["value"] + value) / 2 for flip in self.flips[at + 1 : at + 2]]
        return {
            max(value * 0.999, *before, 0.0): self.flips[at]["from"],
            min(value * 1.001, *after, np.inf): self.flips[at]["to"],
        }


def _answer(model, on, job, options) -> str | None:
    result = plan_serve(read_model(model), on, job, replace(options, flips="none"))
    return result.best.id if result.verdict.answer == "yes" else None


@cache
def _planned(case: str) -> Result:
    model, on, job, options = CASES[case]
    return plan_serve(read_model(model), read_system(on), job, options)


def _searched(case: str, parameter: str) -> bool:
    """Whether a plan lists flips of a parameter in a case: of what it states, and of links that it has."""
    _, on, job, options = CASES[case]
    if parameter.startswith("system.scale_out"):
        return read_system(on).nodes > 1
    if parameter.startswith("system.") or parameter == "all-reduce-time":
        return True
    if parameter == "sessions":
        return job.concurrency is None
    if parameter == "context":
        return job.ttft is None and options.prefill == "cached"
    return getattr(job, parameter) is not None


def asked_of(case: str, parameter: str) -> Asked:
    """The list of a parameter, and its span: a factor on both sides of its value, within what a job may ask."""
    _, on, job, _ = CASES[case]
    result = _planned(case)
    if parameter == "all-reduce-time":
        groups = [group for item in result.candidates for group in item.measures["groups"]]
        now = float(np.median([group["time_s"] for group in groups if group["operation"] == "all_reduce"]))
    elif parameter.startswith("system."):
        now = float(get_path(read_system(on), parameter.removeprefix("system.")))
    else:
        now = getattr(job, parameter)
    low, high = now / SPAN, now * SPAN
    if parameter in COUNTS:
        low, high = max(1, np.ceil(low)), min(np.floor(high), job.sessions if parameter == "concurrency" else np.inf)
    return Asked(
        case=case,
        parameter=parameter,
        flips=[dict(flip) for flip in result.flips if flip["parameter"] == parameter],
        now=now,
        low=low,
        high=high,
    )


def _wrong(asked: Asked, values: dict[float, str | None]) -> dict[float, tuple[str | None, str | None]]:
    """Values at which a plan chooses something else: what was expected, and what it chose."""
    found = {value: (expected, asked.chosen(value)) for value, expected in values.items()}
    return {value: pair for value, pair in found.items() if pair[0] != pair[1]}


ALL = [(case, name) for case in CASES for name in SEARCHED if _searched(case, name)]


@pytest.mark.parametrize(("case", "parameter"), [pair for pair in ALL if pair[0] in IN_GATE])
def test_a_plan_chooses_what_the_list_of_flips_says(case, parameter):
    asked, draw = asked_of(case, parameter), np.random.default_rng(crc32(f"{case}, {parameter}".encode()))
    for first, second in pairwise(asked.flips):
        assert first["to"] == second["from"]
    values = {value: asked.expected(value) for value in asked.spread(3, draw)}
    for at in draw.permutation(len(asked.flips))[:1].tolist():
        values |= asked.sides(at)
    assert not _wrong(asked, values)


@pytest.mark.campaign
@pytest.mark.parametrize(("case", "parameter"), [pair for pair in ALL if pair[0] in IN_CAMPAIGN])
def test_no_value_of_a_parameter_has_a_flip_that_is_not_listed(case, parameter, record_property):
    asked, draw = asked_of(case, parameter), np.random.default_rng()
    grid = {value: asked.expected(value) for value in asked.spread(200, draw)}
    beside = {}
    for at in range(len(asked.flips)):
        beside |= asked.sides(at)
    missed, broken = _wrong(asked, grid), _wrong(asked, beside)
    record_property("cases", len(grid) + len(beside))
    for name, count in (
        ("parameters", 1),
        ("values", len(grid)),
        ("flips replayed", len(asked.flips)),
        ("flips missed", len(missed)),
    ):
        record_property(name, count)
    assert not missed
    assert not broken


def test_flips_are_listed_of_every_parameter_that_the_page_names():
    listed = {flip["parameter"] for case in IN_GATE for flip in _planned(case).flips}
    assert listed >= set(SEARCHED) - {"concurrency", "system.scale_out.latency", "system.scale_out.bandwidth"}
