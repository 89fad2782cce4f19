"""What each family makes of its fields: heads, windows, mixtures, sizes that contradict each other."""

from __future__ import annotations

import pytest

from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.model import parameter_counts
from meshwright.model.reader import FAMILIES, read_config
from tests.unit.model.configs import LLAMA, OWN_NAMES, QWEN3_MOE, USUAL_NAMES, refusal, without

SLIDING, FULL = "sliding_attention", "full_attention"
QWEN2 = {**LLAMA, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}


def windows(config):
    model = read_config(config, "model")
    return [model.kinds[kind].mixer.window for kind in model.kind_of_layer]


def test_the_families_are_the_files_of_their_folder():
    dense = {"gemma2", "gemma3_text", "granite", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3"}
    assert set(USUAL_NAMES) == dense | {"glm4_moe", "gpt_oss", "mixtral", "qwen2_moe", "qwen3_moe"}
    assert set(FAMILIES.names()) == {*USUAL_NAMES, *OWN_NAMES}


def test_counts_of_a_small_llama_follow_by_hand():
    # one block: q 16x16, k and v 8x16, o 16x16; gate, up, down 16x24; two norms
    assert parameter_counts(read_config(LLAMA, "model")) == {
        "total": 2 * (768 + 1152 + 32) + 160 + 16 + 160,
        "embedding": 160,
        "attention": 2 * 768,
        "feed_forward": 2 * 1152,
        "experts": 0,
        "router": 0,
        "norms": 2 * 32 + 16,
        "head": 160,
        "other": 0,
    }


def test_a_tied_head_counts_once_under_embedding():
    tied = parameter_counts(read_config({**LLAMA, "tie_word_embeddings": True}, "model"))
    apart = parameter_counts(read_config(LLAMA, "model"))
    assert (tied["embedding"], tied["head"]) == (160, 0)
    assert tied["total"] == apart["total"] - 160


def test_the_width_of_a_head_need_not_follow_from_the_hidden_size():
    mixer = read_config({**LLAMA, "head_dim": 10}, "model").kinds[0].mixer
    assert mixer.head_dim == 10
    assert mixer.weights(16)[0].shape == (40, 16)


@pytest.mark.parametrize(
    "family", ["glm4_moe", "granite", "llama", "mistral", "mixtral", "olmo2", "phi3", "qwen2", "qwen3_moe"]
)
def test_a_missing_head_width_is_derived_or_refused(family):
    config = {**without(QWEN3_MOE, "head_dim"), "model_type": family}
    model = read_config(config, "model")
    assert model.kinds[0].mixer.head_dim == 4
    assert ("head_dim", 4) in {(item.field, item.value) for item in model.defaulted}
    for odd in ({**config, "hidden_size": 18}, {**config, "hidden_size": 18, "head_dim": None}):
        error = refusal(odd)
        assert error.code == "MOD008"
        assert "num_attention_heads=4 does not divide hidden_size=18" in error.cause


@pytest.mark.parametrize("family", USUAL_NAMES)
def test_a_head_of_odd_width_is_refused(family):
    error = refusal({**QWEN3_MOE, "model_type": family, "head_dim": 5})
    assert error.code == "MOD008"
    assert "head_dim=5 is odd" in error.cause


def test_qwen3_has_a_head_width_of_its_own_whatever_the_hidden_size():
    config = {**without(LLAMA, "head_dim"), "model_type": "qwen3", "hidden_size": 18}
    assert read_config(config, "model").kinds[0].mixer.head_dim == 128


@pytest.mark.parametrize("family", USUAL_NAMES)
def test_null_kv_heads_mean_one_a_query_head(family):
    config = {**QWEN3_MOE, "model_type": family, "num_key_value_heads": None}
    assert read_config(config, "model").kinds[0].mixer.kv_heads == 4


@pytest.mark.parametrize("kv_heads", [3, 8])
def test_kv_heads_that_do_not_divide_the_query_heads_are_refused(kv_heads):
    error = refusal({**LLAMA, "num_key_value_heads": kv_heads})
    assert error.code == "MOD007"
    assert f"num_key_value_heads={kv_heads}" in error.cause


def test_windows_lie_on_the_layers_from_max_window_layers_on():
    assert windows(QWEN2) == [None, 8]
    assert windows({**QWEN2, "max_window_layers": 0}) == [8, 8]
    assert windows({**QWEN2, "max_window_layers": 9}) == [None, None]
    assert windows({**QWEN2, "use_sliding_window": False}) == [None, None]
    assert windows({**QWEN2, "sliding_window": None}) == [None, None]


def test_layer_types_come_before_max_window_layers():
    model = read_config({**without(QWEN2, "max_window_layers"), "layer_types": [SLIDING, FULL]}, "model")
    assert [block.mixer.window for block in model.kinds] == [8, None]
    assert model.defaulted == ()


def test_a_window_of_mistral_lies_on_every_layer():
    assert windows({**LLAMA, "model_type": "mistral"}) == [4096, 4096]
    assert windows({**LLAMA, "model_type": "mistral", "sliding_window": None}) == [None, None]


def test_a_window_of_llama_counts_only_with_layer_types():
    alone = read_config({**LLAMA, "sliding_window": 8}, "model")
    assert [block.mixer.window for block in alone.kinds] == [None]
    assert alone.notes == ("sliding_window=8 is not used: llama layers see every position",)
    assert windows({**LLAMA, "sliding_window": 8, "layer_types": [SLIDING, FULL]}) == [8, None]


@pytest.mark.parametrize("family", USUAL_NAMES)
@pytest.mark.parametrize("kinds", [[FULL], [FULL] * 3, [FULL, "chunked_attention"], [], [SLIDING, FULL]])
def test_layer_types_that_do_not_describe_the_layers_are_refused(family, kinds):
    config = {**QWEN3_MOE, "model_type": family, "sliding_window": None, "layer_types": kinds}
    error = refusal(config)
    assert error.code == "MOD009"
    assert "layer_types" in error.cause


def test_experts_lie_on_every_nth_layer_unless_listed_as_dense():
    def sparse(**changes):
        model = read_config({**QWEN3_MOE, "num_hidden_layers": 6, **changes}, "model")
        kinds = [isinstance(model.kinds[kind].feed_forward, Experts) for kind in model.kind_of_layer]
        return [layer for layer, is_sparse in enumerate(kinds) if is_sparse]

    assert sparse() == [0, 1, 2, 3, 4, 5]
    assert sparse(decoder_sparse_step=2) == [1, 3, 5]
    assert sparse(decoder_sparse_step=2, mlp_only_layers=[3]) == [1, 5]
    assert sparse(mlp_only_layers=None) == [0, 1, 2, 3, 4, 5]
    assert sparse(decoder_sparse_step=9) == []
    assert sparse(num_experts=0) == []


def test_a_mixture_without_experts_is_dense():
    assert read_config({**QWEN3_MOE, "num_experts": 0}, "model").kinds[0].feed_forward == Dense(intermediate=24)


def test_more_experts_a_token_than_there_are_is_refused():
    for config in ({**QWEN3_MOE, "num_experts_per_tok": 5}, without(QWEN3_MOE, "num_experts_per_tok")):
        assert refusal(config).code == "MOD010"


@pytest.mark.parametrize(("family", "field"), [("mixtral", "num_experts"), ("qwen3_moe", "num_local_experts")])
def test_an_alias_of_the_experts_is_named_when_it_is_wrong(family, field):
    error = refusal({**QWEN3_MOE, "model_type": family, "num_experts": 4, "num_local_experts": 4, field: -1})
    assert f"{family}: {field} is -1" in error.cause


def test_layers_described_one_by_one_are_refused():
    error = refusal({**LLAMA, "per_layer_config": {"0": {"intermediate_size": 8}}})
    assert error.code == "MOD013"
    assert read_config({**LLAMA, "per_layer_config": None}, "model").layers == 2


def test_a_config_beyond_any_model_is_refused_before_numbers_overflow():
    assert refusal({**LLAMA, "num_hidden_layers": 10_001}).code == "MOD012"
    assert refusal({**LLAMA, "vocab_size": 10**9, "hidden_size": 10**9}).code == "MOD012"


def test_the_stretching_of_positions_is_reported():
    scaling = {"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 8192.0}
    rope = read_config({**LLAMA, "rope_scaling": scaling}, "model").rope
    assert (rope.kind, rope.factor, rope.original_positions) == ("llama3", 8.0, 8192)
    old = read_config({**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.0}}, "model").rope
    assert (old.kind, old.factor, old.original_positions) == ("linear", 2.0, None)
    new = read_config({**LLAMA, "rope_scaling": None, "rope_parameters": {"rope_theta": 1e4}}, "model").rope
    assert (new.kind, new.factor) == ("default", None)
    assert read_config(LLAMA, "model").rope is None
