"""What gpt-oss, Gemma, Phi-3, GLM-4.5, OLMo 2 and Granite make of their fields."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.cost.model_flops import active_parameters
from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.model import parameter_bytes, parameter_counts
from meshwright.model.reader import read_config
from meshwright.scenarios.inspect import apart, kv_by_kind
from tests.unit.model.configs import LLAMA, QWEN3_MOE, read_entry, refusal, without

SLIDING, FULL = "sliding_attention", "full_attention"
PLAIN = without(LLAMA, "attention_bias", "mlp_bias")
MIXTURE = without(QWEN3_MOE, "num_experts")
GPT_OSS = {**MIXTURE, "model_type": "gpt_oss", "num_hidden_layers": 4, "sliding_window": 8, "num_local_experts": 4}
GEMMA2 = {**PLAIN, "model_type": "gemma2", "num_hidden_layers": 4, "sliding_window": 8}
GEMMA3 = {**GEMMA2, "model_type": "gemma3_text"}
GLM = {
    **MIXTURE,
    "model_type": "glm4_moe",
    "num_hidden_layers": 3,
    "n_routed_experts": 4,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
    "use_qk_norm": False,
}


def read(config, **changes):
    return read_config({**config, **changes}, "model")


def windows(model):
    return [model.kinds[kind].mixer.window for kind in model.kind_of_layer]


def taken(model):
    return {item.field: item.value for item in model.defaulted}


@pytest.mark.parametrize("config", [GPT_OSS, GEMMA2])
def test_every_other_layer_slides_the_first_included(config):
    model = read(config)
    assert windows(model) == [8, None, 8, None]
    assert taken(model)["layer_types"] == f"{SLIDING}, {FULL}, alternating"
    told = read(config, layer_types=[FULL, SLIDING, FULL, FULL])
    assert windows(told) == [None, 8, None, None]
    assert "layer_types" not in taken(told)
    assert windows(read(config, layer_types=None)) == [8, None, 8, None]


def test_one_gemma3_layer_in_six_is_full_unless_its_pattern_says_otherwise():
    model = read(GEMMA3, num_hidden_layers=13)
    assert [layer for layer, window in enumerate(windows(model)) if window is None] == [5, 11]
    assert taken(model)["sliding_window_pattern"] == 6
    assert windows(read(GEMMA3, sliding_window_pattern=3)) == [8, 8, None, 8]
    assert windows(read(GEMMA3, sliding_window_pattern=1)) == [None] * 4
    told = read(GEMMA3, layer_types=[FULL, SLIDING, FULL, FULL], sliding_window_pattern="none")
    assert windows(told) == [None, 8, None, None]
    for odd in (0, -1, None, "6"):
        assert refusal({**GEMMA3, "sliding_window_pattern": odd}).code == "MOD006"


@pytest.mark.parametrize("config", [GPT_OSS, GEMMA2, GEMMA3])
def test_layers_that_slide_need_a_size(config):
    error = refusal({**config, "sliding_window": None})
    assert error.code == "MOD009"
    assert "sliding_window" in error.fix
    assert windows(read(config, sliding_window=None, layer_types=[FULL] * 4)) == [None] * 4
    missing = read(without(config, "sliding_window"))
    assert windows(missing)[0] == taken(missing)["sliding_window"]


@pytest.mark.parametrize("config", [GEMMA2, GEMMA3])
@pytest.mark.parametrize("value", [True, 1, "vision"])
def test_attention_that_looks_ahead_is_refused(config, value):
    error = refusal({**config, "use_bidirectional_attention": value})
    assert error.code == "MOD013"
    for causal in (None, False):
        assert read(config, use_bidirectional_attention=causal) == read(config)


@pytest.mark.parametrize("config", [GEMMA2, GEMMA3])
def test_gemma_ties_its_head_and_has_four_norms_a_block(config):
    model = read(without(config, "tie_word_embeddings"))
    assert model.tied
    assert taken(model)["tie_word_embeddings"] is True
    assert not read(config, tie_word_embeddings=False).tied
    assert len(model.kinds[0].norms) == 4
    own = 2 * 4 if config is GEMMA3 else 0
    assert parameter_counts(model)["norms"] == 4 * (4 * 16 + own) + 16


@pytest.mark.parametrize(("config", "width"), [(GPT_OSS, 64), (GEMMA2, 256), (GEMMA3, 256)])
def test_a_width_of_a_head_that_a_class_states_is_not_derived(config, width):
    model = read(without(config, "head_dim"))
    assert model.kinds[0].mixer.head_dim == taken(model)["head_dim"] == width
    assert refusal({**config, "head_dim": None}).code == "MOD006"


def test_counts_of_a_small_gpt_oss_follow_by_hand():
    counts = parameter_counts(read(GPT_OSS, attention_bias=True))
    # q and o 16x16, k and v 8x16, their biases 16 + 8 + 8 + 16, four sinks
    assert counts["attention"] == 4 * (2 * 256 + 2 * 128 + 48 + 4)
    # four experts of gate and up 24x16 + 24, down 16x24 + 16
    assert counts["experts"] == 4 * 4 * (2 * (384 + 24) + 384 + 16)
    assert counts["router"] == 4 * (4 * 16 + 4)
    assert parameter_counts(read(GPT_OSS, attention_bias=False))["attention"] == counts["attention"] - 4 * 48


def test_gpt_oss_stretches_its_positions_unless_told():
    model = read(GPT_OSS)
    assert (model.rope.kind, model.rope.factor, model.rope.original_positions) == ("yarn", 32.0, 4096)
    assert taken(model)["rope_scaling"] == "yarn, factor 32"
    told = read(GPT_OSS, rope_scaling={"rope_type": "yarn", "factor": 2.0})
    assert told.rope.factor == 2.0
    assert "rope_scaling" not in taken(told)


def test_positions_stretched_by_kind_of_layer_are_those_of_full_attention():
    by_kind = {SLIDING: {"rope_type": "default"}, FULL: {"rope_type": "linear", "factor": 8.0}}
    rope = read(GEMMA3, rope_parameters=by_kind).rope
    assert (rope.kind, rope.factor) == ("linear", 8.0)
    assert refusal({**GEMMA3, "rope_parameters": {FULL: 3}}).code == "MOD006"


def test_a_window_of_phi3_lies_on_every_layer():
    phi3 = {**PLAIN, "model_type": "phi3"}
    assert windows(read(phi3, sliding_window=8)) == [8, 8]
    assert windows(read(phi3)) == [None, None]
    assert taken(read(phi3))["sliding_window"] is None


def test_scales_of_phi3_are_said_to_be_those_of_its_parts():
    settings = {"quant_method": "fp8", "weight_block_size": [4, 4]}
    notes = read({**PLAIN, "model_type": "phi3"}, quantization_config=settings).notes
    assert any("fused as stored" in note for note in notes)
    assert read({**PLAIN, "model_type": "phi3"}).notes == ()


def test_olmo2_has_no_norm_before_a_half_and_one_over_all_heads():
    model = read(PLAIN, model_type="olmo2")
    assert model.kinds[0].norms == ("post_attention_layernorm", "post_feedforward_layernorm")
    assert parameter_counts(model)["norms"] == 2 * (2 * 16 + 16 + 8) + 16
    assert any("not modelled" in note for note in model.notes)


def test_granite_is_shaped_as_llama():
    config = {**LLAMA, "embedding_multiplier": 12.0, "logits_scaling": 8.0, "mlp_bias": True, "attention_bias": True}
    llama, granite = read(config), read(config, model_type="granite")
    assert replace(granite, family="llama") == llama


@pytest.mark.parametrize("family", ["glm4_moe", "granite", "olmo2"])
def test_a_window_counts_only_with_layer_types(family):
    config = {**QWEN3_MOE, "model_type": family, "sliding_window": 8}
    alone = read(config)
    assert windows(alone) == [None, None]
    assert f"sliding_window=8 is not used: {family} layers see every position" in alone.notes
    assert windows(read(config, layer_types=[SLIDING, FULL])) == [8, None]


def test_the_first_glm_layers_are_dense_and_the_others_share_experts():
    layers = [read(GLM).kinds[kind].feed_forward for kind in read(GLM).kind_of_layer]
    assert layers[0] == Dense(intermediate=24)
    shared = Dense(intermediate=2 * 6)
    expected = Experts(experts=4, top_k=2, intermediate=6, shared=shared, router_fp32=True)
    assert layers[1:] == [expected] * 2
    alone = read(GLM, n_shared_experts=0, first_k_dense_replace=0)
    assert [block.feed_forward for block in alone.kinds] == [replace(expected, shared=None)]


def test_sizes_of_glm_that_no_layer_uses_are_not_looked_at():
    dense = {"first_k_dense_replace": 9, "num_nextn_predict_layers": 0, "n_routed_experts": "many"}
    assert parameter_counts(read(GLM, **dense))["experts"] == 0
    assert read(GLM, first_k_dense_replace=0, intermediate_size="none").layers == 3


def test_what_glm_has_beside_its_decoder_stands_apart():
    model = read(GLM)
    assert apart(model)["buffers"] == 2 * 4
    # attention 768, four experts and two shared ones of 3x6x16, a router, two norms; then the product and three norms
    assert apart(model)["mtp"] == 768 + 6 * 288 + 64 + 32 + 2 * 16 * 16 + 3 * 16
    assert apart(read(GLM, num_nextn_predict_layers=3))["mtp"] == 3 * apart(model)["mtp"]
    for none in (0, None):
        assert apart(read(GLM, num_nextn_predict_layers=none))["mtp"] == 0
    assert parameter_counts(model) == parameter_counts(read(GLM, num_nextn_predict_layers=0))
    assert apart(read(without(GLM, "num_nextn_predict_layers"), num_mtp_layers=0))["mtp"] == 0
    assert apart(read(GLM, first_k_dense_replace=3))["buffers"] == 0


def test_more_predictors_than_any_model_has_are_refused():
    assert refusal({**GLM, "num_nextn_predict_layers": 10_001}).code == "MOD012"
    assert refusal({**GLM, "num_nextn_predict_layers": -1}).code == "MOD006"


def test_biases_of_glm_lie_on_queries_keys_and_values_only():
    names = {tensor.name for tensor in read(GLM, attention_bias=True).kinds[0].mixer.weights(16)}
    assert "self_attn.v_proj.bias" in names
    assert "self_attn.o_proj.bias" not in names


def test_a_router_of_glm_is_stored_in_fp32():
    assert parameter_bytes(read(GLM))["router"] == 4 * parameter_counts(read(GLM))["router"]


@pytest.mark.parametrize(
    ("family", "field"),
    [
        ("gpt_oss", "num_local_experts"),
        ("gpt_oss", "num_experts_per_tok"),
        ("glm4_moe", "n_routed_experts"),
        ("glm4_moe", "n_shared_experts"),
        ("glm4_moe", "moe_intermediate_size"),
        ("glm4_moe", "first_k_dense_replace"),
        ("glm4_moe", "use_qk_norm"),
        ("phi3", "sliding_window"),
        ("gemma2", "sliding_window"),
        ("olmo2", "attention_bias"),
        ("granite", "mlp_bias"),
    ],
)
@pytest.mark.parametrize("value", ["8", -1, 2.5, [1], 10**10])
def test_an_odd_value_is_refused_by_the_name_of_its_field(family, field, value):
    base = {"gpt_oss": GPT_OSS, "glm4_moe": GLM}.get(family, {**PLAIN, "model_type": family})
    error = refusal({**base, field: value})
    assert error.code == "MOD006"
    assert f"{family}: {field} is" in error.cause


def test_more_experts_a_token_than_there_are_is_refused():
    assert refusal({**GPT_OSS, "num_experts_per_tok": 5}).code == "MOD010"
    assert refusal({**GLM, "num_experts_per_tok": 5}).code == "MOD010"


def test_a_sparse_multimodal_config_takes_its_sizes_from_the_text_class():
    model = read_entry("google--gemma-3-12b-it")
    assert (model.family, model.vocab, model.max_positions, model.tied) == ("gemma3_text", 262208, 131072, True)
    assert model.kinds[0].mixer.head_dim == 256
    assert taken(model) == {
        "sliding_window_pattern": 6,
        "head_dim": 256,
        "attention_bias": False,
        "vocab_size": 262208,
        "tie_word_embeddings": True,
        "max_position_embeddings": 131072,
    }
    assert windows(model).count(1024) == 40
    assert kv_by_kind(model) == {SLIDING: 40 * 2 * 8 * 256 * 2, FULL: 8 * 2 * 8 * 256 * 2}
    assert apart(model)["vision"]["parameters"] is None
    assert parameter_counts(model)["total"] == 11_766_034_176


def test_active_parameters_of_gpt_oss_are_the_published_ones():
    """gpt-oss model card, table 1: 5.13B and 3.61B a token, the embedding left out."""
    for name, active in (("openai--gpt-oss-120b", 5.13e9), ("openai--gpt-oss-20b", 3.61e9)):
        model = read_entry(name)
        assert active_parameters(model) - parameter_counts(model)["embedding"] == pytest.approx(active, rel=2e-3)
