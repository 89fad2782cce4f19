"""A process id goes in; the processes below it, as the kernel lists them, come out; and a wait until they are gone."""

from __future__ import annotations

import time
from pathlib import Path


def children_of(parent):
    """Ids of processes whose parent is `parent`, those that have ended and wait to be collected left out."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, above = stat.read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(above) == parent and state != "Z":
            found.append(int(stat.parent.name))
    return sorted(found)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone_within(pids, seconds):
    """Whether all have ended in time."""
    limit = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return True
