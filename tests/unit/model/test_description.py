"""A model described by its own fields: what a TOML file says is the model, and what it gets wrong is named."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.model.formats import FP16, KV, fp8_block, weight_format
from meshwright.model.model import parameter_bytes, parameter_counts
from meshwright.model.reader import CATALOG, read_model

SMALL = """
hidden = 16
vocab = 10
tied = false
weights = "int4"
kv = "int8"

[[groups]]
count = 1
block.mixer = { heads = 4, kv_heads = 2, head_dim = 4, window = 8 }
block.feed_forward = { intermediate = 24 }

[[groups]]
count = 2
block.mixer = { heads = 4, kv_heads = 2, head_dim = 4 }
block.feed_forward = { experts = 4, top_k = 2, intermediate = 6, shared = { intermediate = 8 } }
"""


def toml(record):
    """The fields of a model as TOML: what is not known (null) is left out, as are defaults taken and the source."""
    return "\n".join(
        f"{name} = {value}" for name, value in values(record).items() if name not in {"defaulted", "source"}
    )


def values(record):
    given = {item.name: getattr(record, item.name) for item in fields(record)}
    return {name: inline(value) for name, value in given.items() if value is not None}


def inline(value):
    if is_dataclass(value):
        return "{ " + ", ".join(f"{name} = {item}" for name, item in values(value).items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    return json.dumps(value)


def written(tmp_path, text):
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("entry", CATALOG.names())
def test_a_catalog_model_written_out_reads_back_equal(entry, tmp_path):
    model = read_model(entry.replace("--", "/"))
    again = read_model(written(tmp_path, toml(model)))
    assert again == replace(model, defaulted=(), source=None)
    assert parameter_counts(again) == parameter_counts(model)
    assert parameter_bytes(again) == parameter_bytes(model)


def test_formats_may_be_names_or_tables(tmp_path):
    model = read_model(written(tmp_path, SMALL))
    assert (model.name, model.family, model.layers, model.max_positions) == ("mine", "described", 3, None)
    assert model.weights == weight_format("int4", model.plain)
    assert model.kv == KV["int8"]
    assert [type(block.feed_forward).__name__ for block in model.kinds] == ["Dense", "Experts"]
    table = '{ name = "mine", bits = 8, compute = "fp8", block = [4, 4], scale_bytes = 4 }'
    other = read_model(written(tmp_path, SMALL.replace('"int4"', table).replace('kv = "int8"', 'plain = "fp16"')))
    assert replace(other.weights, name="fp8[4x4]") == fp8_block(4, 4)
    assert other.kv == other.plain == FP16


def test_options_change_a_described_model(tmp_path):
    file = written(tmp_path, SMALL)
    plain = read_model(file, weights="fp16", kv="fp8")
    assert (plain.weights, plain.plain, plain.kv) == (FP16, FP16, KV["fp8"])
    assert read_model(file, weights="mxfp4").quantized_parts == ("experts",)


@pytest.mark.parametrize(
    ("before", "after", "code", "place"),
    [
        ("hidden = 16", "hidden = 0", "MOD014", "mine.hidden"),
        ("hidden = 16", "", "IO013", "mine.hidden"),
        ("hidden = 16", "width = 16", "IO015", "width"),
        ("top_k = 2", "top_k = 5", "MOD010", "mine"),
        ("top_k = 2", 'top_k = "two"', "IO013", "mine.groups[1].block.feed_forward.top_k"),
        ("top_k = 2", "topk = 2", "IO015", "mine.groups[1].block.feed_forward"),
        ("{ intermediate = 24 }", "{ width = 24 }", "IO015", "mine.groups[0].block.feed_forward"),
        ("kv_heads = 2", "kv_heads = 3", "MOD007", "mine"),
        ('"int4"', '"int3"', "MOD020", "int3"),
        ('"int8"', '"int4"', "MOD023", "int4"),
        ('weights = "int4"', 'plain = "fp8"', "MOD020", "fp8"),
        ('"int4"', '{ name = "x", bits = 65, compute = "bf16" }', "MOD014", "mine.weights.bits"),
        ('"int4"', '{ name = "x", bits = "8", compute = "bf16", group = 2 }', "IO015", "mine.weights"),
        ("[[groups]]", "[[layers]]", "MOD004", "mine.toml"),
        ("hidden = 16", "hidden = 16\nname = 3", "IO013", "mine.name"),
        ("hidden = 16", "hidden = 16\nrope = 3", "IO013", "mine.rope"),
        ("hidden = 16", "hidden = 16\nplain = 3", "IO013", "mine.plain"),
    ],
)
def test_what_a_description_gets_wrong_is_named(before, after, code, place, tmp_path):
    with pytest.raises(MeshwrightError) as caught:
        read_model(written(tmp_path, SMALL.replace(before, after)))
    assert caught.value.code == code
    assert place in caught.value.cause
    assert caught.value.fix
