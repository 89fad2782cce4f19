"""The page of measured bubbles: what is simulated on it is what the program says, and every row is within its bound."""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("needs the extra torch", allow_module_level=True)

from meshwright.verify.bubbles import SHARE, simulated
from meshwright.workload.slots import SCHEDULES
from tests.measured.bubbles import COLUMNS, MICRO_BATCHES, PAGE, STAGES, options, simulated_cells


def rows_of(stages):
    """Cells by column of one table of the page, and the overhead stated over it, in ms."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {stages} stages\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    overhead_ms = float(section.split("overhead of a slot is ")[1].split(" us")[0]) / 1e3
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines], overhead_ms


@pytest.mark.parametrize("stages", STAGES)
def test_the_page_states_what_is_simulated(stages):
    found, _ = rows_of(stages)
    assert [row[0] for row in found] == list(SCHEDULES.names())
    expected = [simulated_cells(row) for row in simulated(options(stages))]
    assert [(row[0], row[1], row[4]) for row in found] == expected


@pytest.mark.parametrize("stages", STAGES)
def test_every_row_of_the_page_is_within_what_it_allows(stages):
    found, overhead_ms = rows_of(stages)
    assert found
    names = ("name", "simulated", "measured", "span", "bubble", "of", "over", "overhead", "allowed")
    for cells in found:
        row = dict(zip(names, cells, strict=True))
        ms = {name: float(row[name].split()[0]) for name in ("simulated", "measured", "over", "overhead", "allowed")}
        assert 0 <= ms["over"] <= ms["allowed"]
        assert ms["over"] == pytest.approx(ms["measured"] - ms["simulated"], abs=0.11)
        assert ms["allowed"] == pytest.approx(float(SHARE) * ms["simulated"] + ms["overhead"], abs=0.11)
        assert ms["overhead"] >= 2 * MICRO_BATCHES * overhead_ms - 0.1
    assert len(COLUMNS) == len(found[0])
