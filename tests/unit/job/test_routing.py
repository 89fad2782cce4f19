import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meshwright.base.errors import FileError, JobError
from meshwright.job.routing import UNIFORM, checked_routing, read_routing

LAYERS = {0: (4, 2), 1: (4, 2)}


def written(tmp_path, **columns):
    path = tmp_path / "routing.parquet"
    pq.write_table(pa.table(columns), path)
    return str(path)


@pytest.mark.parametrize(("text", "law"), [("uniform", "uniform"), ("even", "even"), ("zipf:1.2", "zipf")])
def test_a_word_names_a_law(text, law):
    found = checked_routing(read_routing(text), LAYERS)
    assert (found.law, found.exponent) == (law, 1.2 if law == "zipf" else 0.0)
    assert UNIFORM.law == "uniform"


def test_counts_are_one_an_expert_or_a_run_of_like_ones_and_the_rest_is_never_chosen():
    found = checked_routing(read_routing("counts:3,2x1.5"), LAYERS)
    assert found.counts == ((3.0, 1.5, 1.5, 0.0),)


@pytest.mark.parametrize("name", ["counts.json", "counts.toml"])
def test_a_file_of_counts_is_the_one_that_plans_read(tmp_path, name):
    path = tmp_path / name
    path.write_text('{"choices": [1, 2, 3, 4]}' if name.endswith("json") else "choices = [1, 2, 3, 4]")
    assert read_routing(str(path)).counts == ((1.0, 2.0, 3.0, 4.0),)


def test_a_trace_has_a_row_a_choice_in_any_order(tmp_path):
    text = written(
        tmp_path, layer=[1, 0, 0, 1, 0, 1, 1, 0], token=[7, 7, 5, 7, 7, 5, 5, 5], expert=[3, 0, 1, 2, 2, 0, 1, 3]
    )
    found = checked_routing(read_routing(text), LAYERS)
    assert (found.law, found.layers) == ("trace", (0, 1))
    assert found.choices.tolist() == [[[1, 3], [0, 2]], [[0, 1], [2, 3]]]
    assert len(found.digest) == 16


def test_a_trace_without_layers_is_that_of_every_layer(tmp_path):
    found = checked_routing(read_routing(written(tmp_path, token=[0, 0], expert=[2, 1])), LAYERS)
    assert (found.layers, found.choices.tolist()) == ((), [[[1, 2]]])


def test_counts_of_layers_are_a_row_an_expert_that_was_chosen(tmp_path):
    found = read_routing(written(tmp_path, layer=[1, 0, 1], expert=[0, 2, 1], count=[5, 4, 5]))
    assert (found.layers, found.counts) == ((0, 1), ((0.0, 0.0, 4.0), (5.0, 5.0, 0.0)))


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"expert": [0]}, "JOB121"),
        ({"token": [0]}, "JOB121"),
        ({"token": [], "expert": []}, "JOB121"),
        ({"token": [0, 0, 1], "expert": [0, 1, 0]}, "JOB121"),
        ({"token": [0, 0], "expert": [1, 1]}, "JOB121"),
        ({"token": [0, 0], "expert": [1, -1]}, "JOB121"),
        ({"token": [0, 0], "expert": [0.5, 1]}, "JOB121"),
        ({"layer": [0, 0, 1, 1, 1], "token": [0, 1, 0, 1, 2], "expert": [0, 1, 0, 1, 2]}, "JOB121"),
        ({"layer": [0, 0], "expert": [1, 1], "count": [2, 3]}, "JOB121"),
        ({"token": [0, None], "expert": [0, 1]}, "JOB127"),
        ({"token": ["a", "b"], "expert": [0, 1]}, "JOB127"),
        ({"token": ["1", "1"], "expert": [0, 1]}, "JOB127"),
        ({"token": [True, True], "expert": [0, 1]}, "JOB127"),
        ({"token": [2**53, 2**53 + 1], "expert": [0, 1]}, "JOB121"),
        ({"token": pa.array([2**64 - 1, 0], pa.uint64()), "expert": [0, 1]}, "JOB121"),
    ],
)
def test_a_recording_that_cannot_be_is_refused(tmp_path, columns, code):
    with pytest.raises(JobError) as raised:
        read_routing(written(tmp_path, **columns))
    assert raised.value.code == code


@pytest.mark.parametrize(
    "text", ["zipf:", "zipf:-1", "zipf:nan", "zipf:11", "counts:", "counts:axb", "counts:0x3", "skewed"]
)
def test_a_routing_that_is_none_is_refused(text):
    with pytest.raises(JobError, match="JOB120"):
        read_routing(text)


@pytest.mark.parametrize(
    "text", ["counts:9,1,1,1", "counts:0x1", "counts:5x1", "counts:-1,1,1,1", "counts:4x1e308", "counts:4x5e-324"]
)
def test_counts_that_no_layer_can_have_are_refused(text):
    with pytest.raises(JobError, match=r"JOB007|JOB120"):
        checked_routing(read_routing(text), LAYERS)


@pytest.mark.parametrize(
    "columns",
    [
        {"layer": [5, 5], "token": [0, 0], "expert": [0, 1]},
        {"layer": [0], "token": [0], "expert": [0]},
        {"layer": [0, 0], "token": [0, 0], "expert": [0, 4]},
    ],
)
def test_a_trace_of_another_model_is_refused(tmp_path, columns):
    with pytest.raises(JobError, match="JOB123"):
        checked_routing(read_routing(written(tmp_path, **columns)), LAYERS)


def test_a_file_that_is_missing_or_no_parquet_is_refused(tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    for name in ("broken.parquet", "gone.parquet"):
        with pytest.raises(FileError, match="IO010"):
            read_routing(str(tmp_path / name))


def test_without_its_package_a_parquet_file_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(JobError, match="JOB126") as raised:
        read_routing(str(tmp_path / "any.parquet"))
    assert "meshwright[results]" in raised.value.fix


def test_the_digest_tells_recordings_apart(tmp_path):
    first = read_routing(written(tmp_path, token=[0, 0], expert=[0, 1])).digest
    assert first != read_routing(written(tmp_path, token=[0, 0], expert=[0, 2])).digest
    assert first == read_routing(written(tmp_path, token=np.array([0, 0]), expert=np.array([0, 1]))).digest
