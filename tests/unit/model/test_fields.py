"""Fields of the wrong kind are refused by name; fields that do not matter are not looked at."""

from __future__ import annotations

import json
import math

import pytest

from meshwright.base.errors import ModelError
from meshwright.model.config import Fields, shown
from meshwright.model.model import parameter_counts
from meshwright.model.reader import read_config, read_model
from tests.unit.model.configs import LLAMA, QWEN3_MOE, USUAL_NAMES, refusal, without

WHOLE = ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "head_dim"]


@pytest.mark.parametrize(
    "value", [True, False, "16", "", [], [16], {}, 16.5, 0, -1, 10**9 + 1, 10**30, math.nan, math.inf]
)
@pytest.mark.parametrize("field", WHOLE)
def test_a_size_that_is_no_whole_number_is_refused_by_name(field, value):
    error = refusal({**LLAMA, field: value})
    assert error.code == "MOD006"
    assert f"llama: {field} is " in error.cause


def test_a_whole_number_may_be_written_with_a_point():
    assert read_config({**LLAMA, "hidden_size": 16.0}, "model") == read_config(LLAMA, "model")


@pytest.mark.parametrize("field", ["attention_bias", "mlp_bias", "tie_word_embeddings"])
@pytest.mark.parametrize("value", [0, 1, "true", None, []])
def test_a_flag_that_is_neither_true_nor_false_is_refused_by_name(field, value):
    error = refusal({**LLAMA, field: value})
    assert error.code == "MOD006"
    assert field in error.cause


@pytest.mark.parametrize("field", ["hidden_size", "num_hidden_layers", "vocab_size", "max_position_embeddings"])
def test_a_null_size_is_refused_rather_than_defaulted(field):
    error = refusal({**LLAMA, field: None})
    assert error.code == "MOD006"
    assert error.cause == f"llama: {field} is null"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("layer_types", "full_attention"),
        ("layer_types", {}),
        ("layer_types", [1, 2]),
        ("rope_scaling", "yarn"),
        ("rope_scaling", [4]),
        ("rope_scaling", {"rope_type": 3}),
        ("rope_scaling", {"factor": math.nan}),
        ("rope_scaling", {"factor": "4"}),
        ("rope_scaling", {"factor": True}),
        ("rope_scaling", {"factor": 4.0, "original_max_position_embeddings": math.inf}),
        ("torch_dtype", 16),
        ("quantization_config", "fp8"),
        ("quantization_config", {"quant_method": "fp8", "weight_block_size": [4, 4], "ignored_layers": [3]}),
    ],
)
def test_a_field_of_another_type_is_refused_by_name(field, value):
    error = refusal({**LLAMA, field: value})
    assert error.code == "MOD006"
    assert field in error.cause


@pytest.mark.parametrize("value", [3, "x", [True], [0.0], [None], {"0": 1}])
def test_layer_numbers_are_a_list_of_whole_numbers(value):
    error = refusal({**QWEN3_MOE, "mlp_only_layers": value})
    assert error.code == "MOD006"
    assert "mlp_only_layers" in error.cause


def test_layer_numbers_beyond_the_layers_count_for_nothing():
    here = read_config({**QWEN3_MOE, "mlp_only_layers": [-1, 1, 1, 2, 10**30]}, "model")
    assert here.kind_counts == (1, 1)


def test_nan_and_infinity_are_read_where_they_do_not_matter_and_refused_where_they_do(tmp_path):
    file = tmp_path / "odd.json"
    config = {
        **LLAMA,
        "router_aux_loss_coef": math.nan,
        "time_step_limit": [0.0, math.inf],
        "initializer_range": -math.inf,
    }
    file.write_text(json.dumps(config))
    assert "NaN" in file.read_text()
    assert "-Infinity" in file.read_text()
    assert parameter_counts(read_model(str(file))) == parameter_counts(read_config(LLAMA, "odd"))
    file.write_text(json.dumps({**config, "hidden_size": math.inf}))
    with pytest.raises(ModelError, match=r"MOD006.*hidden_size is inf"):
        read_model(str(file))


@pytest.mark.parametrize(
    "changes",
    [
        {"sliding_window": "none"},
        {"num_experts": -1},
        {"rms_norm_eps": "small"},
        {"architectures": 3},
        {"rope_theta": None},
    ],
)
def test_a_field_that_its_family_does_not_use_is_not_looked_at(changes):
    assert parameter_counts(read_config({**LLAMA, **changes}, "model")) == parameter_counts(read_config(LLAMA, "model"))


def test_sizes_that_no_layer_uses_are_not_looked_at():
    assert read_config({**QWEN3_MOE, "intermediate_size": "none"}, "model").layers == 2
    dense = {**QWEN3_MOE, "num_experts": 0, "moe_intermediate_size": "none", "num_experts_per_tok": 9}
    assert parameter_counts(read_config(dense, "model"))["experts"] == 0


def test_a_model_type_that_is_missing_or_no_text_is_refused():
    for config in (
        {},
        without(LLAMA, "model_type"),
        *({**LLAMA, "model_type": odd} for odd in (None, 3, [], {}, True)),
    ):
        error = refusal(config)
        assert error.code == "MOD003"
        assert "llama" in error.fix


@pytest.mark.parametrize("family", ["", "LLAMA", "_common", "__init__", "../llama", "llama.py", "\ud800", "x" * 10_000])
def test_an_unknown_model_type_says_what_would_make_it_known(family):
    error = refusal({**LLAMA, "model_type": family})
    assert error.code == "MOD002"
    assert "qwen3_moe" in error.cause
    assert "model/families/" in error.fix
    assert "entry point" in error.fix


@pytest.mark.parametrize(
    "config",
    [
        # facts of google/recurrentgemma-2b: blocks of a linear recurrence
        {"model_type": "recurrent_gemma", "hidden_size": 2560, "lru_width": 2560, "num_attention_heads": 10},
        # another model in whose config a falcon stands
        {"model_type": "falcon_mamba", "hidden_size": 4096, "state_size": 16},
    ],
)
def test_a_real_model_of_an_unknown_family_is_refused_and_not_guessed(config):
    assert refusal(config).code == "MOD002"


def test_the_error_of_a_missing_field_without_a_default_names_it():
    fields = Fields(data={}, family="mine", origin="the class")
    with pytest.raises(ModelError, match=r"MOD005.*mine: the config has no depth"):
        fields.integer("depth")
    fields = Fields(data={"inner": {}}, family="mine", origin="the class").section("inner")
    with pytest.raises(ModelError, match=r"MOD005.*no inner\.depth"):
        fields.integer("depth")


def test_of_several_names_the_last_one_that_is_present_counts():
    fields = Fields(data={"a": 1, "b": 2}, family="mine", origin="the class")
    assert fields.integer("a", "b", "c") == 2
    assert fields.integer("b", "a") == 1
    assert fields.defaulted == []


def test_every_default_taken_is_listed_with_its_origin():
    model = read_config({"model_type": "llama"}, "model")
    taken = {item.field: item.value for item in model.defaulted}
    assert taken == {
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "head_dim": 128,
        "attention_bias": False,
        "intermediate_size": 11008,
        "mlp_bias": False,
        "num_hidden_layers": 32,
        "vocab_size": 32000,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
        "max_position_embeddings": 2048,
    }
    origins = {item.field: item.origin for item in model.defaulted}
    assert origins.pop("torch_dtype").startswith("assumed")
    assert set(origins.values()) == {"transformers class default of llama"}


@pytest.mark.parametrize("family", USUAL_NAMES)
def test_a_complete_config_takes_no_default(family):
    config = {
        **QWEN3_MOE,
        "model_type": family,
        "num_local_experts": 4,
        "sliding_window": None,
        "attention_bias": False,
        "max_window_layers": 2,
        "layer_types": ["full_attention"] * 2,
        "rope_scaling": {"rope_type": "default"},
        "use_qk_norm": False,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "shared_expert_intermediate_size": 8,
        "qkv_bias": True,
        "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 0,
    }
    assert read_config(config, "model").defaulted == ()


def test_values_are_shown_short_and_as_in_json():
    assert [shown(value) for value in (None, True, False, 3)] == ["null", "true", "false", "3"]
    assert shown(10**5000) == "a number of 16610 bits"
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("x" * 10_000, list(range(10_000)), deep, {str(key): key for key in range(1000)}):
        assert len(shown(value)) < 200
