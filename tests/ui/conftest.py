"""The machine is measured once for all forms of an answer, and an answer is worked out once for all workers."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.ui.program import keep_answers_in

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True, scope="session")
def answers_are_worked_out_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In the folder above those of the workers, where there are any."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "answers"
    folder.mkdir(exist_ok=True)
    keep_answers_in(folder)
    return folder


@pytest.fixture(autouse=True, scope="session")
def machine_is_measured_once():
    """Under other forms the same rounds are shown; `tests/runtime` measures anew."""
    from meshwright.verify import calibrate

    anew = calibrate.calibrate_local
    once = cache(anew)
    with pytest.MonkeyPatch.context() as patch:

        def measured(options, runs):
            return anew(options, runs) if runs else once(options)

        patch.setattr(calibrate, "calibrate_local", measured)
        yield
