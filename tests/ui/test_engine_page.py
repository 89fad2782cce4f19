"""The page of the engines is what their files say."""

from __future__ import annotations

from tests.ui.engine_page import PAGE, generated


def test_the_tables_are_those_of_the_files():
    assert PAGE.read_text(encoding="utf-8") == generated(), "python -m tests.ui.engine_page"
