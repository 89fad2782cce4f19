"""Cases about pipeline schedules go in; what `schedule` says to each of their checks comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meshwright.base.parse import build
from meshwright.base.result import as_json
from meshwright.scenarios.schedule import ScheduleOptions, schedule
from tests.golden.paths import select
from tests.measured.ask import table


def checks() -> list[tuple[str, int, Mapping[str, Any]]]:
    """Every check with its case and number."""
    cases = table("schedule-cases")
    return [(name, at, check) for name, case in cases.items() for at, check in enumerate(case.get("checks", ()))]


def asked(check: Mapping[str, Any]) -> Any:
    """The field of the answer, or its ratio to that of a second question."""
    found = _field(check["ask"], check["path"])
    return found / _field(check["ask"] | check["over"], check["path"]) if "over" in check else found


def _field(options: Mapping[str, Any], path: str) -> Any:
    return select(as_json(schedule(build(ScheduleOptions, dict(options), "schedule"))), path)
