"""Parameter counts, whole and by part, against the classes of `transformers` built from the same config."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.base.errors import ModelError
from meshwright.model.model import parameter_counts
from meshwright.model.reader import CATALOG, read_config, read_model
from meshwright.scenarios.inspect import apart
from tests.oracle.transformers_models import (
    FAMILIES,
    FULL_CONFIGS,
    buffer_elements,
    build,
    cached,
    config_of,
    counts,
    decoder_config,
    entries_with_class,
    predictor_parameters,
    random_config,
    seeded,
    windows,
)

if TYPE_CHECKING:
    from random import Random

    from transformers import PreTrainedModel

    from meshwright.model.model import Model

SEEDS = range(25)
EXAMPLES = 600  # a family, in the campaign
NOTHING = "(?!)"
FIELDS = [(family, field) for family in FAMILIES for field in FULL_CONFIGS[family]]


def ours(config: dict[str, Any]) -> dict[str, int] | ModelError:
    try:
        return parameter_counts(read_config(config, "model"))
    except ModelError as error:
        return error


def theirs(config: dict[str, Any]) -> dict[str, int] | Exception:
    try:
        return counts(build(config))
    except Exception as error:  # noqa: BLE001 - their refusals have many types
        return error


def full_config(family: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": family, **FULL_CONFIGS[family], **changes}


def without(config: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in fields}


def assert_counts_without_fields(config: dict[str, Any], rng: Random, refused: set[str], read: str = NOTHING) -> None:
    """Up to three fields left out at random: counts as those of the class, or a refusal as there.

    refused: codes of what is refused here alone.   read: what the class says of what is read here alone.
    """
    config = without(config, *rng.sample([field for field in config if field != "model_type"], k=rng.randint(0, 3)))
    mine, other = ours(config), theirs(config)
    if isinstance(mine, ModelError):
        assert isinstance(other, Exception) or mine.code in refused, config
    elif isinstance(other, Exception):
        assert re.search(read, str(other)), (config, other)
    else:
        assert mine == other, config


def assert_apart_is_as_built(model: Model, built: PreTrainedModel) -> None:
    """Buffers, and layers that predict further tokens, where its class makes them."""
    assert apart(model)["buffers"] == buffer_elements(built)
    count = getattr(built.config, "num_mtp_layers", None)
    said = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "use_mtp")
    if count is None and any(getattr(built.config, name, 0) for name in said):
        assert apart(model)["mtp"]
        return
    assert apart(model)["mtp"] == (predictor_parameters(built, count) if count else 0)


@pytest.mark.parametrize("entry", entries_with_class())
def test_every_catalog_entry_counts_as_its_class(entry):
    config = tomllib.loads(CATALOG.text(entry))["config"]
    model = read_model(entry.replace("--", "/"), weights="bf16")  # the counts are of elements, in whatever format
    built = build(decoder_config(config))
    assert parameter_counts(model) == counts(built)
    assert_apart_is_as_built(model, built)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_random_config_counts_as_its_class(family, seed):
    config = random_config(family, seeded("counts", family, seed))
    built = build(config)
    assert ours(config) == counts(built)
    assert_apart_is_as_built(read_config(config, "model"), built)


# What their class builds although no forward pass can run on it, as a test below shows. MOD008 is also a width of a
# head that does not follow from the config: they round it down, here it is not guessed.
REFUSED_HERE = {"MOD007", "MOD008", "MOD009", "MOD010"}
# What they refuse and is read here, as it changes no count: a rule of LlamaConfig that engines do not share, yarn in a
# MixtralConfig without a head_dim, and stretched positions over a part of a head that is no whole number of pairs.
READ_HERE = r"not a multiple of the number of attention|'NoneType' and 'float'|Attempting to broadcast a dimension"


@pytest.mark.campaign
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**64))
def test_any_random_config_with_fields_left_out_counts_as_its_class(family, seed):
    rng = seeded(seed)
    assert_counts_without_fields(random_config(family, rng), rng, REFUSED_HERE, READ_HERE)


@pytest.mark.parametrize(("family", "field"), FIELDS)
def test_a_field_left_out_takes_the_default_of_its_class(family, field):
    config = without(full_config(family), field)
    model = read_config(config, "model")
    assert parameter_counts(model) == counts(build(config))
    assert field in {item.field for item in model.defaulted}


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "glm4_moe"])
def test_a_config_with_nothing_but_its_type_is_that_of_its_class(family):
    assert ours({"model_type": family}) == counts(build({"model_type": family}))


def test_a_width_of_a_head_that_its_class_rounds_down_must_be_given():
    assert config_of({"model_type": "glm4_moe"}).hidden_size % config_of({"model_type": "glm4_moe"}).num_attention_heads
    assert ours({"model_type": "glm4_moe"}).code == "MOD008"
    config = {"model_type": "glm4_moe", "head_dim": 128}
    assert ours(config) == counts(build(config))


NULL_IS_NOT_SAID = {"num_key_value_heads", "head_dim"}  # read so in every family, as older configs write it


@pytest.mark.parametrize(("family", "field"), FIELDS)
def test_a_null_field_counts_as_its_class_or_is_refused_by_both(family, field):
    config = full_config(family, **{field: None})
    mine, other = ours(config), theirs(config)
    if isinstance(mine, ModelError) and mine.code == "MOD009":  # it builds, and no cache can be laid out for it
        assert field == "sliding_window"
        with pytest.raises(TypeError):
            windows(config)
    elif not isinstance(other, Exception):
        assert mine == other
    elif isinstance(mine, ModelError):
        assert mine.code == "MOD006"
        assert field in mine.cause
    else:
        assert field in NULL_IS_NOT_SAID


@pytest.mark.parametrize(
    ("config", "code"),
    [
        pytest.param(full_config("mistral", num_key_value_heads=3), "MOD007", id="heads that KV heads do not divide"),
        pytest.param(
            without(full_config("qwen2", num_attention_heads=16), "num_key_value_heads"), "MOD007", id="default"
        ),
        pytest.param(
            full_config("mixtral", num_experts_per_tok=13), "MOD010", id="more experts a token than there are"
        ),
        pytest.param(
            full_config("qwen2", use_sliding_window=False, layer_types=["sliding_attention"] * 3), "MOD009", id="off"
        ),
        pytest.param(
            full_config("qwen3", sliding_window=None, layer_types=["sliding_attention"] * 3), "MOD009", id="no size"
        ),
        pytest.param(full_config("qwen3", layer_types=["chunked_attention"] * 3), "MOD009", id="another kind of layer"),
        pytest.param(full_config("gemma2", sliding_window=None), "MOD009", id="layers that slide without a size"),
    ],
)
def test_what_is_refused_although_its_class_is_built_cannot_run_there(config, code):
    build(config)
    assert ours(config).code == code
    with pytest.raises((RuntimeError, TypeError, AttributeError)):
        cached(config, 4)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(full_config("llama", num_attention_heads=24, head_dim=None), id="no width of a head"),
        pytest.param(full_config("mistral", hidden_size=160, head_dim=None), id="a head of odd width"),
        pytest.param(full_config("qwen3", layer_types=["full_attention"] * 2), id="layer_types of another length"),
        pytest.param(full_config("qwen3", layer_types=["full", "full", "full"]), id="layer_types of another kind"),
        pytest.param(full_config("llama", per_layer_config={"1": {"intermediate_size": 16}}), id="layers of their own"),
        pytest.param(full_config("qwen3_moe", decoder_sparse_step=0), id="experts every zero layers"),
        pytest.param(full_config("qwen3", attention_bias=1), id="a number for a flag"),
        pytest.param(full_config("qwen3", hidden_size="128"), id="text for a number"),
        pytest.param(full_config("gemma3_text", sliding_window_pattern=0), id="full every zero layers"),
        pytest.param(full_config("gpt_oss", head_dim=None), id="null for a width that its class states"),
    ],
)
def test_what_its_class_refuses_is_refused_here(config):
    assert isinstance(theirs(config), Exception)
    assert isinstance(ours(config), ModelError)


def test_of_two_names_for_the_experts_the_same_one_counts():
    for family in ("gpt_oss", "mixtral", "qwen3_moe"):
        config = full_config(family, num_local_experts=6, num_experts=9)
        assert ours(config) == theirs(config)
    config = full_config("glm4_moe", num_local_experts=6, n_routed_experts=9)
    assert ours(config) == theirs(config)


def test_a_wrapped_decoder_counts_as_what_its_class_wraps():
    inner = full_config("gemma3_text")
    vision = {"model_type": "siglip_vision_model", "num_hidden_layers": 1, "hidden_size": 36, "intermediate_size": 16}
    config = {"model_type": "gemma3", "text_config": inner, "vision_config": vision}
    built = build(config)
    assert ours(config)["total"] == sum(item.numel() for item in built.model.language_model.parameters())
    assert built.lm_head.weight is built.model.language_model.embed_tokens.weight
