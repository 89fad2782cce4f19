"""Laws of saved activations, over any model and layout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.training_activations import activation_columns, entry_bytes
from meshwright.layout.layouts import table
from meshwright.layout.ownership import local_elements
from meshwright.model.feed_forwards import Experts
from meshwright.model.tensors import Dim
from meshwright.workload.recomputing import RECOMPUTE
from meshwright.workload.saved import block_saved
from meshwright.workload.saved_entries import Kernels
from tests.laws.strategies import layouts, mixed_models, models

KERNELS = ("flash", "materialised", "causal_pairs")
COUNTED = {name for name in RECOMPUTE.names() if RECOMPUTE.module(name).COUNTED}
FIELDS = ("saved", "rebuilt", "head", "embedding", "head_transient")


@st.composite
def cases(draw):
    model = draw(models() | mixed_models())
    layout = replace(draw(layouts(model)), micro_batch=draw(st.integers(1, 3)), attention="data_parallel")
    kernels = {"kernel": draw(st.sampled_from(KERNELS)), "elementwise": draw(st.sampled_from(["eager", "fused"]))}
    return model, layout, draw(st.sampled_from([24, 48, 120])), kernels


def saved(model, layout, policy, sequence, kernels):
    """Bytes of one layer of each kind."""
    return activation_columns(model, table([replace(layout, recompute=policy)]), sequence=sequence, **kernels).saved[0]


@settings(max_examples=30)
@given(case=cases(), count=st.integers(1, 4))
def test_what_is_kept_falls_from_none_over_every_policy_to_full(case, count):
    model, layout, sequence, kernels = case
    held = {
        name: saved(model, layout, f"{name}_{count}" if name in COUNTED else name, sequence, kernels)
        for name in RECOMPUTE.names()
    }
    least = held.pop("uniform")
    assert all((least <= kept).all() for kept in held.values())
    full, none = held.pop("full"), held.pop("none")
    assert all(((full <= kept) & (kept <= none)).all() for kept in held.values())
    scored = np.array([bool(block.mixer.pair_products("expanded")) for block in model.kinds])
    assert (held["attention"] < none)[scored].all()
    assert (held["attention"] == none)[~scored].all()


@settings(max_examples=30)
@given(case=cases(), policy=st.sampled_from(["none", "selective", "full", "every_2", "uniform_3"]))
def test_bytes_are_in_proportion_to_the_micro_batch(case, policy):
    model, layout, sequence, kernels = case
    rows = [replace(layout, micro_batch=count, recompute=policy) for count in (1, 5)]
    found = activation_columns(model, table(rows), sequence=sequence, **kernels)
    for name in FIELDS:
        one, five = getattr(found, name)
        assert np.array_equal(one * 5, five), name


@settings(max_examples=30)
@given(case=cases())
def test_a_tensor_is_the_piece_that_the_ownership_table_gives_of_the_whole_batch(case):
    """A copy's micro-batch is its share of the samples of all copies."""
    model, layout, sequence, kernels = case
    row = table([layout])
    samples = layout.micro_batch * layout.dp_replicate * layout.dp_shard
    named = Kernels(attention=kernels["kernel"], elementwise=kernels["elementwise"])
    for kind in range(len(model.kinds)):
        entries = [item for item in block_saved(model, kind, sequence, named).saved if not item.visits]
        for item, column in zip(entries, entry_bytes(entries, row, sequence), strict=True):
            whole = replace(item.tensor, dims=(Dim(role="samples", size=samples), *item.tensor.dims[1:]))
            piece = local_elements(whole, row, "activations")
            assert column[0] * layout.micro_batch == piece[0] * item.bits // 8, item.tensor.name


@settings(max_examples=30)
@given(case=cases())
def test_sequence_parallelism_cuts_by_tp_what_tp_leaves_whole(case):
    model, layout, sequence, kernels = case
    with_sp, without = (table([replace(layout, sp=sp)]) for sp in (True, False))
    named = Kernels(attention=kernels["kernel"], elementwise=kernels["elementwise"])
    for kind in range(len(model.kinds)):
        entries = [item for item in block_saved(model, kind, sequence, named).saved if not item.visits]
        both = (entry_bytes(entries, rows, sequence) for rows in (with_sp, without))
        for item, cut, whole in zip(entries, *both, strict=True):
            on_tp = {dim.role for dim in item.tensor.dims} & {"heads", "kv_heads", "intermediate", "vocab"}
            pieces = 1 if on_tp else layout.tp
            rows = sequence // layout.cp
            share = -(-rows // pieces) * whole[0] // rows if pieces > 1 else whole[0]
            assert cut[0] == share, item.tensor.name


@settings(max_examples=30)
@given(case=cases())
def test_visits_of_experts_are_conserved(case):
    """Under sp all ranks of a stage together hold top_k visits a row, each once for every rank that cuts an expert."""
    model, layout, _, _ = case
    sequence = layout.cp * layout.tp * 8
    layout = replace(layout, sp=True)
    for kind, block in enumerate(model.kinds):
        if not isinstance(block.feed_forward, Experts):
            continue
        [weights] = [
            item for item in block_saved(model, kind, sequence, Kernels()).saved if item.tensor.name == "route_weights"
        ]
        held = int(entry_bytes([weights], table([layout]), sequence)[0][0])
        copies = layout.dp_replicate * layout.dp_shard
        stage = copies * layout.cp * layout.tp
        assert held * stage == copies * sequence * block.feed_forward.top_k * layout.etp * weights.bits // 8
