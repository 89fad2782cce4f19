"""Whatever a config holds, reading it gives a model or a coded error of the right prefix."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.base.errors import FileError, ModelError
from meshwright.base.result import plain
from meshwright.model.model import format_bytes, parameter_bytes, parameter_counts
from meshwright.model.reader import FAMILIES, read_config, read_model
from tests.unit.model.configs import QWEN3_MOE

COMPLETE = {
    **QWEN3_MOE,
    "num_local_experts": 4,
    "sliding_window": 8,
    "max_window_layers": 1,
    "layer_types": ["full_attention", "sliding_attention"],
    "use_sliding_window": True,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [8, 8], "modules_to_not_convert": ["lm_head"]},
    "per_layer_config": None,
    # of the families with names of their own
    **dict.fromkeys(("n_embd", "n_embed", "d_model", "hidden", "n_positions", "max_seq_len", "seq_length"), 16),
    **dict.fromkeys(("n_head", "n_heads", "heads", "kv_heads"), 4),
    **dict.fromkeys(("n_layer", "n_layers", "layers", "num_kv_heads", "topk", "num_ln_in_parallel_attn"), 2),
    **dict.fromkeys(("n_inner", "ffn_hidden_size", "ffn_dim", "ffn", "moe_ffn", "word_embed_proj_dim"), 6),
    **dict.fromkeys(("multi_query", "parallel_attn", "bias", "gated", "enable_bias", "do_layer_norm_before"), True),
    **dict.fromkeys(("alibi", "new_decoder_architecture", "tied", "learned_positions"), False),
    **dict.fromkeys(("layer_norm_elementwise_affine", "_remove_final_layer_norm", "add_cross_attention"), False),
    "rotary_pct": 0.5,
    "attn_config": {"alibi": True, "attn_type": "multihead_attention", "qk_ln": False},
    "experts": 4,
    "head_dim": 4,
    "vocab": 10,
    "positions": 64,
    "norm": "layer",
    "text_config": None,
}
KEYS = [key for key in COMPLETE if key != "model_type"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 20),
    st.integers(),
    st.floats(),
    st.text(),
    st.sampled_from(["full_attention", "fp8", "bfloat16", "llama", "rms", ""]),
)
HUGE = st.sampled_from([30, 63, 64, 1300, 16_000]).map(lambda bits: 2**bits)  # the last ones Python does not print


def nested(scalars):
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    )


VALUES = nested(SCALARS | HUGE)


def outcome(action, *arguments, **options):
    """What an action returns, or the coded error that it raises; any other error fails the test."""
    try:
        return action(*arguments, **options)
    except (ModelError, FileError) as error:
        return error


def assert_read_or_refused(config):
    found = outcome(read_config, config, "model")
    if isinstance(found, Exception):
        assert re.fullmatch(r"MOD\d{3}", found.code)
        assert found.fix
        assert len(found.message) < 600
    else:
        assert 0 < parameter_counts(found)["total"] <= 10**16
        assert sum(format_bytes(found).values()) == parameter_bytes(found)["total"]
        json.dumps(plain(found), allow_nan=False)
        hash(found)


@pytest.mark.parametrize("family", FAMILIES.names())
@given(changes=st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3))
def test_changed_fields(family, changes):
    assert_read_or_refused({**COMPLETE, "model_type": family, **changes})


@pytest.mark.parametrize("family", FAMILIES.names())
@given(changes=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3), kept=st.sets(st.sampled_from(KEYS)))
def test_changed_fields_of_a_nested_text_decoder(family, changes, kept):
    inner = {"model_type": family, **{key: COMPLETE[key] for key in kept}}
    assert_read_or_refused({**changes, "text_config": inner})


@given(section=st.sampled_from(["rope_scaling", "quantization_config"]), changes=st.data())
def test_changed_fields_of_a_section(section, changes):
    inner = COMPLETE[section]
    drawn = changes.draw(st.dictionaries(st.sampled_from([*inner, "scale_fmt", "ignored_layers"]), VALUES, min_size=1))
    assert_read_or_refused({**COMPLETE, section: {**inner, **drawn}})


@given(config=st.dictionaries(st.sampled_from(["model_type", "text_config", *KEYS]) | st.text(), VALUES))
def test_any_object(config):
    assert_read_or_refused(config)


@given(content=st.binary() | st.text().map(str.encode) | nested(SCALARS).map(json.dumps).map(str.encode))
def test_any_file(content, tmp_path_factory):
    file = tmp_path_factory.mktemp("odd") / "config.json"
    file.write_bytes(content)
    with pytest.raises((ModelError, FileError)):
        read_model(str(file))


@given(name=st.text())
def test_any_name_that_names_nothing(name, tmp_path_factory):
    cache = tmp_path_factory.getbasetemp()
    found = outcome(read_model, f"odd{name}", cache=cache)
    assert isinstance(found, Exception)
    assert found.code in {"MOD001", "IO010"}
