"""A config that wraps a text decoder is read as that decoder; the rest is named."""

from __future__ import annotations

import pytest

from meshwright.model.model import parameter_counts
from meshwright.model.reader import read_config
from meshwright.scenarios.inspect import apart
from tests.unit.model.configs import LLAMA, refusal, without

WRAPPER = {"model_type": "some_vl", "text_config": LLAMA, "vision_config": {"hidden_size": 8}}


def test_the_text_decoder_is_read_and_the_vision_tower_stands_apart():
    model = read_config(WRAPPER, "model")
    alone = read_config(LLAMA, "model")
    assert parameter_counts(model) == parameter_counts(alone)
    assert [item.name for item in model.apart] == ["vision"]
    assert apart(model)["vision"]["parameters"] is None
    assert apart(alone)["vision"] == 0


def test_a_wrapper_without_vision_has_nothing_apart():
    assert read_config(without(WRAPPER, "vision_config"), "model").apart == ()
    assert read_config({**WRAPPER, "vision_config": None}, "model").apart == ()


def test_other_parts_beside_the_text_decoder_are_named():
    model = read_config({**WRAPPER, "audio_config": {}, "generation_config": {}}, "model")
    assert model.notes == ("audio_config: this part is neither counted nor placed",)


def test_a_text_model_type_is_known_with_and_without_its_suffix():
    inner = {**LLAMA, "model_type": "llama_text"}
    assert read_config({**WRAPPER, "text_config": inner}, "model").family == "llama"


def test_a_wrapper_without_a_model_type_is_read_too():
    assert read_config(without(WRAPPER, "model_type"), "model").family == "llama"


def test_an_unknown_text_decoder_is_refused_by_its_name():
    error = refusal({**WRAPPER, "text_config": {**LLAMA, "model_type": "acme_text"}})
    assert error.code == "MOD002"
    assert "'acme'" in error.cause


def test_a_text_decoder_without_a_model_type_is_refused():
    assert refusal({**WRAPPER, "text_config": without(LLAMA, "model_type")}).code == "MOD003"


@pytest.mark.parametrize("inner", [[], "llama", 3, True])
def test_a_text_config_that_is_no_object_is_refused(inner):
    assert refusal({**WRAPPER, "text_config": inner}).code == "MOD006"


def test_only_one_level_is_followed():
    config = {"model_type": "outer", "text_config": {"model_type": "middle", "text_config": LLAMA}}
    assert refusal(config).code == "MOD002"
    for _ in range(3000):
        config = {"model_type": "outer", "text_config": config}
    assert refusal(config).code == "MOD002"


def test_a_known_family_is_read_from_its_own_fields():
    assert read_config({**LLAMA, "text_config": {"num_hidden_layers": 9}}, "model").layers == 2


def test_a_tied_head_may_be_said_outside():
    inner = without(LLAMA, "tie_word_embeddings")
    assert read_config({**WRAPPER, "text_config": inner, "tie_word_embeddings": True}, "model").tied
    assert not read_config({**WRAPPER, "text_config": inner, "tie_word_embeddings": False}, "model").tied


def test_where_both_tie_differently_the_text_decoder_counts_and_a_note_says_so():
    model = read_config({**WRAPPER, "tie_word_embeddings": True}, "model")
    assert not model.tied
    assert model.notes == ("tie_word_embeddings is true outside text_config: what text_config says is used",)
    assert read_config({**WRAPPER, "tie_word_embeddings": False}, "model").notes == ()


def test_a_dtype_inside_comes_before_one_outside():
    inner = without(LLAMA, "torch_dtype")
    assert read_config({**WRAPPER, "text_config": inner, "dtype": "float32"}, "model").plain.name == "fp32"
    assert read_config({**WRAPPER, "dtype": "float32"}, "model").plain.name == "bf16"
    assert (
        read_config({**WRAPPER, "text_config": {**inner, "dtype": None}, "dtype": "float32"}, "model").kv.name == "fp32"
    )


def test_a_quantization_outside_covers_the_text_decoder():
    settings = {"quant_method": "fp8", "weight_block_size": [4, 4], "modules_to_not_convert": ["visual", "lm_head"]}
    assert read_config({**WRAPPER, "quantization_config": settings}, "model").weights.name == "fp8[4x4]"
