"""How many experts a step reads, as a user says it."""

from __future__ import annotations

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.job.expert_load import checked_reads, read_expert_reads


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
