"""Do twice the shards halve the peak? Memory logged at two numbers of ranks goes in; what shrank and what did not, out.

State is dealt out over the ranks. The peak also holds what is not: activations, a gathered module, its gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.base.errors import JobError, suggest
from meshwright.system.memory_logs import LoggedMemory, read_memory_log


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAndPeak:
    """One number of ranks against another. even_state_bytes: the other's state dealt out over these ranks.

    remainder_bytes: live at the peak beside the state.   state_reduction, peak_reduction: shares of the other's.
    proportional_peak_bytes: what the peak would be if it went with the ranks, as it does not.
    """

    ranks: int
    against: int
    state_bytes: int
    peak_bytes: int
    remainder_bytes: int
    even_state_bytes: float
    proportional_peak_bytes: float
    state_reduction: float
    peak_reduction: float


def state_and_peak(run: LoggedMemory, against: LoggedMemory) -> StateAndPeak:
    """What more ranks leave of the state and of the peak. Raises JOB046 for a run that no memory can have.

    Source: chapter "Training systems", sections 10.1.2 and 10.2.1.
    """
    for item in (run, against):
        if item.ranks < 1 or not 0 < item.state <= item.peak:
            cause = f"a run over {item.ranks} ranks with a state of {item.state} B and a peak of {item.peak} B"
            raise JobError(46, cause, "give at least one rank, and a state above zero that the peak includes")
    ratio = against.ranks / run.ranks
    return StateAndPeak(
        ranks=run.ranks,
        against=against.ranks,
        state_bytes=run.state,
        peak_bytes=run.peak,
        remainder_bytes=run.peak - run.state,
        even_state_bytes=against.state * ratio,
        proportional_peak_bytes=against.peak * ratio,
        state_reduction=1 - run.state / against.state,
        peak_reduction=1 - run.peak / against.peak,
    )


def logged_state_and_peak(log: str, ranks: int, against: int) -> StateAndPeak:
    """Two runs of an archived log. Raises SYS002 (log), JOB046 (ranks that it lacks). Source: as the log names."""
    found = {run.ranks: run for run in read_memory_log(log).runs}
    for count in (ranks, against):
        if count not in found:
            raise JobError(46, f"{log} logs no run over {count} ranks", suggest(str(count), map(str, found)))
    return state_and_peak(found[ranks], found[against])
