"""The machine is measured once for all forms of an answer."""

from __future__ import annotations

from functools import cache

import pytest


@pytest.fixture(autouse=True, scope="session")
def machine_is_measured_once():
    """Under other forms the same rounds are shown; `tests/runtime` measures anew."""
    from meshwright.verify import calibrate

    once = cache(calibrate.calibrate_local)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrate, "calibrate_local", lambda options, runs: once(options, tuple(runs)))
        yield
