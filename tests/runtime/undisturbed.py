"""Lets a test's processes run before those of others, where the machine allows that: they sleep, and little else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_PRIORITY = 10


@contextmanager
def undisturbed() -> Iterator[bool]:
    """Whether it was allowed; what was before comes back."""
    before, given = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, before, given)
