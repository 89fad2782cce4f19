"""Lines, overheads and waiting from known rounds; the estimator at medians and quartiles; and the two files."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from meshwright.base.errors import RunError
from meshwright.base.units import Bytes
from meshwright.job.recipe import read_recipe
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout
from meshwright.model.arithmetic import arithmetic_of
from meshwright.model.reader import read_config, read_model
from meshwright.runtime.loop.trainer import Batch
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.training import plan_of_layout
from meshwright.system.system import read_system
from meshwright.verify.local.assemble import Machine, assembled
from meshwright.verify.local.calibration import AT_ONCE
from meshwright.verify.local.cases import COLLECTIVES, MIB, LocalOptions, cases_of, checked_local
from meshwright.verify.local.files import calibration_text, read_calibration, system_text
from meshwright.verify.local.fit import exchange_line, least_squares, overhead
from meshwright.verify.local.probes import CONFIG
from meshwright.verify.local.runs import RealRun, checked_run
from meshwright.verify.local.spread import spread_of
from meshwright.verify.local.waits import probe_runs
from meshwright.verify.predict import predicted

ALPHA, BANDWIDTH = 1e-4, 1e9
LAUNCH, RATE = 1e-5, 1e10
STEP = {"step": 4e-3, "layer": 2e-3, "slot": 1e-3, "block": 3e-3}
ROUNDS = {"all_reduce": 6, "all_gather": 3, "reduce_scatter": 6, "all_to_all": 3, "send_recv": 1}
"""Of four ranks, by ring; on gloo a reduce_scatter is an all_reduce."""


def seconds_of(case):
    if case.operation in COLLECTIVES:
        rounds = ROUNDS[case.operation] * (case.ranks - 1) / 3 if case.operation != "send_recv" else 1
        block = case.amount if case.operation == "send_recv" else case.amount / case.ranks
        ring = rounds * (ALPHA + block / BANDWIDTH)
        tree = 2 * np.log2(case.ranks) * (ALPHA + case.amount / BANDWIDTH)
        return (min(ring, tree) if case.operation == "all_reduce" else ring,)
    if case.operation == "step":
        layers, slots = case.shape
        return (sum(a * b for a, b in zip(STEP.values(), (1, layers, slots, layers * slots), strict=True)),)
    if case.operation.startswith("overlap "):
        return {"communication": (0.02,), "computation": (0.03,), "together": (0.03, 0.04, 0.04)}[case.operation[8:]]
    return (LAUNCH + case.amount / RATE,)


@cache
def calibration(depth="full", noise=(0.9, 1.0, 1.1), waits=1.0):
    """A machine whose every round is known; waits: of the probe's real steps, over what the lines say."""
    options = LocalOptions(nproc=4, depth=depth)
    cases = cases_of(options)
    rounds = [[tuple(part * factor for part in seconds_of(case)) for factor in noise] for case in cases]
    machine = Machine(memory=Bytes(2**33), platform="four made-up processes")
    plain = assembled(options, machine, cases, (), rounds)
    probes = probe_runs(4, options.sizes)
    steps = [[(predicted(plain, run).median_s * waits,)] * 3 for run in probes]
    return assembled(options, machine, cases, probes, rounds + steps)


def run_of(sequence=64, global_batch=16, **fields):
    layout = Layout(attention="data_parallel", **fields)
    config = {**CONFIG, "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4}
    batch = Batch(global_batch=global_batch, sequence=sequence)
    return RealRun(model=read_config(config, "small"), arithmetic=arithmetic_of(config), layout=layout, batch=batch)


# --------------------------------------------------------------------------------------------------------------- fits


@pytest.mark.parametrize(("operation", "ranks"), list(product(COLLECTIVES, (2, 4))))
def test_a_line_gives_back_the_start_up_and_the_bandwidth_of_its_rounds(operation, ranks):
    cases = [case for case in cases_of(LocalOptions(nproc=4)) if (case.operation, case.ranks) == (operation, ranks)]
    line = exchange_line([(case, [seconds_of(case)] * 5) for case in cases], 2)
    assert [line.alpha, line.bandwidth] == pytest.approx([ALPHA, BANDWIDTH], rel=1e-6)
    assert (line.low, line.high, line.count) == (pytest.approx(1), pytest.approx(1), 5 * len(cases))


def test_reduce_scatter_on_gloo_is_charged_as_an_all_reduce_and_on_nccl_as_half_of_it():
    cases = [case for case in cases_of(LocalOptions(nproc=4)) if (case.operation, case.ranks) == ("reduce_scatter", 4)]
    samples = [(case, [seconds_of(case)]) for case in cases]
    assert exchange_line(samples, 1).alpha == pytest.approx(2 * exchange_line(samples, 2).alpha)


def test_quartiles_of_a_line_hold_the_noise_of_its_rounds():
    line = next(line for line in calibration(noise=(0.8, 1.0, 1.4)).exchange)
    assert (line.low, line.high) == (pytest.approx(0.8), pytest.approx(1.4))


def test_no_coefficient_is_below_zero():
    columns = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert (least_squares(columns, np.array([3.0, 2.0, 1.0])) >= 0).all()
    assert (
        least_squares(columns, np.array([1.0, 3.0, 5.0]), needed=(1,))
        == [0, least_squares(columns[:, 1:], np.array([1.0, 3.0, 5.0]))[0]]
    ).all()


def test_an_overhead_gives_back_its_step_layer_slot_and_block():
    samples = [(case, [seconds_of(case)] * 3) for case in cases_of(LocalOptions()) if case.format == "zero=2"]
    found = overhead(samples)
    assert {name: getattr(found, name) for name in STEP} == pytest.approx(STEP)


def test_a_spread_is_the_median_and_the_quartiles():
    found = spread_of([5.0, 1.0, 2.0, 3.0, 4.0])
    assert (found.low, found.median, found.high, found.count) == (2.0, 3.0, 4.0, 5)


def test_waiting_is_the_factor_of_exchanges_that_fills_the_probes_steps():
    assert calibration(waits=1.0).waiting.factor == pytest.approx(1.0)
    found = calibration(waits=1.2)
    assert found.waiting.low <= found.waiting.factor <= found.waiting.high
    for row, run in zip(found.waiting.row, probe_runs(4, (2, 4)), strict=True):
        alone = replace(found, waiting=replace(found.waiting, factor=row.factor))
        assert predicted(alone, run).median_s == pytest.approx(row.time, rel=1e-3)


# --------------------------------------------------------------------------------------------------------- predictions


@pytest.mark.parametrize(
    "fields",
    [
        {"dp_shard": 4, "zero": 2},
        {"dp_shard": 4, "zero": 3},
        {"dp_replicate": 4},
        {"tp": 2, "pp": 2},
        {"tp": 4, "sp": True},
        {"dp_shard": 2, "tp": 2, "zero": 1},
        {"dp_shard": 2, "dp_replicate": 2, "zero": 3},
    ],
)
def test_a_step_is_between_its_quartiles_and_its_parts_add_up(fields):
    found = predicted(calibration(), run_of(**fields))
    assert found.low_s < found.median_s < found.high_s
    parts = (found.compute_s, found.exchange_s, found.bubble_s, found.update_s, found.overhead_s, found.small_s)
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(found.median_s, rel=1e-9)
    quiet = predicted(calibration(noise=(1.0, 1.0, 1.0)), run_of(**fields))
    assert quiet.low_s == pytest.approx(quiet.median_s, rel=1e-6)


def test_without_overhead_and_with_one_line_a_step_is_that_of_plan_train(tmp_path):
    """Of tp alone, whose exchanges all have the line of all_reduce; the loss and the norms are apart."""
    found = calibration(noise=(1.0, 1.0, 1.0))
    none = tuple(replace(item, step=0.0, layer=0.0, slot=0.0, block=0.0) for item in found.overhead)
    found = replace(found, overhead=none, waiting=AT_ONCE)
    file = tmp_path / "box.toml"
    file.write_text(system_text(found, "2026-11-30"))
    run = run_of(tp=4)
    job = TrainJob(tokens=16 * 64, sequence=64, global_batch=16, recipe=read_recipe("fp32-adamw"))
    plan = plan_of_layout(run.model, read_system(str(file)), job, TrainOptions(prefetch="off"), run.layout)
    step = predicted(found, run)
    measures = plan.candidates[0].measures["step"]
    assert step.exchange_s == pytest.approx(measures["exposed_comm_s"], rel=1e-4)
    assert step.compute_s == pytest.approx(measures["compute_s"], rel=1e-4)


def test_a_slower_exchange_makes_only_steps_that_have_it_longer():
    found = calibration()
    slow = replace(
        found,
        exchange=tuple(
            replace(line, alpha=line.alpha * 10) if line.operation == "all_gather" else line for line in found.exchange
        ),
    )
    sharded, tensor = run_of(dp_shard=4, zero=3), run_of(tp=2, pp=2)
    assert predicted(slow, sharded).median_s > predicted(found, sharded).median_s
    assert predicted(slow, tensor).median_s == predicted(found, tensor).median_s


def test_zero_3_gathers_more_often_than_zero_2():
    found = calibration(noise=(1.0, 1.0, 1.0))
    steps = [predicted(found, run_of(dp_shard=4, zero=zero)).exchange_s for zero in (1, 2, 3)]
    assert steps == sorted(steps)
    assert steps[0] < steps[2]


@pytest.mark.parametrize(
    ("code", "fields"),
    [("RUN035", {"dp_shard": 2}), ("RUN036", {"dp_replicate": 4})],
)
def test_what_was_not_measured_is_not_predicted(code, fields):
    found = calibration()
    pairs = tuple(line for line in found.exchange if line.ranks == 2)
    with pytest.raises(RunError) as error:
        predicted(replace(found, exchange=pairs), run_of(**fields))
    assert error.value.code == code


@pytest.mark.parametrize(
    ("code", "fields", "batch"),
    [
        ("RUN005", {"ep": 2}, 16),
        ("RUN007", {"dp_shard": 4}, 6),
        ("LAY003", {"tp": 3}, 16),
        ("RUN012", {"dp_shard": 4}, 0),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_processes_start(code, fields, batch):
    with pytest.raises(Exception, match=code):
        checked_run(run_of(global_batch=batch, **fields))


@pytest.mark.parametrize("fields", [{"nproc": 1}, {"nproc": 65}, {"groups": (3,)}, {"groups": (1,)}])
def test_processes_and_groups_that_cannot_measure_are_refused(fields):
    with pytest.raises(RunError, match="RUN031"):
        checked_local(LocalOptions(**fields))


def test_sizes_reach_from_1_kib_to_64_mib_and_a_quick_look_to_1_mib():
    for depth, most, repeats in (("full", 64 * MIB, 5), ("quick", MIB, 3)):
        options = LocalOptions(depth=depth)
        sizes = {case.amount for case in cases_of(options) if case.operation in COLLECTIVES}
        assert (min(sizes), max(sizes), options.repeats) == (1024, most, repeats)


@pytest.mark.parametrize("fields", [{"nproc": 3, "groups": (3,)}, {"nproc": 6}, {"nproc": 48, "groups": (48,)}])
def test_every_rank_of_a_group_has_an_equal_share_of_a_message(fields):
    exchanges = [case for case in cases_of(checked_local(LocalOptions(**fields))) if case.operation in COLLECTIVES]
    assert all(case.amount > 0 and case.amount % (4 * case.ranks) == 0 for case in exchanges)


# --------------------------------------------------------------------------------------------------------------- files


def test_a_calibration_is_read_as_it_was_written(tmp_path):
    found = calibration(waits=1.1)
    file = tmp_path / "box.calibration.toml"
    file.write_text(calibration_text(found, "2026-11-30"))
    read = read_calibration(file)
    for fields in ({"dp_shard": 4, "zero": 2}, {"tp": 2, "pp": 2}):
        steps = [predicted(item, run_of(**fields)) for item in (found, read)]
        for name in ("low_s", "median_s", "high_s"):
            assert getattr(steps[1], name) == pytest.approx(getattr(steps[0], name), rel=1e-4)
    assert calibration_text(read, "2026-11-30") == file.read_text()
    assert (read.platform, read.protocol) == (found.platform, found.protocol)


def test_a_calibration_without_its_date_is_refused(tmp_path):
    file = tmp_path / "box.calibration.toml"
    text = calibration_text(calibration(), "2026-11-30").replace('date = "2026-11-30"\n', "", 1)
    file.write_text(text)
    with pytest.raises(RunError, match="RUN037"):
        read_calibration(file)


def test_the_system_file_has_fitted_medians_with_their_basis_date_and_quartiles(tmp_path):
    file = tmp_path / "box.toml"
    file.write_text(system_text(calibration(), "2026-11-30"))
    system = read_system(str(file))
    assert (system.devices, system.scale_up.latency) == (4, pytest.approx(ALPHA, rel=1e-4))
    assert system.scale_up.bandwidth == pytest.approx(BANDWIDTH, rel=1e-4)
    assert system.accelerator.peak["fp32"] == pytest.approx(RATE, rel=1e-4)
    assert set(system.accelerator.peak) == {"fp32", "bf16", "fp64"}
    facts = {fact.path: fact for fact in system.facts.facts}
    for path in ("accelerator.memory_bandwidth", "accelerator.peak.fp32", "scale_up.latency", "scale_up.bandwidth"):
        assert (facts[path].basis, facts[path].date) == ("calibrated", "2026-11-30")
        assert "quartiles" in facts[path].note


def test_the_model_of_a_probe_is_small_and_the_real_one_is_not_it():
    probe, real = read_config(CONFIG, "probe"), read_model("tiny-qwen3")
    assert probe.hidden < real.hidden
