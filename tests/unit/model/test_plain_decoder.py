"""The plain decoder of shape columns counts as the family whose shapes the columns state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.model.model import parameter_counts
from meshwright.model.reader import read_config, read_model
from tests.unit.model.configs import refusal, without

COLUMNS = {"model_type": "decoder", "layers": 2, "hidden": 16, "ffn": 24, "heads": 4, "vocab": 10}
GPT = {"gated": False, "bias": True, "norm": "layer", "tied": True, "learned_positions": True}


def model_of(**columns):
    return read_config({**COLUMNS, **columns}, "model")


def bare(model):
    """A model without what only tells where it comes from."""
    return replace(
        model, name="", family="", defaulted=(), source=None, notes=(), rope=None, weights=model.plain, kv=model.plain
    )


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        (
            "meta-llama/Llama-3.1-70B",
            {
                "layers": 80, "hidden": 8192, "ffn": 28672, "heads": 64, "kv_heads": 8, "vocab": 128256,
                "positions": 131072,
            },
        ),
        (
            "mistralai/Mixtral-8x7B-v0.1",
            {
                "layers": 32, "hidden": 4096, "ffn": 14336, "heads": 32, "kv_heads": 8, "vocab": 32000,
                "positions": 32768, "experts": 8, "topk": 2,
            },
        ),
        (
            "openai-community/gpt2-xl",
            {
                "layers": 48, "hidden": 1600, "ffn": None, "heads": 25, "vocab": 50257, "positions": 1024, **GPT,
                "torch_dtype": "float32",
            },
        ),
    ],
)  # fmt: skip
def test_columns_make_the_same_model_as_the_config_of_the_same_shapes(name, columns):
    known, made = read_model(name), model_of(**columns)
    assert bare(made) == bare(known)
    assert parameter_counts(made) == parameter_counts(known)


@pytest.mark.parametrize(
    ("columns", "positions", "total"),
    [
        ((80, 8192, 64), 2048, 64_862_437_376),
        ((48, 7168, 56), 2048, 29_975_214_080),
    ],
)
def test_a_published_table_of_shapes_gives_its_published_count(columns, positions, total):
    """mosaicml/llm-foundry, scripts/train/benchmarking/README.md: MPT-70b and MPT-30b, biases and a learned table."""
    layers, hidden, heads = columns
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "ffn": 4 * hidden, "vocab": 50368}
    assert parameter_counts(model_of(**sizes, **GPT, positions=positions))["total"] == total


def test_columns_left_out_or_blank_take_listed_defaults():
    blank = dict.fromkeys(("kv_heads", "head_dim", "gated", "tied", "positions", "experts", "topk", "moe_ffn", "bias"))
    assert model_of(**blank) == model_of()
    taken = {item.field: item.value for item in model_of().defaulted if item.origin == "the plain decoder"}
    assert taken == {
        "bias": False,
        "kv_heads": 4,
        "head_dim": 4,
        "gated": True,
        "experts": 0,
        "learned_positions": False,
        "positions": None,
        "tied": False,
        "norm": "rms",
    }
    assert model_of().max_positions is None


def test_positions_are_the_longest_context_and_a_table_only_where_they_are_learned():
    claimed, learned = model_of(positions=30), model_of(positions=30, learned_positions=True)
    assert (claimed.max_positions, learned.max_positions) == (30, 30)
    assert (claimed.ends.position_rows, learned.ends.position_rows) == (0, 30)
    assert parameter_counts(learned)["total"] - parameter_counts(claimed)["total"] == 30 * 16


def test_experts_are_as_wide_as_they_say_or_as_the_feed_forward_they_replace():
    wide = model_of(experts=4, topk=2).kinds[0].feed_forward
    assert (wide.experts, wide.top_k, wide.intermediate, wide.gated) == (4, 2, 24, True)
    assert model_of(experts=4, topk=2, moe_ffn=6, ffn=None).kinds[0].feed_forward.intermediate == 6
    noted = model_of(experts=4, topk=2, bias=True)
    assert noted.notes == ("bias: attention has biases, the experts have none",)


def test_a_width_of_a_head_may_be_its_own():
    assert model_of(head_dim=10).kinds[0].mixer.head_dim == 10
    assert model_of(hidden=18, head_dim=4).kinds[0].mixer.head_dim == 4


@pytest.mark.parametrize(
    ("config", "code", "word"),
    [
        *((without(COLUMNS, name), "MOD005", name) for name in ("layers", "hidden", "heads", "vocab", "ffn")),
        ({**COLUMNS, "hidden": 18}, "MOD008", "18"),
        ({**COLUMNS, "kv_heads": 3}, "MOD007", "kv_heads=3"),
        ({**COLUMNS, "experts": 4}, "MOD005", "topk"),
        ({**COLUMNS, "experts": 4, "topk": 5}, "MOD010", "topk=5"),
        ({**without(COLUMNS, "ffn"), "experts": 4, "topk": 2}, "MOD005", "moe_ffn"),
        ({**COLUMNS, "learned_positions": True}, "MOD005", "positions"),
        ({**COLUMNS, "positions": 0}, "MOD006", "positions is 0"),
        ({**COLUMNS, "norm": "batch"}, "MOD006", "norm is 'batch'"),
        ({**COLUMNS, "norm": 3}, "MOD006", "norm is 3"),
        ({**COLUMNS, "gated": "yes"}, "MOD006", "gated is 'yes'"),
        ({**COLUMNS, "layers": 10_001}, "MOD012", "layers is 10001"),
    ],
)
def test_columns_that_do_not_go_together_are_refused_by_their_name(config, code, word):
    error = refusal(config)
    assert error.code == code
    assert word in error.cause
