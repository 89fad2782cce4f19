"""Recipes by name and by field, and the rules of optimizer state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.base.errors import UserError
from meshwright.base.parse import set_path
from meshwright.job.optimizer import OPTIMIZERS, Weight, moments
from meshwright.job.recipe import DEFAULT_RECIPE, Recipe, checked_recipe, read_recipe

MATRIX = Weight(part="attention", dims=2, elements=4096 * 4096)
VECTOR = Weight(part="norms", dims=1, elements=4095)


def test_the_default_recipe_is_that_of_a_recipe_without_fields():
    assert read_recipe(DEFAULT_RECIPE) == Recipe()


def test_a_field_is_set_by_its_path():
    assert set_path(Recipe(), "gradients", "fp32") == read_recipe("bf16-adamw-fp32-gradients")
    assert set_path(Recipe(), "lora_targets", "q_proj,v_proj").lora_targets == ("q_proj", "v_proj")


@pytest.mark.parametrize(("name", "code"), [("bf16-adam", "JOB040"), ("", "JOB040")])
def test_an_unknown_recipe_is_refused(name, code):
    with pytest.raises(UserError) as caught:
        read_recipe(name)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"optimizer": "adamv"}, "JOB041"),
        ({"fp8_copy": "kept"}, "JOB042"),
        ({"compute": "fp8"}, "JOB042"),
        ({"compute": "fp8", "fp8_copy": "instead", "master": "none"}, "JOB042"),
        ({"parameters": "fp32"}, "JOB042"),
        ({"lora_rank": 8}, "JOB042"),
        ({"lora_targets": ("q_proj",)}, "JOB042"),
        ({"lora_rank": -1, "lora_targets": ("q_proj",)}, "JOB042"),
    ],
)
def test_fields_that_contradict_each_other_are_refused_with_what_to_type(changes, code):
    with pytest.raises(UserError) as caught:
        checked_recipe(replace(Recipe(), **changes))
    assert caught.value.code == code
    assert caught.value.fix


def test_muon_keeps_one_momentum_of_hidden_matrices_and_adamws_moments_of_the_rest():
    assert [item.name for item in moments("muon", MATRIX)] == ["momentum"]
    for other in (VECTOR, replace(MATRIX, part="embedding"), replace(MATRIX, part="head")):
        assert moments("muon", other) == moments("adamw", other)


def test_adafactor_keeps_a_number_a_row_and_a_column_of_matrices_and_all_of_vectors():
    assert {item.without for item in moments("adafactor", MATRIX)} == {"rows", "columns"}
    assert {item.without for item in moments("adafactor", VECTOR)} == {"none"}


@pytest.mark.parametrize(("elements", "bits"), [(4095, 32), (4096, 8)])
def test_moments_in_8_bits_are_those_of_large_tensors(elements, bits):
    assert {item.bits for item in moments("adamw_8bit", replace(MATRIX, elements=elements))} == {bits}


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_every_optimizer_keeps_something_of_a_matrix_and_of_a_vector(name):
    assert moments(name, MATRIX)
    assert moments(name, VECTOR)
