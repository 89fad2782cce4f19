"""The public names, and what importing them or asking for help loads."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import meshwright
from tests.ui.program import ROOT
from tests.ui.test_exits_and_streams import environment

_PUBLIC = {
    "Candidate", "ExplainOptions", "FitOptions", "InspectOptions", "Layout", "MeshwrightError", "Model", "Result",
    "ServeJob", "ServeOptions", "System", "UserError", "__version__", "as_json", "compare", "explain", "fit", "inspect",
    "plan_serve", "read_answer", "read_config", "read_model", "read_system",
}  # fmt: skip
_HEAVY = ("numpy", "torch", "pydantic", "rich", "rustworkx", "scipy")


def loaded_after(code):
    """The top-level modules that a fresh interpreter holds after running some code, its output apart."""
    tail = "\nimport sys; print('\\n' + ' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    line = (sys.executable, "-c", code + tail)
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_public_names_are_these():
    assert set(meshwright.__all__) == _PUBLIC
    assert meshwright.__all__ == sorted(meshwright.__all__)


@pytest.mark.parametrize("name", sorted(_PUBLIC))
def test_each_public_name_loads(name):
    assert getattr(meshwright, name) is not None


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="gone"):
        _ = meshwright.gone


def test_the_version_is_a_release_or_a_release_to_come():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|a\d+|b\d+|rc\d+)?", meshwright.__version__)


@pytest.mark.parametrize(
    "code",
    [
        "import meshwright",
        "import meshwright; meshwright.__version__",
        "from meshwright.cli.main import run; run(['--help'])",
        "from meshwright.cli.main import run; run(['--version'])",
    ],
)
def test_help_and_import_load_nothing_heavy(code):
    assert loaded_after(code).isdisjoint(_HEAVY)


@pytest.mark.parametrize(
    "line", [["inspect", "tiny-qwen3", "--format", "json"], ["study", "run", "row-bytes", "--format", "json"]]
)
def test_json_loads_no_torch_and_no_rich(line):
    assert loaded_after(f"from meshwright.cli.main import run; run({line!r})").isdisjoint({"torch", "rich"})


def test_every_public_name_has_a_type_a_home_and_a_place_in_the_list():
    text = (ROOT / "src" / "meshwright" / "__init__.py").read_text(encoding="utf-8")
    for name in _PUBLIC - {"__version__"}:
        assert len(re.findall(rf"\b{name}\b", text)) >= 3, name
