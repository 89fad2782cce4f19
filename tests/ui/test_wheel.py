"""The wheel, away from its source tree: what it holds, and what its console script answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import meshwright
from tests.ui.program import ROOT, answer_of

_PLAN = (
    *("plan", "serve", "Qwen/Qwen3-32B", "--on", "hgx-h100", "--sessions", "4", "--context", "131064"),
    *("--new-tokens", "8", "--deadline", "130ms", "--on-time", "75%", "--discipline", "fifo", "--all-reduce", "ring"),
)


def run(*line, cwd):
    """The output of a program that knows nothing of the source tree."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(line, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(folder):
    """The wheel, built by the backend that is here, or else by one that pip fetches."""
    here = ("--no-isolation",) if find_spec("hatchling") else ()
    run(sys.executable, "-m", "build", "--wheel", *here, "--outdir", str(folder), str(ROOT), cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_holds_the_package_its_data_and_its_licence_alone(tmp_path):
    package = ROOT / "src" / "meshwright"
    own = {
        file.relative_to(package.parent).as_posix()
        for file in package.rglob("*")
        if file.is_file() and not any(part.startswith((".", "__pycache__")) for part in file.relative_to(package).parts)
    }
    assert {Path(name).suffix for name in own} == {".py", ".toml", ".typed"}
    with zipfile.ZipFile(build(tmp_path)) as wheel:
        names = set(wheel.namelist())
    info = f"meshwright-{meshwright.__version__}.dist-info"
    assert {name for name in names if not name.startswith(f"{info}/")} == own
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE", f"{info}/entry_points.txt"} <= names


def test_the_wheel_installed_elsewhere_answers_as_the_source_tree_does(tmp_path):
    dist, elsewhere, away = (tmp_path / name for name in ("dist", "venv", "away"))
    for folder in (dist, away):
        folder.mkdir()
    wheel = build(dist)
    run(sys.executable, "-m", "venv", str(elsewhere), cwd=away)
    scripts = elsewhere / ("Scripts" if os.name == "nt" else "bin")
    python, program = str(scripts / "python"), str(scripts / "meshwright")
    install = ("install", "--disable-pip-version-check", "-q", "-c", str(ROOT / "constraints.txt"), str(wheel))
    run(python, "-m", "pip", *install, cwd=away)

    place, stated, version = run(python, "-c", _WHERE, cwd=away).splitlines()
    assert Path(place).is_relative_to(elsewhere)
    assert stated == version == meshwright.__version__
    assert run(program, "--version", cwd=away).strip() == f"meshwright, version {meshwright.__version__}"

    assert json.loads(run(program, *_PLAN, "--format", "json", cwd=away)) == answer_of(*_PLAN)
    for kind in ("models", "systems", "accelerators", "links", "collectives"):
        assert json.loads(run(program, "list", kind, "--format", "json", cwd=away)) == answer_of("list", kind)
    assert json.loads(run(program, "study", "list", "--format", "json", cwd=away)) == answer_of("study", "list")


_WHERE = """
import meshwright
from importlib.metadata import version
print(meshwright.__file__, meshwright.__version__, version("meshwright"), sep="\\n")
"""
