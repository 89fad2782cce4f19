"""The machine is measured once for all forms of an answer."""

from __future__ import annotations

from functools import cache

import pytest


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
