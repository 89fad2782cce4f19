"""A resource gets slower or faster: what becomes of the step? Its share of the step goes in; the new step comes out.

Only what the step waits for counts, so long as what is hidden stays hidden. Where it does not, the schedule is another
one, and the answer says so: then the timeline is to be computed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from meshwright.base.errors import JobError
from meshwright.base.units import Seconds, Share
from meshwright.cost.hardware_change import changed_step_s, increase_share


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareChange:
    """The step after a change. newly_exposed_s: what no longer hides, and is in no step of the formula.

    regime_changed: whether any does.   warning: what to do then.
    """

    step_s: float
    increase_s: float
    increase_share: float
    hidden_s: float
    newly_exposed_s: float
    regime_changed: bool
    warning: str | None


def hardware_change(
    step_s: Seconds, waiting: Share, times: float, hidden_s: Seconds, cover_s: Seconds
) -> HardwareChange:
    """A step that waits `waiting` of its time for a resource, which then is `times` as fast (0.5: half).

    hidden_s: the resource's work behind other work of cover_s, which the change leaves as long. Decimal amounts are
    computed exactly: 100 ms of which 5 % wait for half the rate are 105 ms. Raises JOB086. Source: chapter "Training
    systems", section 10.6.3.
    """
    if step_s <= 0 or times <= 0 or hidden_s > cover_s:
        cause = f"a step of {step_s} s, {times} times as fast, {hidden_s} s hidden behind {cover_s} s"
        raise JobError(86, cause, "give a step and a factor above zero, and hide no more than what covers it")
    step, share, factor = (Fraction(repr(float(item))) for item in (step_s, waiting, times))
    after = changed_step_s(step, share, factor)
    exposed = max(0.0, hidden_s / times - cover_s)
    return HardwareChange(
        step_s=float(after),
        increase_s=float(after - step),
        increase_share=float(increase_share(share, factor)),
        hidden_s=min(hidden_s / times, cover_s),
        newly_exposed_s=exposed,
        regime_changed=exposed > 0,
        warning="the schedule changes: compute the timeline again, step_s is a lower bound" if exposed > 0 else None,
    )
