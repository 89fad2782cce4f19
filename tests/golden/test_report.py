"""`docs/golden.md` is what the command writes."""

from __future__ import annotations

from tests.golden import report
from tests.golden.registry import answered, routes
from tests.golden.rows import facts, titles
from tests.golden.waiting import built, waiting


def test_the_page_is_what_the_command_writes():
    assert report.PAGE.read_text(encoding="utf-8") == report.page(), f"run {report.COMMAND}"


def test_the_command_writes_the_page_and_prints_every_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "PAGE", tmp_path / "docs" / "golden.md")
    assert report.main() == 0
    assert report.PAGE.read_text(encoding="utf-8") == report.page()
    assert [path.name for path in report.PAGE.parent.iterdir()] == ["golden.md"]
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(answered()) + 1
    assert all(line.startswith("ok") for line in printed[:-1])


def test_every_row_is_counted_once():
    missing = [fact for fact in facts() if fact.capability not in built()]
    assert len(facts()) == len(routes()) + len(waiting()) + len(missing)


def test_every_capability_of_a_row_has_a_title():
    assert {fact.capability for fact in facts()} <= set(titles())


def test_the_page_names_no_place_of_this_machine():
    assert str(report.PAGE.parents[1]) not in report.page()
