"""Where a model's name is looked for, and in which order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from meshwright.base.errors import FileError, ModelError
from meshwright.model.reader import read_model
from tests.unit.model.configs import LLAMA

ID = "Qwen/Qwen3-8B"  # in the catalog, with 36 layers


def write_config(folder, layers):
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.json"
    file.write_text(json.dumps({**LLAMA, "num_hidden_layers": layers}))
    return file


def hub_cache(root, name, snapshots, main=None):
    """A cache laid out as huggingface_hub does: blobs, snapshots that link to them, and a branch."""
    folder = root / f"models--{name.replace('/', '--')}"
    for revision, layers in snapshots.items():
        blob = write_config(folder / "blobs" / revision, layers)
        (folder / "snapshots" / revision).mkdir(parents=True)
        (folder / "snapshots" / revision / "config.json").symlink_to(blob)
    if main is not None:
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(main)
    return root


def fake_hub(monkeypatch, download):
    module = ModuleType("huggingface_hub")
    module.__spec__ = type(sys.__spec__)("huggingface_hub", None)
    module.hf_hub_download = download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)


def refused(error, *arguments, **options):
    with pytest.raises(error) as caught:
        read_model(*arguments, **options)
    return caught.value


def test_a_file_a_folder_and_an_id_are_read(tmp_path):
    file = write_config(tmp_path / "mine", 3)
    assert read_model(str(file)).layers == 3
    assert read_model(str(tmp_path / "mine")).layers == 3
    assert read_model(ID).layers == 36


def test_a_model_is_called_by_its_id_or_else_by_its_folder_or_file(tmp_path, monkeypatch):
    file = write_config(tmp_path / "mine", 3)
    other = file.rename(file.with_name("other.json"))
    assert read_model(str(other)).name == "other"
    write_config(tmp_path / "mine", 3)
    assert read_model(str(tmp_path / "mine")).name == "mine"
    assert read_model(ID).name == ID
    monkeypatch.chdir(tmp_path / "mine")
    assert read_model("config.json").name == "config"


def test_a_path_comes_before_the_catalog(tmp_path, monkeypatch):
    write_config(tmp_path / ID, 3)
    monkeypatch.chdir(tmp_path)
    assert read_model(ID).layers == 3


def test_the_catalog_comes_before_the_hub_cache(tmp_path):
    cache = hub_cache(tmp_path, ID, {"aaa": 5}, main="aaa")
    assert read_model(ID, cache=cache).layers == 36


def test_the_hub_cache_comes_before_the_hub(tmp_path, monkeypatch):
    fake_hub(monkeypatch, lambda **_: pytest.fail("the hub was asked"))
    cache = hub_cache(tmp_path, "acme/tiny", {"aaa": 5}, main="aaa")
    model = read_model("acme/tiny", cache=cache, download=True)
    assert (model.name, model.layers) == ("acme/tiny", 5)


def test_the_hub_is_asked_only_when_asked_for(monkeypatch):
    fake_hub(monkeypatch, lambda **_: pytest.fail("the hub was asked"))
    assert refused(ModelError, "acme/tiny").code == "MOD001"


def test_a_download_goes_into_the_given_cache(tmp_path, monkeypatch):
    asked = []

    def download(**options):
        asked.append(options)
        return str(write_config(tmp_path / "got", 7))

    fake_hub(monkeypatch, download)
    assert read_model("acme/tiny", cache=tmp_path, download=True).layers == 7
    assert asked == [{"repo_id": "acme/tiny", "filename": "config.json", "cache_dir": tmp_path}]


def test_a_download_without_the_extra_says_which_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    error = refused(ModelError, "acme/tiny", download=True)
    assert error.code == "MOD001"
    assert "meshwright[hub]" in error.fix


def test_a_failed_download_is_an_error_of_its_id(monkeypatch):
    def download(**_):
        raise OSError("no network")

    fake_hub(monkeypatch, download)
    error = refused(ModelError, "acme/tiny", download=True)
    assert error.code == "MOD001"
    assert "no network" in error.cause


def test_the_cache_is_read_at_its_branch_main(tmp_path):
    cache = hub_cache(tmp_path, "acme/tiny", {"aaa": 5, "bbb": 6}, main="aaa\n")
    assert read_model("acme/tiny", cache=cache).layers == 5


def test_a_branch_that_points_nowhere_is_not_replaced_by_another_snapshot(tmp_path):
    cache = hub_cache(tmp_path, "acme/tiny", {"bbb": 6}, main="aaa")
    assert refused(ModelError, "acme/tiny", cache=cache).code == "MOD001"


def test_without_a_branch_the_only_snapshot_is_read_and_several_are_refused(tmp_path):
    one = hub_cache(tmp_path / "one", "acme/tiny", {"aaa": 5})
    assert read_model("acme/tiny", cache=one).layers == 5
    several = hub_cache(tmp_path / "several", "acme/tiny", {"aaa": 5, "bbb": 6})
    error = refused(ModelError, "acme/tiny", cache=several)
    assert error.code == "MOD001"
    assert "snapshots/aaa" in error.fix


def test_an_id_that_is_nowhere_names_the_nearest_ones(tmp_path):
    error = refused(ModelError, "Qwen/Qwen3-9B", cache=tmp_path)
    assert error.code == "MOD001"
    assert ID in error.fix
    assert "--download" in error.fix


@pytest.mark.parametrize(
    "name", ["", "\0", "a\0b", "x" * 5000, " ", "模型/小", "\udcff", "a/b/c", "acme/tiny\n", "a" * 300]
)
def test_a_name_that_names_nothing_is_refused(name, tmp_path):
    assert refused(ModelError, name, cache=tmp_path).code == "MOD001"


@pytest.mark.parametrize(
    "name", ["missing.json", "missing.toml", "./missing", "/missing/config.json", "~/missing", "."]
)
def test_what_can_only_be_a_path_is_an_unreadable_file_when_it_is_missing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(FileError, name).code == "IO010"


def test_a_file_that_is_no_json_object_is_refused(tmp_path):
    file = tmp_path / "config.json"
    for text in ("[]", "null", "3", '"llama"'):
        file.write_text(text)
        assert refused(ModelError, str(file)).code == "MOD004"
    for text in ("", "{", "model_type: llama", "[" * 100_000, "9" * 5000):
        file.write_text(text)
        assert refused(FileError, str(file)).code == "IO012"
    file.write_bytes(b"\xff\xfe{}")
    assert refused(FileError, str(file)).code == "IO010"


def test_a_folder_where_a_file_is_meant_and_a_link_to_itself_are_refused(tmp_path):
    (tmp_path / "config.json").mkdir()
    assert refused(ModelError, str(tmp_path)).code == "MOD004"
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    assert refused(FileError, str(loop)).code == "IO010"


def test_a_pipe_or_a_device_is_refused_before_it_is_read(tmp_path):
    pipe = tmp_path / "config.json"
    os.mkfifo(pipe)  # reading it would wait forever
    assert refused(ModelError, str(pipe)).code == "MOD004"
    assert refused(ModelError, "/dev/zero").code == "MOD004"


def test_a_path_that_may_not_be_looked_at_is_an_unreadable_file(tmp_path, monkeypatch):
    folder = tmp_path / "closed"
    write_config(folder, 3)

    def closed(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    for question in ("exists", "is_dir", "is_file", "open"):
        monkeypatch.setattr(Path, question, closed)
    error = refused(FileError, str(folder / "config.json"))
    assert error.code == "IO010"
    assert "Permission denied" in error.cause


def test_reading_a_model_imports_neither_torch_nor_the_hub():
    code = (
        "import sys; from meshwright.model.reader import read_model; read_model('tiny-qwen3');"
        "print(sorted({'torch', 'transformers', 'huggingface_hub'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
