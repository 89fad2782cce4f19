"""Rows and cases go in; what the product says to each comes out. Numbers are fields of `fit`, never computed here."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from meshwright.base.errors import UserError
from meshwright.base.parse import build, set_path
from meshwright.base.result import Result, as_json
from meshwright.job.serve import ServeJob
from meshwright.model.model import Model
from meshwright.model.reader import CATALOG, FAMILIES, read_config, read_model
from meshwright.scenarios.fit import FitOptions, fit, replica_layout
from meshwright.scenarios.inspect import InspectOptions, inspect
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.sweep.study import run_study
from meshwright.system.system import System, read_system
from tests.golden.paths import select

DATA: Final = Path(__file__).parent / "data"
GIB: Final = 2**30
TOLERANCE: Final = 0.005
ANY_SYSTEM: Final = "hgx-h200 x8"
"""Bytes of a token, and which degrees the shapes allow, do not depend on the system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is said of a row. predicted, stated: KV bytes of a token on each GPU, where both are known."""

    verdict: str
    reason: str = ""
    predicted: int | None = None
    stated: float | None = None

    @property
    def error(self) -> float | None:
        """Relative, signed."""
        return None if self.predicted is None or self.stated is None else self.predicted / self.stated - 1


@cache
def table(name: str) -> dict[str, Any]:
    """A data file by its stem."""
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def rows() -> tuple[dict[str, str], ...]:
    """Every row of the start-up logs."""
    with (DATA / "kv-capacity.csv").open(encoding="utf-8", newline="") as lines:
        return tuple(csv.DictReader(lines))


def family_of(name: str) -> str | None:
    """The family of a model that is not read yet, or None."""
    if name in table("models"):
        family = str(table("models")[name]["config"]["model_type"])
        return None if family in FAMILIES.names() else family
    assert name.replace("/", "--") in CATALOG.names(), name
    return None


def model_of(name: str, kv_bits: int | None = None, weights: str | None = None) -> Model:
    """A model of the catalog or of models.toml, with other formats where they are stated."""
    known = table("models")
    read = read_config(known[name]["config"], name, weights=weights) if name in known else None
    model = read or read_model(name, weights=weights)
    return model if kv_bits is None else set_path(model, "kv.bits", str(kv_bits))


def ask(
    model: Model, tp: int, system: System, options: Mapping[str, Any] | None = None, *, ep: int = 1, **degrees: Any
) -> Result:
    """`meshwright fit MODEL --on SYSTEM --tp N --ep N ...`."""
    layout = replica_layout(model, tp, 1, ep, **degrees)
    return fit(model, system, layout, build(FitOptions, dict(options or {}), "fit"))


def answer(row: Mapping[str, str]) -> Answer:
    """The verdict on one row of the logs."""
    said = table("kv-verdicts")[row["id"]]
    stated = _stated(row)
    name = said.get("model")
    missing = None if name is None else family_of(name)
    if missing is not None:
        return Answer(verdict="later architecture", reason=f"family not here yet: {missing}", stated=stated)
    predicted = None
    if name is not None:
        degrees = {"tp": int(row["tp"]), **said.get("layout", {})}
        asked = model_of(name, said.get("kv_bits"))
        memory = ask(asked, system=read_system(ANY_SYSTEM), **degrees).body["memory"]
        predicted = memory["kv_bytes_per_token"]
    found = Answer(verdict=said["verdict"], reason=said.get("reason", ""), predicted=predicted, stated=stated)
    if said["verdict"] != "compute":
        return found
    agrees = found.error is not None and abs(found.error) <= TOLERANCE
    word = "circular agrees" if said.get("circular") else "agrees"
    reason = str(said.get("later_architecture", ""))
    return Answer(verdict=word if agrees else "DISAGREES", reason=reason, predicted=predicted, stated=stated)


def _stated(row: Mapping[str, str]) -> float | None:
    """Bytes of a token on each GPU as the log states them: available KV over tokens."""
    if not row["available_kv_gib"] or not row["kv_tokens"]:
        return None
    return float(row["available_kv_gib"]) * GIB / int(row["kv_tokens"])


def code_of(model: Model, tp: int) -> str | None:
    """The code of the first rule that refuses a degree, or None."""
    try:
        ask(model, tp, read_system(ANY_SYSTEM))
    except UserError as problem:
        return problem.code
    return None


def degrees_of(model: Model, tried: Iterable[int], rule: str | None) -> list[int]:
    """Degrees that `rule` does not refuse; without a rule, those that none refuses and that cut no scale blocks."""
    found: list[int] = []
    for tp in tried:
        code = code_of(model, tp)
        if rule is not None:
            found += [tp] if code != rule else []
        elif code is None and not any("scale blocks" in text for text in _warnings(model, tp)):
            found.append(tp)
    return found


def _warnings(model: Model, tp: int) -> tuple[str, ...]:
    return ask(model, tp, read_system(ANY_SYSTEM)).warnings


def _text(settings: Mapping[str, Any]) -> dict[str, str]:
    return {path: str(value) for path, value in settings.items()}


def refused_by(engine: str, model: Model, tp: int, ep: int = 1) -> str | None:
    """The code with which an engine refuses tp (and ep over its ranks), as an error or as the answer; None if not."""
    try:
        said = ask(model, tp, read_system(ANY_SYSTEM), {"engine": {"name": engine}}, ep=ep).candidates[0].excluded
    except UserError as problem:
        return problem.code
    return None if said is None or not said.code.startswith("ENG") else said.code


def checked(check: Mapping[str, Any]) -> tuple[Any, Any]:
    """What the product says to one check of a case, and what the case states."""
    if "says" in check:
        told = _told(check, model_of(check["model"], weights=check.get("weights")))
        return str(check["says"] in str(select(as_json(told), check["path"]))), "True"
    if "study" in check:
        said = select(
            as_json(run_study(check["study"], {"model": check["model"], **_text(check["set"])}, ())), check["path"]
        )
        return said, check["expected"]
    model = model_of(check["model"], weights=check.get("weights"))
    for path, value in check.get("changed", {}).items():
        model = set_path(model, path, str(value))
    if "engine" in check:
        eps = {int(tp): ep for tp, ep in check.get("ep", {}).items()}
        said = {tp: refused_by(check["engine"], model, tp, eps.get(tp, 1)) for tp in check["tried"]}
        return {str(tp): code or "runs" for tp, code in said.items()}, check["refused"]
    if "degrees" in check:
        tried = check["tried"]
        every = range(1, tried + 1) if isinstance(tried, int) else tried
        return degrees_of(model, every, check.get("not_refused_by")), check["degrees"]
    if "code" in check:
        return code_of(model, check["tp"]), check["code"]
    said = select(as_json(_told(check, model)), check["path"])
    return said, check["expected"] if "expected" in check else check["expected_gib"] * GIB


def _told(check: Mapping[str, Any], model: Model) -> Result:
    """The answer of `inspect`, of `plan serve` where a check has a job, and else of `fit`."""
    if check.get("command") == "inspect":
        return inspect(model, InspectOptions())
    system = read_system(check.get("on", ANY_SYSTEM))
    for path, value in check.get("system", {}).items():
        system = set_path(system, path, str(value))
    if "job" in check:
        asked = build(ServeOptions, {"flips": "none", "layout": check["layout"]}, "options")
        return plan_serve(model, system, build(ServeJob, check["job"], "job"), asked)
    context = {"context": check["context"]} if "context" in check else {}
    return ask(model, check.get("tp", 1), system, context | check.get("options", {}), ep=check.get("ep", 1))
