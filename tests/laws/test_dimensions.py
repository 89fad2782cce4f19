"""Every cost function carries its units in its names, and pint agrees with them.

Each public function of `cost`, of the links and of the messages is called with pint quantities made from the names of
its parameters; the dimension of what comes out must be the one that the function's own name ends in. Bytes, FLOPs,
seconds and devices are dimensions of their own here, so a byte is never a FLOP and a share is never a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import getmembers, isfunction, signature
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import numpy as np
import pint
import pytest

import meshwright.cost
from meshwright.system import link
from meshwright.workload import attention, messages

UNITS = pint.UnitRegistry(None)
for definition in (
    "byte = [information]",
    "flop = [work]",
    "second = [time]",
    "device = [device]",
    "joule = [energy]",
):
    UNITS.define(definition)

BY_SUFFIX = {
    "_flops_per_s": "flop / second",
    "_bytes_per_s": "byte / second",
    "_tokens_per_s": "1 / second",
    "_sequences_per_s": "1 / second",
    "_tokens_per_gpu_s": "1 / device / second",
    "_failures_per_s": "1 / second",
    "_gpu_s": "device * second",
    "_bytes": "byte",
    "_flops": "flop",
    "_s": "second",
    "_share": "",
    "_fraction": "",
    "_w": "joule / second",
    "_j": "joule",
    "_nodes": "",
    "_count": "",
}
"""The longest suffix that fits decides."""

COUNTS = {
    "devices": "device",
    "distinct": "",
    **dict.fromkeys(("elements", "hidden", "score_columns", "value_columns", "mfu", "pairs", "ports"), ""),
    **dict.fromkeys(("factor", "message_pieces", "pieces"), ""),
    **dict.fromkeys(("expected_max", "late_sigmas", "times", "sequences", "workers", "outage_sequences"), ""),
    **dict.fromkeys(("steps", "least_steps", "steps_at", "batch_tokens", "noise_tokens", "run_tokens"), ""),
    **dict.fromkeys(
        ("boxes", "boxes_per_rack", "end_points", "grouped", "in_groups", "radix", "switches", "tiers"), ""
    ),
    **dict.fromkeys(("box_price", "installed_price", "switch_price", "switch_tiers"), ""),
    **dict.fromkeys(("calls", "channels", "cores", "endpoints", "hosts", "lines", "reads"), ""),
    **dict.fromkeys(("least_tokens", "tokens_at", "speed_up_limit", "parameters", "tokens"), ""),
    **dict.fromkeys(
        ("ranks", "replicas", "rounds", "rows", "sessions", "stage_ranks", "stages", "turn", "turns", "launches"), ""
    ),
}
"""Words that are counts without a suffix. A new word must be added here, or the name must say its unit."""

TABLE_LEVEL = {
    "collective_fits.fitted_s": "a fit in: the seconds of the fastest way are those of `launched_s` or `floored_s`",
    "collectives.algorithms": "names in, names out",
    "collectives.check_permitted": "names in, a refusal out",
    "collectives.check_choice": "a name in, the same name out",
    "collectives.all_reduce": "a Group in, an Exchange out: the seconds inside are those of `rounds_s`",
    "collectives.busbw_factor": "a name in: what nccl-tests count, held by their table",
    "collectives.coefficients_of": "a name in, a table of counts out",
    "collectives.formula_exchange": "packs columns",
    "collectives.given_exchange": "packs columns",
    "context.context_exchanges": "nouns in, Exchanges out: the seconds inside are those of `rounds_s`",
    "context.context_message_bytes": "a Model and Layouts in: held by the laws of training steps",
    "context.context_message_s": "a Group in: the seconds are those of `rounds_s`",
    "context.expanded_of_rank": "a Batch and Layouts in, positions out",
    "context.pairs_of_rank": "a Batch and Layouts in, pairs out: held by the laws of serving over cp",
    "context.positions_of_rank": "a Batch and Layouts in, positions out: held by the laws of serving over cp",
    "context.ring_wait_s": "a Model, Layouts and seconds in: held by the laws of a context over ranks",
    "context.rows_of_rank": "a Batch and Layouts in, rows out: held by the laws of serving over cp",
    "estimate.estimate_step": "nouns in, a Step out: the seconds inside are those of `roofline_s` and `rounds_s`",
    "coefficients.coefficients": "a Group in, counts out: held by the count of every send",
    "coefficients.program_in_boxes": "names in, a Program out",
    "coefficients.counted": "a Program in, counts out: held by the count of every send",
    "collectives.port_bytes": "a Group in: its counts are held by the count of every send",
    "collectives.program_s": "a Group in: the seconds are those of `rounds_s`",
    "forward_exchange.calls": "a Message and Layouts in, counts out",
    "forward_exchange.forward_exchanges": "nouns in, Exchanges out: their seconds are those of `ports_s`, `rounds_s`",
    "forward_exchange.shared_sessions": "sessions and Layouts in, sessions out",
    "groups.block_nodes": "a System and Layouts in, boxes out",
    "groups.group_along": "Layouts in, a Group out",
    "groups.group_of": "columns in, a Group out",
    "groups.lone_group": "a Rate's numbers in, a Group out",
    "groups.rates": "a System in, its two links out",
    "estimate.read_bytes": "sums a column of a Step",
    "estimate.weight_bytes": "sums a column of a Step",
    "estimate.state_bytes": "sums a column of a Step",
    "estimate.flops": "sums a column of a Step",
    "estimate.compute_formats": "a Model and an Operator in, names out",
    "estimate.matrix_rate": "nouns in, the datasheet's FLOP/s out",
    "stages.by_stages": "Layouts in, rows by their number of stages out",
    "stages.slowest_stage_s": "a Model, Layouts and a Step in: sums of its seconds",
    "model_flops.active_parameters": "a Model in",
    "model_flops.flops_per_token": "a Model in: held by the laws of model FLOPs",
    "model_flops.forward_flops": "an Operator in: held by the laws of model FLOPs",
    "model_flops.job_flops": "a Model in: held by the laws of model FLOPs",
    "model_flops.model_flops": "a Model in: held by the laws of model FLOPs",
    "model_flops.read_convention": "a name in, a record out",
    "model_flops.trained_flops": "a Model and a Recipe in: held by the laws of model FLOPs",
    "model_flops.step_flops": "a Model in: held by the laws of model FLOPs",
    "offload.activation_offload": "packs columns: held by the laws of offloading",
    "offload.optimizer_offload": "packs columns: held by the laws of offloading",
    "offload.parameter_offload": "packs columns: held by the laws of offloading",
    "kept.model_kept": "a Model and a Recipe in, what is kept out",
    "kept.saved_parts": "a Model and a Recipe in, bytes out: held by the size of a save",
    "kept.adapters": "a tensor and a Recipe in, tensors out",
    "kept.in_fp8": "a tensor and a Recipe in, a truth out",
    "kept.in_operands": "a Model and a Recipe in, a Model out",
    "kept.check_targets": "a Model and a Recipe in, a refusal out",
    "kept.gathered": "tensors and a Recipe in, what is kept out",
    "kept.gradient_buffers": "tensors and a Recipe in, what is kept out",
    "kept.kept": "tensors and a Recipe in, what is kept out",
    "kept.read": "tensors and a Recipe in, what an update reads out",
    "kept.written": "tensors and a Recipe in, what an update writes out",
    "kept.updated": "tensors and a Recipe in, what is kept out",
    "kept.operand_copies": "tensors and a Recipe in, what is kept out",
    "program_times.port_times": "a Fabric and Traffic in: held by the laws of flows",
    "program_times.round_times": "a Fabric and Traffic in: held by the laws of flows",
    "pipelines.added": "columns in, the same columns out",
    "pipelines.along_rows": "columns in, the same columns out",
    "pipelines.bounding_pipelines": "a Model and Layouts in, Pipelines out",
    "pipelines.largest": "columns in, places out",
    "pipelines.of_entry": "columns in, the same columns out",
    "pipelines.over_entries": "columns in, their sums out",
    "pipelines.pipelines": "a Model and Layouts in, Pipelines out",
    "pipelines.stage_modules": "counts in, modules out",
    "training.bubble_s": "a name and a Work in: held by the laws of schedules and of training steps",
    "training.estimate_training": "the nouns in, a TrainingStep out: held by the laws of training steps",
    "training.training_parts": "the nouns in, columns out: held by the laws of training steps",
    "training.step_of_parts": "Layouts and columns in, a TrainingStep out: held by the laws of training steps",
    "training.turns": "columns in, Turns out: held by the laws of training steps",
    "training.update_s": "a System and columns in: held by the laws of training steps",
    "training_activations.activation_columns": "a Model and Layouts in: held by the laws of activations",
    "training_activations.entry_bytes": "Layouts in: held by the laws of activations",
    "training_exchange.boundary_bytes": "a Model and Layouts in: held by the laws of training steps",
    "training_exchange.boundary_s": "the nouns in: the seconds are those of `one_way_s`",
    "training_exchange.layer_exchange": "the nouns in, columns out: the seconds are those of `rounds_s`",
    "training_exchange.message_bytes": "a Model and Layouts in: held by the laws of training steps, and by real runs",
    "training_exchange.module_bytes": "a Model and Layouts in: held by the laws of training steps, and by real runs",
    "training_exchange.state_exchange": "the nouns in, columns out: the seconds are those of `rounds_s`",
    "training_memory.training_ledger": "Layouts and columns in, a TrainingLedger out",
    "training_memory.of_layers": "Pipelines and columns in, their sums out",
    "training_state.stage_totals": "a Model and Layouts in: held by the laws of training state",
    "training_state.state_columns": "a Model and Layouts in: held by the laws of training state",
    "training_work.operator_flops": "Layouts and an Operator in: held by the laws of training steps, and by real runs",
    "training_work.training_work": "the nouns in, TrainingWork out: held by the laws of training steps",
    "training_offload.gradient_cast": "a Recipe and rates in: held by the laws of offloaded plans",
    "training_offload.has_part": "Layouts in, a mask out",
    "training_offload.moved_columns": "the nouns and columns in: held by the laws of offloaded plans",
    "training_offload.offload_wait_s": "columns and rates in: held by the laws of offloaded plans",
    "published_mfu.read_published": "a name in, a record out",
    "experts.exchange": "Wires and rows in, Busiest out: held by the laws of link loads",
    "experts.expert_bytes": "a Model and Layouts in: held by the chapter's 36 MiB",
    "experts.experts_s": "the nouns and rows in: the seconds are those of `roofline_s`",
    "experts.routed_operators": "a Model in, operators out",
    "experts.wires": "a Fabric in, its paths out",
    "faults.replica_of": "Layouts and a card in, replica numbers out",
    "faults.stopped": "Layouts and cards in, a mask out",
    "link_loads.all_to_all_loads": "a Fabric in, Loads out: held by the laws of link loads",
    "link_loads.bisection": "a Fabric in, a Cut out: held by brute force and maximum flow",
    "link_loads.busiest_s": "a Fabric and Loads in: held by the laws of link loads",
    "link_loads.cut": "a Fabric in, a Cut out: held by maximum flow",
    "link_loads.flow_loads": "a Fabric and columns in, Loads out: held by the laws of link loads",
    "link_loads.injection_bytes_per_s": "a Fabric in: held by the laws of link loads",
    "link_loads.links_a_flow": "a Fabric in, links of a path out: held by a test of what is walked in parts",
    "link_loads.oversubscription": "a Fabric in: held by the laws of link loads",
    "link_loads.pairs": "a Fabric in, columns out",
    "link_loads.route_loads": "a Fabric and Routes in, Loads out: held by the laws of link loads",
    "link_loads.program_loads": "a Fabric and a Program in, Loads out: held by the laws of link loads",
    "link_loads.check_uniform": "a name in, a refusal out",
    "link_loads.load_program": "names in, a Program out",
    "link_loads.load_name": "names in, a name out",
    "link_loads.round_s": "a Fabric and Loads in: held by the laws of link loads",
    "link_loads.tiers": "a Fabric in, links to the nearest device out",
    "memory.serving_ledger": "Model and Layouts in, a Ledger out: held by the ledger law",
    "memory.cached_columns": "a Model and Layouts in",
    "memory.token_columns": "a Model and Layouts in",
    "memory.state_bytes_per_token": "a Model in",
    "memory.state_row_bytes": "a Model and a state in",
    "memory.stored_columns": "a Model and Layouts in",
    "memory_even.sharded_cached": "a Model and Layouts in",
    "memory_even.sharded_token": "a Model and Layouts in",
    "memory_even.sharded_ledger": "Model and Layouts in, a Ledger out: held by the ledger law",
    "memory_even.sharded_parts": "a Model and a Layout in, a table out",
    "reserve.reserve": "Model, Layouts and a rule in, a Reserve out",
    "memory_parts.parts_bytes": "a Model and a Layout in, a table out",
}
"""Functions that take tables and nouns, not numbers; each with the reason why the law does not call it."""


def cost_modules() -> Iterator[ModuleType]:
    for found in iter_modules(meshwright.cost.__path__):
        yield import_module(f"meshwright.cost.{found.name}")


def public_functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    short = module.__name__.rpartition(".")[2]
    for name, function in getmembers(module, isfunction):
        if function.__module__ == module.__name__ and not name.startswith("_"):
            yield f"{short}.{name}", function


def in_units() -> dict[str, Callable[..., Any]]:
    """What the law calls: the numeric functions of cost, and of the floors below that make their inputs."""
    found = dict(pair for module in cost_modules() for pair in public_functions(module))
    below = dict(public_functions(link))
    found |= {name: below[name] for name in ("link.ports_bytes_per_s", "link.both_ways_bytes_per_s")}
    found |= {"link.one_way_bytes_per_s": below["link.one_way_bytes_per_s"]}
    found |= {"messages.row_bytes": messages.row_bytes, "messages.boundary_bytes": messages.boundary_bytes}
    found |= {"attention.score_flops": attention.score_flops}
    return {name: function for name, function in found.items() if name not in TABLE_LEVEL}


def unit_of(name: str) -> str:
    """The unit that a name states. Raises KeyError when it states none."""
    if name in COUNTS:
        return COUNTS[name]
    for suffix in sorted(BY_SUFFIX, key=len, reverse=True):
        if f"_{name}".endswith(suffix):
            return BY_SUFFIX[suffix]
    raise KeyError(name)


def check_dimension(name: str, function: Callable[..., Any]) -> None:
    """The law for one function."""
    arguments: dict[str, Any] = {}
    for place, parameter in enumerate(signature(function).parameters.values()):
        unit = unit_of(parameter.name)
        numbers = np.array([2, 4]) if "Ints" in str(parameter.annotation) else 2 + place
        numbers = np.array([1.5, 3.0]) if "Floats" in str(parameter.annotation) else numbers
        arguments[parameter.name] = UNITS.Quantity(numbers, unit) if unit else numbers
    result = function(**arguments)
    expected = unit_of(name.rpartition(".")[2])
    found = result if isinstance(result, UNITS.Quantity) else UNITS.Quantity(result, "")
    assert found.is_compatible_with(expected), (
        f"{name} is {found.dimensionality}, and its name says {expected or 'a count'}"
    )


@pytest.mark.parametrize("name", sorted(in_units()))
def test_a_cost_function_returns_what_its_name_says(name):
    check_dimension(name, in_units()[name])


def test_the_functions_left_out_exist_and_take_a_noun_a_table_or_a_name():
    found = dict(pair for module in cost_modules() for pair in public_functions(module))
    assert set(TABLE_LEVEL) <= set(found)
    nouns = (
        "Operator",
        "Model",
        "System",
        "Layout",
        "Layouts",
        "Step",
        "Group",
        "Program",
        "CollectiveFit",
        "Rate",
        "Exchange",
        "Fabric",
        "Floats",
        "str",
    )
    nouns += (
        "Recipe",
        "Pipelines",
        "TrainingStep",
        "CollectiveFit",
        "tuple[int, ...]",
        "Fabric",
        "Wires",
        "Any",
    )  # traced columns have no type of their own
    for name in TABLE_LEVEL:
        annotations = [str(item.annotation) for item in signature(found[name]).parameters.values()]
        assert any(word in nouns for word in annotations), name


def times_s(read_bytes, rate_bytes_per_s):
    return read_bytes * rate_bytes_per_s


def reads_s(read_bytes, rate_flops_per_s):
    return read_bytes / rate_flops_per_s


def adds_s(wait_s, read_bytes):
    return wait_s + read_bytes


def bare(read_bytes):
    return read_bytes


def reads_bytes(size):
    return size


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (times_s, AssertionError),
        (reads_s, AssertionError),
        (adds_s, pint.DimensionalityError),
        (bare, KeyError),
        (reads_bytes, KeyError),
    ],
)
def test_the_law_catches_wrong_formulas_and_names_without_a_unit(function, error):
    with pytest.raises(error):
        check_dimension(f"tests.{function.__name__}", function)
