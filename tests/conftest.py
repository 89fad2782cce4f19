"""Shared by all tests: hypothesis profiles, and the seconds that each folder of tests took."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import settings

# Gates must give the same verdict every time, so examples are derived from the test; a campaign looks for new ones.
# Fewer of them: they are the first of the same ones each time, and a campaign draws thousands.
settings.register_profile("gate", max_examples=60, deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile("campaign", deadline=None, derandomize=False, max_examples=2000, print_blob=True)
settings.load_profile("gate")


class FolderSeconds:
    """Adds up set-up, call and tear-down by folder. Under xdist the controller sees the reports of all workers."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tests: defaultdict[str, int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = folder_of(report.nodeid)
        self.seconds[folder] += report.duration
        self.tests[folder] += report.when == "setup"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.seconds:
            return
        terminalreporter.write_sep("=", "seconds per folder")
        for folder in sorted(self.seconds, key=lambda name: (-self.seconds[name], name)):
            terminalreporter.write_line(f"{self.seconds[folder]:9.2f}s  {self.tests[folder]:5d} tests  {folder}")


def folder_of(nodeid: str) -> str:
    """`tests/unit/deep/test_a.py::test_b` goes in, `tests/unit` comes out; a file right under `tests` counts there."""
    folders = nodeid.partition("::")[0].split("/")[:-1]
    return "/".join(folders[:2])


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FolderSeconds(), "folder-seconds")
