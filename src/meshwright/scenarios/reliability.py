"""What did a published cluster see, and what would it mean for a job of ours? Its name and our devices go in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import JobError
from meshwright.base.numbers import divide_up
from meshwright.system.reliability import read_reliability

_MOST: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A cluster's own numbers, and our devices by them; None where it says nothing.

    slow_machines: the share of machines that ran noticeably slow.   expected_slow_machines, any_slow_machine: how many
    of ours, and the chance of one at least, if each is slow independently.   mtbf_s: of jobs on exactly so many
    devices, as published.   proportional_mtbf_s: of so many, if failures grew as the devices from the largest published
    job on. The two differ: jobs of other sizes run other work on other machines.
    """

    cluster: str
    platform: str
    slow_machines: float | None
    expected_slow_machines: float | None
    any_slow_machine: float | None
    mtbf_s: float | None
    proportional_mtbf_s: float | None


def published_reliability(cluster: str, devices: int, devices_per_machine: int) -> Published:
    """The cluster registered under that name, for a job of ours. Raises SYS002, JOB051. Source: as it names."""
    if not 1 <= devices_per_machine <= _MOST or not 1 <= devices <= _MOST:
        cause = f"{devices} devices, {devices_per_machine} a machine"
        raise JobError(51, cause, f"give 1 to {_MOST} of each")
    found = read_reliability(cluster)
    machines = divide_up(devices, devices_per_machine)
    slow, largest = found.slow_machines, max(found.jobs, key=lambda item: item.devices, default=None)
    return Published(
        cluster=found.name,
        platform=found.platform,
        slow_machines=slow,
        expected_slow_machines=None if slow is None else slow * machines,
        any_slow_machine=None if slow is None else 1 - (1 - slow) ** machines,
        mtbf_s=next((item.mtbf for item in found.jobs if item.devices == devices), None),
        proportional_mtbf_s=None if largest is None else largest.mtbf * largest.devices / devices,
    )
