"""The registry: built-in files by listing a folder, outsiders' through entry points of a package that is installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from meshwright.base import registry
from meshwright.base.errors import CollectiveError, SystemSpecError
from meshwright.base.registry import Registry
from meshwright.cost.collectives import COLLECTIVES, Group, all_reduce, check_choice
from meshwright.system.accelerator import ACCELERATORS, read_accelerator

STRANGER = """\
name = "Stranger"
memory = { value = "10 GB", source = "made" }
memory_bandwidth = { value = "1 TB/s", source = "made" }
peak.bf16 = { value = "1 TFLOP/s", density = "dense", source = "made" }

[sources.made]
title = "made up"
place = "a test"
read = "2026-11-29"
"""
DIRECT = '''\
"""Every rank sends its whole message to every other in one round."""

import numpy as np

OPERATION = "all_reduce"


def permits(ranks):
    return np.asarray(ranks) >= 1


def rounds(ranks):
    return np.minimum(np.asarray(ranks) - 1, 1)


def round_bytes(ranks, message_bytes):
    return message_bytes * np.maximum(np.asarray(ranks) - 1, 1)
'''


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs the package `outsider` as pip would, with these entry points."""
    package, info = tmp_path / "outsider", tmp_path / "outsider-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text("")
    (package / "stranger.toml").write_text(STRANGER)
    (package / "direct.py").write_text(DIRECT)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outsider\nVersion: 1.0\n")

    def with_entries(**entries: str) -> None:
        lines = [f"{name.replace('__', '.')} = {value}" for name, value in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(["[meshwright]", *lines]))
        monkeypatch.syspath_prepend(tmp_path)
        registry._installed.cache_clear()

    yield with_entries
    registry._installed.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "outsider"]:
        del sys.modules[name]


def test_an_outsiders_data_file_is_listed_and_read(install):
    install(accelerators__stranger="outsider")
    assert "stranger" in ACCELERATORS.names()
    assert read_accelerator("stranger").memory == 10**10


def test_an_outsiders_module_is_imported_when_its_name_is_asked_for_and_competes(install):
    install(collectives__direct="outsider.direct")
    assert "direct" in COLLECTIVES.names()
    assert "outsider.direct" not in sys.modules
    assert check_choice("direct") == "direct"
    one = np.array([1])
    group = Group(ranks=8 * one, nodes=one, latency_s=1e-6 * one, bandwidth_bytes_per_s=450e9 * one)
    assert all_reduce("auto", group, 1000, "h100-sxm").algorithm[0] == "direct"
    assert all_reduce("direct", group, 1000, "h100-sxm").rounds.tolist() == [1]


@pytest.mark.parametrize("package", ["outsider", "no_such_package"])
def test_an_outsider_without_its_file_is_refused_with_the_registrys_code_and_its_package(install, package):
    install(accelerators__broken=package)
    with pytest.raises(SystemSpecError, match="SYS002") as caught:
        read_accelerator("broken")
    assert package in caught.value.cause


def test_an_outsider_whose_module_does_not_import_is_refused_by_name(install):
    install(collectives__broken="outsider.nothing")
    with pytest.raises(CollectiveError, match="COL001") as caught:
        COLLECTIVES.module("broken")
    assert "outsider.nothing" in caught.value.cause


def test_outsiders_of_another_kind_are_not_mixed_in(install):
    alone = ACCELERATORS.names()
    install(other__thing="outsider", collectives__direct="outsider.direct")
    assert ACCELERATORS.names() == alone


def test_without_outsiders_the_names_are_the_files():
    folder = Path(str(files("meshwright.system"))) / "data" / "accelerators"
    assert ACCELERATORS.names() == tuple(sorted(path.stem for path in folder.glob("*.toml")))


@pytest.mark.parametrize("name", ["", "h100", "../systems/hgx-h100", "__init__", "h100-sxm.toml"])
def test_an_unknown_name_is_refused_with_the_nearest(name):
    with pytest.raises(SystemSpecError, match="SYS002"):
        ACCELERATORS.text(name)


def test_private_files_are_not_registered():
    families = Registry(kind="families", package="meshwright.model", folder="families", error=SystemSpecError, number=1)
    assert "_common" not in families.names()
    assert "__init__" not in families.names()


def test_listing_imports_nothing():
    code = """if True:
        import sys
        from meshwright.base.errors import CollectiveError
        from meshwright.base.registry import Registry
        place = {"kind": "collectives", "package": "meshwright.workload", "folder": "collectives"}
        names = Registry(**place, error=CollectiveError, number=1).names()
        assert {"ring", "tree"} <= set(names)
        assert "meshwright.workload.collectives.ring" not in sys.modules
        assert "numpy" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)
