"""How many experts a step reads, as a user says it."""

from __future__ import annotations

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.job.expert_load import RoutedReads, checked_reads
from meshwright.job.routing import checked_reads_of, read_expert_reads


@pytest.mark.parametrize(("text", "value"), [("expected", "expected"), ("full", "full"), ("96", 96.0), ("51.6", 51.6)])
def test_words_and_numbers_are_read_as_they_stand(text, value):
    assert read_expert_reads(text) == value
    assert checked_reads(read_expert_reads(text), 128, 8) == value


@pytest.mark.parametrize(
    ("name", "text"), [("x.toml", "choices = [1, 2, 1, 0]"), ("x.json", '{"choices": [1, 2, 1, 0]}')]
)
def test_a_file_holds_the_choices_of_each_expert(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert checked_reads(read_expert_reads(str(path)), 4, 2) == (1.0, 2.0, 1.0, 0.0)


@pytest.mark.parametrize(
    "reads",
    [7.0, 129.0, float("nan"), (1.0,) * 127, (0.0,) * 128, (-1.0,) + (1.0,) * 127, (9.0,) * 7 + (0.0,) * 121],
)
def test_what_no_routing_can_read_is_refused(reads):
    with pytest.raises(MeshwrightError) as caught:
        checked_reads(reads, 128, 8)
    assert caught.value.code == "JOB007"
    assert caught.value.fix


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(MeshwrightError) as caught:
        read_expert_reads("gone.toml")
    assert caught.value.code == "IO010"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("uniform", "expected"),
        ("zipf:0", "expected"),
        ("zipf:1.2", RoutedReads(law="zipf", exponent=1.2)),
        ("even", RoutedReads(law="even")),
        ("counts:2x3", RoutedReads(law="counts", counts=((3.0, 3.0),))),
    ],
)
def test_the_words_of_a_routing_say_what_is_read(text, value):
    assert read_expert_reads(text) == value


@pytest.mark.parametrize("text", ["sparse", "zipf:x", "zipf:99", "counts:0x1"])
def test_a_word_that_is_no_routing_is_refused_by_the_name_of_the_option(text):
    with pytest.raises(MeshwrightError) as caught:
        read_expert_reads(text)
    assert caught.value.code == "JOB120"
    assert "--expert-reads" in caught.value.cause


def test_experts_that_counts_do_not_name_are_never_chosen_and_foreign_layers_are_refused():
    reads = RoutedReads(law="counts", counts=((3.0, 3.0),), layers=(1,))
    assert checked_reads_of(reads, {1: (4, 1)}, "--expert-reads").counts == ((3.0, 3.0, 0.0, 0.0),)
    with pytest.raises(MeshwrightError) as caught:
        checked_reads_of(reads, {0: (4, 1)}, "--expert-reads")
    assert caught.value.code == "JOB123"
