"""Keys and values that several layers share are kept once, and read by each layer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.base.errors import ModelError
from meshwright.base.parse import build, set_path
from meshwright.model.checks import checked_model
from meshwright.model.description import read_description
from meshwright.model.mixers import plain_attention
from meshwright.model.model import parameter_counts
from meshwright.scenarios.fit import FitOptions, fit, replica_layout
from meshwright.scenarios.inspect import InspectOptions, inspect
from meshwright.system.system import read_system
from meshwright.workload.saved import block_saved
from meshwright.workload.saved_entries import Kernels

_OWN = {"heads": 8, "kv_heads": 2, "head_dim": 64, "qk_norm": "head"}
_WIDE = {"intermediate": 1024}


def described(*mixers):
    groups = [{"count": count, "block": {"mixer": mixer, "feed_forward": _WIDE}} for count, mixer in mixers]
    return read_description({"hidden": 512, "vocab": 1000, "tied": True, "max_positions": 4096, "groups": groups}, "x")


ALONE = described((8, _OWN))
SHARED = described((3, {**_OWN, "window": 128}), (1, _OWN), (4, {**_OWN, "shared_kv": True}))
KEPT = described((3, {**_OWN, "window": 128}), (5, _OWN))


def kept(model, tp=1, **options):
    layout = replica_layout(model, tp, 1, 1)
    return fit(model, read_system("hgx-h100"), layout, FitOptions(**options)).body["memory"]


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_the_ledger_keeps_what_four_layers_keep_and_not_eight(tp):
    position = 2 * 64 * 2 * 2 // min(tp, 2)  # key and value of two heads in bf16
    memory = kept(SHARED, tp, context=4096, sessions=1)
    assert memory["kv_cache_bytes"] == position * (3 * 128 + 4096)
    assert kept(KEPT, tp, context=4096, sessions=1)["kv_cache_bytes"] == position * (3 * 128 + 5 * 4096)
    assert [row["layers"] for row in memory["kv_layers"]] == [3, 1]


def test_every_layer_reads_what_is_shared():
    shared, own = (inspect(model, InspectOptions(context=4096)).body for model in (SHARED, KEPT))
    assert shared["state_bytes_per_step"] == own["state_bytes_per_step"]
    assert shared["kv_bytes_per_token"] == 4 * 512


def test_a_layer_that_shares_has_no_projections_or_norms_of_keys():
    each = 2 * 512 * 2 * 64 + 64  # k and v, and the norm of keys
    assert parameter_counts(KEPT)["total"] - parameter_counts(SHARED)["total"] == 4 * each


@pytest.mark.parametrize("change", [("kv_heads", "4"), ("head_dim", "32"), ("window", "64")])
def test_what_is_shared_must_be_kept_by_a_layer_before(change):
    name, value = change
    with pytest.raises(ModelError) as problem:
        checked_model(set_path(SHARED, f"groups.2.block.mixer.{name}", value), "model")
    assert problem.value.code == "MOD031"
    first = replace(SHARED, groups=SHARED.groups[::-1])
    with pytest.raises(ModelError):
        checked_model(first, "model")


def test_training_of_such_layers_is_refused_and_stages_are_said_to_be_left_out():
    with pytest.raises(ModelError) as problem:
        plain_attention(SHARED.kinds[-1].mixer, "saved activations")
    assert problem.value.code == "MOD030"
    with pytest.raises(ModelError, match="over another layer's keys"):
        block_saved(SHARED, 2, 128, Kernels(attention="flash", elementwise="eager", loss="materialised"))
    assert block_saved(ALONE, 0, 128, Kernels(attention="flash", elementwise="eager", loss="materialised")).saved
    said = fit(SHARED, read_system("hgx-h100"), replica_layout(SHARED, 1, 2, 1), FitOptions()).not_modelled
    assert any("stages that lack the layer whose keys and values theirs read" in text for text in said)
    assert not any("stages that lack" in text for text in fit(
        ALONE, read_system("hgx-h100"), replica_layout(ALONE, 1, 2, 1), FitOptions()).not_modelled)  # fmt: skip


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_engine_counts_tokens_by_the_layers_that_keep_any(engine):
    model = described((4, _OWN), (4, {**_OWN, "shared_kv": True}))
    layout, system = replica_layout(model, 1, 1, 1), read_system("hgx-h100")
    found = fit(model, system, layout, build(FitOptions, {"engine": {"name": engine, "kv_cache_memory": "1GiB"}}, "f"))
    assert found.body["memory"]["engine"]["kv_bytes_per_token"] == 4 * 512
