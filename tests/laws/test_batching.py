"""Laws of a batch: what is read once and what a session adds, the batch that memory and time let in, and the front."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, product
from math import isclose

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from meshwright.base.errors import MeshwrightError
from meshwright.base.result import as_json
from meshwright.cost.batching import busy_s, interval_s
from meshwright.cost.estimate import Assumptions, estimate_step, state_bytes, weight_bytes
from meshwright.cost.memory import serving_ledger
from meshwright.cost.stages import slowest_stage_s
from meshwright.job.faults import read_fault
from meshwright.job.serve import ServeJob, checked
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.model import Model
from meshwright.model.reader import read_model
from meshwright.scenarios._serving_batches import batch_table, prompt_of, run
from meshwright.scenarios._serving_pareto import GOALS, pareto, points
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.search.largest import largest
from meshwright.search.pareto import front
from meshwright.system.system import System, read_system
from meshwright.workload.batches import decode
from meshwright.workload.feed_forward import busiest_share, distinct_experts, expert_load
from tests.laws.strategies import layouts, models
from tests.laws.test_flips_and_faults import changed

SYSTEM = read_system("hgx-h100 x4")
BOX = read_system("hgx-h100")
JOB = ServeJob(sessions=64, context=40, new_tokens=8, discipline="continuous")
EXPERTS = [(4, 1, 2), (4, 2, 2), (4, 2, 4), (6, 2, 2), (6, 2, 3), (6, 3, 1)]


def running(model, rows, batch, job=JOB, options=None):
    chosen = ServeOptions() if options is None else options
    prompt = prompt_of(model, SYSTEM, job, chosen, rows)
    return run(model, SYSTEM, job, chosen, rows, prompt, np.broadcast_to(np.asarray(batch), len(rows)))


@settings(max_examples=30)
@given(data=st.data())
def test_a_batch_of_one_is_the_step_of_one_session_to_the_bit(data):
    model = data.draw(models())
    rows = table([data.draw(layouts(model, serving=True)) for _ in range(4)])
    alone = estimate_step(model, SYSTEM, rows, decode(JOB.context, JOB.new_tokens), Assumptions())
    assert running(model, rows, 1).tpot_s.tolist() == alone.total_s.tolist()


@settings(max_examples=30)
@given(
    data=st.data(),
    few=st.integers(1, 300),
    more=st.integers(1, 300),
    prefill=st.sampled_from(["cached", "between_steps"]),
)
def test_a_larger_batch_is_never_faster_for_a_user(data, few, more, prefill):
    model, options = data.draw(models()), ServeOptions(prefill=prefill)
    rows = table([data.draw(layouts(model, serving=True)) for _ in range(4)])
    small, large = (running(model, rows, size, options=options).tpot_s for size in (few, few + more))
    assert (large >= small * (1 - 1e-12)).all()


@settings(max_examples=30)
@given(data=st.data(), prefill=st.sampled_from(["cached", "between_steps"]))
def test_a_column_of_batches_gives_what_each_gives_alone(data, prefill):
    model, options = data.draw(models()), ServeOptions(prefill=prefill)
    rows = table([data.draw(layouts(model, serving=True)) for _ in range(5)])
    batch = [data.draw(st.integers(1, 200)) for _ in range(5)]
    whole = running(model, rows, batch, options=options)
    alone = [running(model, rows.take([row]), batch[row], options=options) for row in range(5)]
    for name in ("tpot_s", "turn_s", "mixed_turn_s"):
        assert getattr(whole, name).tolist() == [getattr(one, name)[0] for one in alone]


@settings(max_examples=30)
@given(data=st.data(), sessions=st.integers(1, 500))
def test_weights_are_read_once_a_step_and_the_cache_of_every_session(data, sessions):
    model = data.draw(models().filter(lambda found: all(not hasattr(b.feed_forward, "experts") for b in found.kinds)))
    rows = table([data.draw(layouts(model, serving=True))])
    one, many = (
        estimate_step(model, SYSTEM, rows, decode(30, 3, np.array([count])), Assumptions()) for count in (1, sessions)
    )
    assert weight_bytes(many).tolist() == weight_bytes(one).tolist()
    assert isclose(state_bytes(many)[0], state_bytes(one)[0] * sessions, rel_tol=1e-12)


def test_dealt_sessions_are_worked_on_by_their_own_copy_of_attention_and_by_all_experts():
    model = read_model("Qwen/Qwen3-235B-A22B")
    dealt = Layout(dp_shard=4, ep=4, attention="data_parallel")
    batch = decode(100, 1, np.array([10]))
    steps = [estimate_step(model, SYSTEM, table([row]), batch, Assumptions()) for row in (Layout(), dealt)]
    (whole, part) = ({item.operator.name: item for item in step.work} for step in steps)
    attention, head = "attention", "lm_head"
    assert part[attention].state_bytes[0] == whole[attention].state_bytes[0] * 3 / 10
    assert isclose(part[head].flops[0], whole[head].flops[0] * 3 / 10)
    routed = next(name for name, item in whole.items() if item.operator.rows == "routed")
    assert part[routed].flops[0] > whole[routed].flops[0] / 4


@pytest.mark.parametrize(("experts", "top_k", "groups"), EXPERTS)
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_busiest_group_is_bounded_from_below_by_enumeration(experts, top_k, groups, rows):
    chosen = list(combinations(range(experts), top_k))
    size = experts // groups
    reads, visits = [], []
    for routing in product(chosen, repeat=rows):
        groups_of = [[expert // size for expert in set().union(*routing)], [e // size for row in routing for e in row]]
        reads.append(max(groups_of[0].count(group) for group in range(groups)))
        visits.append(max(groups_of[1].count(group) for group in range(groups)))
    read, visited = (float(item[0]) for item in load(experts, top_k, groups, rows))
    assert distinct_experts(experts, top_k, rows) / groups <= read * (1 + 1e-12)
    assert read <= np.mean(reads) * (1 + 1e-12)
    assert rows * top_k / groups <= visited * (1 + 1e-12)
    assert visited <= np.mean(visits) * (1 + 1e-12)
    if rows == 1 or groups == 1:
        assert isclose(read, np.mean(reads), rel_tol=1e-12)
        assert isclose(visited, np.mean(visits), rel_tol=1e-12)


def load(experts, top_k, groups, rows, reads="expected"):
    return expert_load(experts, top_k, np.array([groups]), np.array([float(rows)]), reads)


@given(st.sampled_from([(128, 8), (8, 2), (256, 8), (16, 1)]), st.sampled_from([1, 2, 4, 8]), st.integers(1, 5000))
def test_experts_read_rise_from_what_one_row_reads_to_all_of_a_group(sizes, groups, rows):
    experts, top_k = sizes
    few, more = (float(load(experts, top_k, groups, count)[0][0]) for count in (rows, rows + 1))
    assert float(load(experts, top_k, groups, 1)[0][0]) == busiest_share(experts, top_k, groups)
    assert few <= more <= experts / groups
    assert isclose(float(load(experts, top_k, groups, 10**6)[0][0]), experts / groups)
    assert float(load(experts, top_k, groups, rows, "full")[0][0]) == experts / groups
    if groups == 1:
        assert isclose(few, distinct_experts(experts, top_k, rows), rel_tol=1e-12)


@given(rows=st.integers(1, 300), wanted=st.integers(8, 128))
def test_a_given_number_of_experts_is_read_as_far_as_the_rows_can(rows, wanted):
    assert isclose(float(load(128, 8, 1, rows, float(wanted))[0][0]), min(wanted, 8 * rows), rel_tol=1e-12)


@given(st.lists(st.integers(1, 9), min_size=6, max_size=6), st.sampled_from([1, 2, 3, 6]), st.integers(1, 40))
def test_given_choices_are_read_expert_by_expert(choices, groups, rows):
    reads = tuple(float(count) for count in choices)
    picked = [2 * count / sum(choices) for count in choices]
    if max(picked) > 1:
        return
    size = 6 // groups
    each = [[1 - (1 - share) ** rows for share in picked[start : start + size]] for start in range(0, 6, size)]
    read, visits = load(6, 2, groups, rows, reads)
    assert isclose(float(read[0]), max(*(sum(group) for group in each), -(-2 // groups)), rel_tol=1e-12)
    busiest = max(sum(picked[start : start + size]) for start in range(0, 6, size)) * rows
    assert isclose(float(visits[0]), max(busiest, float(read[0])), rel_tol=1e-12)


def test_even_choices_are_the_expectation_and_hot_ones_in_one_group_are_not():
    even, hot = (1.0,) * 128, (8.0,) * 16 + (0.0,) * 112
    expected, stated = (load(128, 8, 1, 64, reads) for reads in ("expected", even))
    assert isclose(float(expected[0][0]), float(stated[0][0]), rel_tol=1e-12)
    read, visits = load(128, 8, 4, 64, hot)
    assert (round(float(read[0]), 6), float(visits[0])) == (16.0, 512.0)


@given(
    speeds=st.lists(st.integers(1, 9), min_size=2, max_size=5),
    count=st.integers(2, 5),
    large_count=st.integers(1, 5),
    small=st.sampled_from([0.3, 0.7, 1.0]),
)
def test_the_interval_of_a_pipeline_is_that_of_a_replay(speeds, count, large_count, small):
    """Micro-batches through stages, one at a time each, a round after the last: played until it is steady."""
    count = min(count, len(speeds))
    large_count = min(large_count, count)
    sizes = [1.0] * large_count + [small] * (count - large_count)
    free, done, ends = [0.0] * len(speeds), [0.0] * count, []
    for _ in range(200):
        for job, size in enumerate(sizes):
            clock = done[job]
            for stage, speed in enumerate(speeds):
                clock = max(clock, free[stage]) + speed * size
                free[stage] = clock
            done[job] = clock
        ends.append(done[0])
    steady = (ends[-1] - ends[99]) / 100
    chain, slowest = np.array([float(sum(speeds))]), float(max(speeds))
    busy = busy_s(chain, slowest, slowest * small, large_count, np.array([count]))
    assert isclose(float(interval_s(chain, busy)[0]), steady, rel_tol=1e-6)


@settings(max_examples=20)
@given(data=st.data())
def test_stages_together_take_what_the_step_takes_without_its_boundaries(data):
    model = data.draw(models())
    rows = table([data.draw(layouts(model, serving=True))])
    step = estimate_step(model, SYSTEM, rows, decode(20, 2), Assumptions())
    slowest, stages = float(slowest_stage_s(model, rows, step)[0]), int(rows.degree("pp")[0])
    sent = sum(float(item.seconds[0]) * (stages - 1) for message, item in step.exchanges if message.boundary)
    whole = float(step.total_s[0]) - sent
    assert whole / stages * (1 - 1e-9) <= slowest <= whole * (1 + 1e-9)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B"])
def test_the_batch_is_the_largest_that_memory_and_tpot_let_in(name):
    model = read_model(name)
    job = checked(ServeJob(sessions=10_000, context=8192, new_tokens=256, tpot=0.024))
    found = batch_table(model, BOX, job, ServeOptions())
    assert {"capacity", "tpot"} <= set(found.limited_by)
    for row in np.flatnonzero(found.eligible).tolist():
        own, batch = found.space.layouts.take([row]), found.running.batch[[row]]
        more = running(model, own, batch + 1, job)
        held = [
            int(
                serving_ledger(
                    model,
                    own,
                    sessions=batch + extra,
                    tokens=job.last_position,
                    workspace_bytes=2 * 2**30,
                    capacity_bytes=0,
                ).total[0]
            )
            for extra in (0, 1)
        ]
        assert held[0] <= BOX.accelerator.memory
        assert found.running.tpot_s[row] <= job.tpot
        if found.limited_by[row] == "capacity":
            assert held[1] > BOX.accelerator.memory
        else:
            assert more.tpot_s[0] > job.tpot


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 3)), max_size=30), st.integers(1, 3))
def test_the_front_is_that_of_brute_force(rows, goals):
    rows = [row[:goals] for row in rows]
    beaten = [
        any(
            all(a >= b for a, b in zip(other, row, strict=True)) and (other != row or place < own)
            for place, other in enumerate(rows)
        )
        for own, row in enumerate(rows)
    ]
    columns = [np.array([float(row[goal]) for row in rows]) for goal in range(goals)]
    assert sorted(front(columns).tolist()) == [row for row, lost in enumerate(beaten) if not lost]


def test_a_row_without_a_number_is_on_no_front():
    assert front([np.array([1.0, np.nan]), np.array([1.0, 5.0])]).tolist() == [0]


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(-3, 6000)), max_size=12),
    st.sampled_from([lambda number: number, np.sqrt, np.square, lambda number: np.floor(number / 7), np.exp2]),
)
def test_the_largest_number_within_a_bound_is_found_for_every_row(pairs, rise):
    most = np.array([pair[0] for pair in pairs], dtype=np.int64)
    limit = np.array([pair[1] for pair in pairs], dtype=np.float64)
    asked = []

    def value(numbers, rows):
        asked.append(rows.tolist())
        assert ((numbers >= 1) & (numbers <= most[rows])).all()
        with np.errstate(over="ignore"):
            return rise(numbers.astype(np.float64)) + rows * 0.0

    with np.errstate(over="ignore"):
        expected = [sum(rise(float(number)) <= pair[1] for number in range(1, pair[0] + 1)) for pair in pairs]
    assert largest(value, limit, most).tolist() == expected
    assert len(asked) <= 45


def test_a_value_that_rises_in_a_line_is_met_at_once():
    asked = []

    def value(numbers, rows):
        asked.append(len(rows))
        return 3.0 + 0.25 * numbers

    assert largest(value, 128.1, np.array([10_000])).tolist() == [500]
    assert len(asked) <= 5


@pytest.mark.parametrize(
    "options", [ServeOptions(), ServeOptions(prefill="between_steps"), ServeOptions(all_reduce="tree")]
)
def test_the_pareto_front_is_what_no_other_point_beats(options):
    model = read_model("Qwen/Qwen3-30B-A3B")
    job = checked(ServeJob(sessions=64, context=8192, new_tokens=256, tpot=0.02))
    found = batch_table(model, BOX, job, options)
    every = points(model, BOX, job, options, found)
    pairs = list(zip(*(every[goal].tolist() for goal in GOALS), strict=True))
    shown = pareto(model, BOX, job, options, found)
    best = {pair for pair in pairs if not any(o[0] >= pair[0] and o[1] >= pair[1] and o != pair for o in pairs)}
    assert {tuple(point[goal] for goal in GOALS) for point in shown} == best
    users = [point["tokens_per_s_per_user"] for point in shown]
    assert users == sorted(users, reverse=True)
    assert all((point["tpot_s"] > job.tpot) == ("tpot" in point["breaks"]) for point in shown)
    full = [point for point in shown if point["limited_by"] == "capacity"]
    assert full
    capacity = {layout.id: int(room) for layout, room in zip(found.space.rows, found.capacity, strict=True)}
    assert all(point["batch"] <= capacity[point["id"]] for point in shown)
    assert all(point["batch"] == capacity[point["id"]] for point in full)


@pytest.mark.parametrize("objective", ["cost", "throughput", "latency"])
@pytest.mark.parametrize("concurrency", [None, 48])
def test_the_best_batch_is_the_best_of_what_keeps_the_bounds(objective, concurrency):
    job = ServeJob(sessions=64, context=8192, new_tokens=256, tpot=0.02, ttft=0.5, concurrency=concurrency)
    result = plan_serve(read_model("Qwen/Qwen3-32B"), BOX, job, ServeOptions(objective=objective, flips="none"))
    kept = [item.measures for item in result.candidates if item.excluded is None]
    assert kept
    assert all(item["tpot_s"] <= job.tpot and item["ttft_s"] <= job.ttft for item in kept)
    best = result.best.measures
    if objective == "latency":
        assert (-best["in_flight"], best["tpot_s"]) == min((-item["in_flight"], item["tpot_s"]) for item in kept)
    else:
        assert best["tokens_per_s"] == max(item["tokens_per_s"] for item in kept)
    for item in result.candidates:
        own = item.measures
        if own["batch"] is not None:
            assert own["tokens_per_s_per_gpu"] * 8 == pytest.approx(own["tokens_per_s"])
            assert own["tokens_per_s"] == pytest.approx(own["in_flight"] / own["tpot_s"])


@pytest.mark.parametrize("bound", ["tpot", "ttft", "concurrency"])
def test_what_is_named_as_nearest_is_in(bound):
    model, tight = read_model("Qwen/Qwen3-32B"), {"tpot": 0.004, "ttft": 0.01, "concurrency": 64}[bound]
    job = ServeJob(sessions=64, context=32768, new_tokens=64, **{bound: tight})
    out = [
        item for item in plan_serve(model, BOX, job, ServeOptions(flips="none")).candidates if item.excluded is not None
    ]
    named = [item for item in out if (item.excluded.nearest or "").startswith(f"{bound}=")]
    assert named
    for item in named[:3]:
        value = item.excluded.nearest.removeprefix(f"{bound}=").removesuffix("s")
        eased = replace(job, **{bound: int(value) if bound == "concurrency" else float(value)})
        fixed = {key: item.layout[key] for key in ("tp", "pp", "ep", "etp")}
        assert plan_serve(model, BOX, eased, ServeOptions(layout=fixed, flips="none")).verdict.answer == "yes"
        beyond = int(value) + int(item.layout["replicas"]) if bound == "concurrency" else float(value) * 0.999
        if bound != "concurrency" or beyond <= job.sessions:
            tightened = replace(job, **{bound: beyond})
            assert plan_serve(model, BOX, tightened, ServeOptions(layout=fixed, flips="none")).verdict.answer == "no"


def test_prompts_between_steps_cost_what_a_replay_of_one_replica_costs():
    """A full batch that is steady: each session decodes its tokens, then makes way for a prompt and a new session."""
    model, options = read_model("Qwen/Qwen3-32B"), ServeOptions(prefill="between_steps", layout={"tp": 8, "pp": 1})
    job = checked(ServeJob(sessions=4, context=2048, new_tokens=32, concurrency=4))
    found = batch_table(model, BOX, job, options)
    row = int(np.flatnonzero(found.eligible)[0])
    step, prompt = float(found.running.step.total_s[row]), float(found.prompt.ttft_s[row])
    clock, left, tokens = 0.0, [8, 16, 24, 32], 0
    for _ in range(32 * 50):
        clock += step
        left = [count - 1 for count in left]
        tokens += len(left)
        clock += prompt * left.count(0)
        left = [count or 32 for count in left]
    assert float(found.tokens_per_s[row]) == pytest.approx(tokens / clock)
    assert float(found.running.tpot_s[row]) == pytest.approx(step + prompt * 3 / 32)


FLIPPED = {
    "searched": (
        ServeJob(sessions=64, context=8192, new_tokens=256, tpot=0.006),
        ServeOptions(layout={"pp": 1}),
    ),
    "with prompts": (
        ServeJob(sessions=64, context=8192, new_tokens=256, tpot=0.03, ttft=0.3),
        ServeOptions(prefill="between_steps", layout={"pp": 1}),
    ),
    "in flight": (
        ServeJob(sessions=64, context=8192, new_tokens=256, tpot=0.012, concurrency=40),
        ServeOptions(objective="latency", layout={"pp": 2}),
    ),
}


@pytest.mark.parametrize("name", FLIPPED)
def test_every_flip_of_a_batch_is_replayed_on_both_sides(name):
    model, (job, options) = read_model("Qwen/Qwen3-32B"), FLIPPED[name]
    flips = plan_serve(model, BOX, job, options).flips
    assert {"tpot", "system.accelerator.memory"} <= {flip["parameter"] for flip in flips}
    assert len(flips) > 5
    for flip in flips:
        value = flip["value"]
        below, above = (value - 1, value) if isinstance(value, int) else (value * 0.999, value * 1.001)
        for at, expected in ((below, flip["from"]), (above, flip["to"])):
            on, asked, chosen = changed(BOX, job, options, flip["parameter"], at)
            result = plan_serve(model, on, asked, replace(chosen, flips="none"))
            assert (result.best.id if result.verdict.answer == "yes" else None) == expected, flip


def test_an_option_that_belongs_to_the_other_discipline_is_refused():
    model, job = read_model("tiny-qwen3"), ServeJob(sessions=2, context=100, new_tokens=4)
    fault = ServeOptions(fault=read_fault("card=0,at=1ms,stall=1ms"))
    for asked, options in ((replace(job, tpot=1.0), fault), (job, ServeOptions(prefill="between_steps"))):
        with pytest.raises(MeshwrightError) as caught:
            plan_serve(model, BOX, asked, options)
        assert caught.value.code == "JOB006"


@pytest.mark.parametrize("reads", [96.0, (1.0,) * 127])
def test_routing_of_another_model_is_refused(reads):
    for name in ("tiny-qwen3", "Qwen/Qwen3-30B-A3B"):
        if name == "Qwen/Qwen3-30B-A3B" and reads == 96.0:
            continue
        with pytest.raises(MeshwrightError) as caught:
            plan_serve(read_model(name), BOX, JOB, ServeOptions(expert_reads=reads))
        assert caught.value.code == "JOB007"


def test_the_inputs_of_a_batch_are_enough_to_compute_it_again():
    model, job = read_model("Qwen/Qwen3-30B-A3B"), replace(JOB, discipline=None, tpot=0.03)
    for reads in ("full", 100.0, tuple(float(count) for count in range(200, 328))):
        result = plan_serve(model, BOX, job, ServeOptions(expert_reads=reads, flips="none"))
        document = json.loads(json.dumps(as_json(result), allow_nan=False))
        stated = document["inputs"]
        again = plan_serve(
            TypeAdapter(Model).validate_python(stated["model"]),
            TypeAdapter(System).validate_python(stated["system"]),
            TypeAdapter(ServeJob).validate_python(stated["job"]),
            TypeAdapter(ServeOptions).validate_python({**stated["options"], "layout": stated["layout"]}),
        )
        repeated = json.loads(json.dumps(as_json(again), allow_nan=False))
        for part in ("verdict", "candidates", "pareto", "inputs", "not_modelled"):
            assert repeated[part] == document[part]
