"""The registry: built-in files by listing a folder, outsiders' through entry points of a package that is installed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from meshwright.base import registry
from meshwright.base.errors import CollectiveError, SystemSpecError
from meshwright.base.registry import Registry
from meshwright.cost.collectives import COLLECTIVES, all_reduce, check_choice, program_s
from meshwright.cost.groups import lone_group
from meshwright.system.accelerator import ACCELERATORS, read_accelerator
from meshwright.system.system import read_system
from meshwright.workload.execution import check_result

BOX = read_system("hgx-h100")

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
NAIVE = '''\
"""Every rank sends its whole message to every other in one round."""

import numpy as np

from meshwright.workload.programs import Program, Step

OPERATIONS = ("all_reduce",)


def permits(operation, ranks):
    return operation in OPERATIONS and ranks >= 2


def program(operation, ranks):
    pairs = [(one, other) for one in range(ranks) for other in range(ranks) if one != other]
    sender, receiver = np.array(pairs).T
    step = Step(
        sender=sender,
        receiver=receiver,
        pieces=np.ones_like(sender),
        times=1,
        carried=lambda _: np.zeros_like(sender),
        reduce=True,
    )
    home = np.zeros(1, dtype=np.int64)
    return Program(operation=operation, ranks=ranks, message_pieces=1, home=home, steps=(step,))
'''


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs the package `outsider` as pip would, with these entry points."""
    package, info = tmp_path / "outsider", tmp_path / "outsider-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text("")
    (package / "stranger.toml").write_text(STRANGER)
    (package / "naive.py").write_text(NAIVE)
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


def test_an_outsiders_module_is_imported_when_its_name_is_asked_for(install):
    install(collectives__naive="outsider.naive")
    assert "naive" in COLLECTIVES.names()
    assert "outsider.naive" not in sys.modules
    assert check_choice("naive") == "naive"
    group = lone_group(8, 1e-6, 450e9)
    assert all_reduce("naive", group, 1000, BOX).rounds.tolist() == [1]
    assert program_s("naive", "all_reduce", group, 1000)[0] == pytest.approx(1e-6 + 7 * 1000 / 450e9)
    check_result(COLLECTIVES.module("naive").program("all_reduce", 5))


def test_an_outsiders_algorithm_changes_auto_only_where_the_system_names_it(install):
    group = lone_group(8, 1e-6, 450e9)
    before = all_reduce("auto", group, 1000, BOX)
    install(collectives__naive="outsider.naive")
    after = all_reduce("auto", group, 1000, BOX)
    assert (after.seconds == before.seconds).all()
    assert after.algorithm[0] == before.algorithm[0] == "tree"
    named = replace(BOX, all_reduce_algorithms=("ring", "naive"))
    assert all_reduce("auto", group, 1000, named).algorithm[0] == "naive"


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
    install(other__thing="outsider", collectives__naive="outsider.naive")
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
