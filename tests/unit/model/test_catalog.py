"""The models that come with the package, and those that others add."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from datetime import date

import pytest

from meshwright.base import registry
from meshwright.base.errors import FileError, ModelError
from meshwright.model.model import parameter_counts
from meshwright.model.reader import CATALOG, FAMILIES, read_model
from tests.unit.model.configs import read_entry

# What the published config leaves to the class.
SPARSE = {
    "google--gemma-3-12b-it": {
        "vocab_size",
        "sliding_window_pattern",
        "tie_word_embeddings",
        "max_position_embeddings",
    },
    "moonshotai--Kimi-Linear-48B-A3B-Instruct": {"q_lora_rank"},  # null in its config: queries are not reduced
    # no config is published: what its sources do not state is assumed, and said so
    "moonshotai--Kimi-K3": {
        "vocab",
        "groups",
        "groups.*.block.mixer.heads",
        "groups.*.block.mixer.head_dim",
        "groups.*.block.mixer.query_rank",
        "groups.*.block.feed_forward.intermediate",
        "groups.*.block.feed_forward.shared.intermediate",
    },
}
ENTRY = """
[source]
title = "a model of ours"
place = "our wiki"
read = "2026-11-29"

[config]
model_type = "acme"
width = 16
"""
FAMILY = '''
"""Acme: one block."""
from meshwright.model.feed_forwards import Dense
from meshwright.model.mixers import Attention
from meshwright.model.model import Block, Model, group_blocks


def read(fields, name):
    width = fields.integer("width")
    block = Block(mixer=Attention(heads=2, kv_heads=1, head_dim=width), feed_forward=Dense(intermediate=width))
    return Model(
        name=name, family="acme", hidden=width, vocab=width, tied=True, groups=group_blocks([block]),
        max_positions=None, defaulted=tuple(fields.defaulted),
    )
'''


@pytest.fixture
def acme(tmp_path, monkeypatch):
    """An installed distribution with a family and a catalog entry, each in one file."""
    info = tmp_path / "acme_models-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-models\nVersion: 1.0\n")
    points = [
        "families.acme = acme_models.family",
        "models.acme--Tiny-1.5B = acme_models",
        "families.llama = acme_models.family",
    ]
    (info / "entry_points.txt").write_text("\n".join(["[meshwright]", *points]))
    package = tmp_path / "acme_models"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "family.py").write_text(FAMILY)
    (package / "acme--Tiny-1.5B.toml").write_text(ENTRY)
    monkeypatch.syspath_prepend(tmp_path)
    registry._installed.cache_clear()
    yield package
    registry._installed.cache_clear()
    for name in [item for item in sys.modules if item.startswith("acme_models")]:
        del sys.modules[name]


@pytest.mark.parametrize("entry", CATALOG.names())
def test_a_catalog_entry_says_where_and_when_it_was_read(entry):
    source = read_entry(entry).source
    assert source.key == entry
    assert source.title
    assert source.place
    assert date.fromisoformat(source.read) <= date(2100, 1, 1)


@pytest.mark.parametrize("entry", CATALOG.names())
def test_a_catalog_entry_leaves_no_size_to_a_default(entry):
    taken = {item.field for item in read_entry(entry).defaulted}
    assert taken - SPARSE.get(entry, set()) <= {
        "head_dim",
        "attention_bias",
        "mlp_bias",
        "sliding_window",
        "layer_types",
        "decoder_sparse_step",
        "use_sliding_window",
        "torch_dtype",
        "add_cross_attention",
        "enable_bias",
        "ffn_hidden_size",
        "layer_norm_elementwise_affine",
        "n_inner",
        "num_ln_in_parallel_attn",
    }


def test_only_formats_that_are_not_read_keep_an_entry_from_being_read_as_it_is():
    refused = {}
    for entry in CATALOG.names():
        try:
            read_model(entry.replace("--", "/"))
        except ModelError as error:
            refused[entry] = (error.code, "--weights bf16" in error.fix)
    assert set(refused) <= {"openai--gpt-oss-120b", "openai--gpt-oss-20b"}
    assert set(refused.values()) <= {("MOD021", True)}


@pytest.mark.parametrize("entry", CATALOG.names())
def test_a_catalog_entry_has_no_fields_but_source_and_config_or_those_of_a_model(entry):
    found = set(tomllib.loads(CATALOG.text(entry)))
    assert found == {"source", "config"} or ({"source", "groups"} <= found and "config" not in found)


def test_the_catalog_holds_the_models_of_the_chapters():
    known = {
        "Qwen/Qwen3-32B",
        "Qwen/Qwen3-235B-A22B",
        "Qwen/Qwen3-235B-A22B-FP8",
        "Qwen/Qwen3-8B",
        "mistralai/Mixtral-8x7B-v0.1",
        "openai/gpt-oss-120b",
        "google/gemma-3-12b-it",
        "zai-org/GLM-4.5-Air",
    }
    known |= {
        "meta-llama/Llama-2-7b-hf",
        "meta-llama/Llama-3.1-8B",
        "meta-llama/Llama-3.1-70B",
        "meta-llama/Llama-3.1-405B",
    }
    assert known <= {entry.replace("--", "/") for entry in CATALOG.names()}


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("Qwen/Qwen2.5-7B", 7_615_616_512),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-32B", 32_762_123_264),
        ("Qwen/Qwen3-235B-A22B", 235_093_634_560),
        ("meta-llama/Llama-2-7b-hf", 6_738_415_616),
        ("meta-llama/Llama-3.1-8B", 8_030_261_248),
        ("meta-llama/Llama-3.1-405B", 405_853_388_800),
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
        ("openai/gpt-oss-120b", 116_829_156_672),
        ("openai/gpt-oss-20b", 20_914_757_184),
        ("google/gemma-2-9b", 9_241_705_984),
        ("microsoft/Phi-3-mini-4k-instruct", 3_821_079_552),
        ("allenai/OLMo-2-1124-7B", 7_298_617_344),
        ("ibm-granite/granite-3.0-8b-base", 8_170_848_256),
        ("openai-community/gpt2", 124_439_808),
        ("openai-community/gpt2-large", 774_030_080),
        ("openai-community/gpt2-xl", 1_557_611_200),
        ("Qwen/Qwen2.5-32B", 32_763_876_352),
        ("Qwen/Qwen2.5-72B", 72_706_203_648),
        ("meta-llama/Meta-Llama-3-8B", 8_030_261_248),
        ("meta-llama/Meta-Llama-3-70B", 70_553_706_496),
        ("meta-llama/Llama-3.3-70B-Instruct", 70_553_706_496),
        ("EleutherAI/gpt-neox-20b", 20_554_567_680),
        ("bigscience/bloom", 176_247_271_424),
        ("facebook/opt-125m", 125_239_296),
        ("facebook/opt-350m", 331_196_416),
        ("facebook/opt-6.7b", 6_658_473_984),
    ],
)
def test_published_parameter_counts_are_met(name, total):
    """As the safetensors headers on the hub state them (gpt-oss: of its bf16 copies)."""
    assert parameter_counts(read_entry(name))["total"] == total


def test_gpt_3_has_the_parameters_of_its_paper_and_those_of_the_padded_vocabulary():
    """arXiv:2005.14165, table 2.1: 175.0B; arXiv:2104.04473, table 1: 174.6B with 51200 rows."""
    model = read_entry("gpt3-175b")
    assert parameter_counts(model)["total"] == pytest.approx(175e9, rel=3e-3)
    assert parameter_counts(replace(model, vocab=51200))["total"] == pytest.approx(174.6e9, rel=3e-4)


def test_the_published_file_of_glm_holds_what_is_counted_and_what_stands_apart():
    """Its safetensors hold 110,468,824,832 elements: the predictor repeats embedding and head, and has biases too."""
    model = read_entry("zai-org/GLM-4.5-Air")
    counts, beside = parameter_counts(model), {item.name: item.parameters for item in model.apart}
    repeated = counts["embedding"] + counts["head"]
    assert counts["total"] + beside["mtp"] + repeated + beside["buffers"] + 128 == 110_468_824_832


def test_an_outsider_adds_a_family_with_one_file(acme):
    assert "acme" in FAMILIES.names()
    assert FAMILIES.module("acme").__name__ == "acme_models.family"


def test_an_outsider_adds_a_model_with_one_file(acme):
    assert "acme--Tiny-1.5B" in CATALOG.names()
    model = read_model("acme/Tiny-1.5B")
    assert (model.name, model.family, model.hidden) == ("acme/Tiny-1.5B", "acme", 16)
    assert (model.source.key, model.source.place) == ("acme--Tiny-1.5B", "our wiki")


def test_an_outsider_does_not_replace_what_is_built_in(acme):
    assert FAMILIES.module("llama").__name__ == "meshwright.model.families.llama"
    assert FAMILIES.names().count("llama") == 1


def test_without_the_distribution_its_names_are_unknown():
    assert "acme" not in FAMILIES.names()
    with pytest.raises(ModelError, match="MOD001"):
        read_model("acme/Tiny-1.5B")


def test_an_entry_can_be_read_by_its_path(acme, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(ENTRY)
    model = read_model(str(file))
    assert (model.name, model.source.key, model.hidden) == ("mine", "mine", 16)


@pytest.mark.parametrize(
    ("text", "error", "code"),
    [
        ("", ModelError, "MOD004"),
        ("[config]\nmodel_type = 'llama'\n", ModelError, "MOD004"),
        ("source = 'here'\nconfig = 3\n", ModelError, "MOD004"),
        ("[source]\ntitle = 'x'\n[config]\n", FileError, "IO013"),
        (ENTRY.replace("place", "plaice"), FileError, "IO015"),
        (ENTRY.replace('"acme"', '"llama"') + "hidden_size = nan\n", ModelError, "MOD006"),
        (ENTRY.replace('"acme"', '"llama"') + "hidden_size = 2026-11-29\n", ModelError, "MOD006"),
        (ENTRY.replace('"acme"', "2026-11-29"), ModelError, "MOD003"),
        ("[config", FileError, "IO011"),
    ],
)
def test_an_entry_that_is_incomplete_is_refused(text, error, code, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(error) as caught:
        read_model(str(file))
    assert caught.value.code == code
