"""What is to be served goes in: sessions, their contexts, new tokens, a deadline; a checked `ServeJob` comes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from meshwright.base.errors import JobError
from meshwright.base.units import Seconds, Share, Tokens

Discipline: TypeAlias = Literal["fifo", "continuous"]
MOST_SESSIONS: Final = 10_000
MOST_TOKENS: Final = 2**31
_ALL: Final = Share(1.0)
_CONTINUOUS: Final = ("ttft", "tpot", "concurrency")
_FIFO: Final = ("deadline", "deadline_from")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeJob:
    """Sessions that arrive together.

    context: tokens cached per session before the first step.   new_tokens: decode steps each session wants.
    deadline: seconds from arrival to a session's last token; None when there is none.   deadline_from: where a curve
    of deadlines starts; the plan is judged at `deadline`.   on_time: share of the sessions that must meet it.
    discipline: `fifo` runs one session at a time per replica, in turn; `continuous` decodes many in one batch, step
    after step, a new one in the place of each that ends; None takes `continuous` where one of the next three is given.
    ttft, tpot: most seconds to a session's first token, and between two tokens.   concurrency: sessions in flight over
    all replicas; None takes as many of `sessions` as memory and `tpot` let in, the rest waits.
    """

    sessions: int
    context: Tokens
    new_tokens: Tokens
    deadline: Seconds | None = None
    deadline_from: Seconds | None = None
    on_time: Share = _ALL
    discipline: Discipline | None = None
    ttft: Seconds | None = None
    tpot: Seconds | None = None
    concurrency: int | None = None

    @property
    def last_position(self) -> int:
        """Positions cached per session when it ends: what memory must hold."""
        return self.context + self.new_tokens


def read_deadline(text: str | None) -> dict[str, str | None]:
    """`130ms`, or `100ms..170ms` for a curve, as the fields of a job."""
    first, dots, last = (text or "").partition("..")
    return {"deadline": last, "deadline_from": first} if dots else {"deadline": text, "deadline_from": None}


def checked(job: ServeJob) -> ServeJob:
    """The job with its discipline, once its numbers make sense.

    Raises JOB001 (sizes), JOB002 (times), JOB006 (a number that its discipline does not know).
    """
    check_range("sessions", job.sessions, 1, MOST_SESSIONS)
    check_range("context", job.context, 0, MOST_TOKENS)
    check_range("new_tokens", job.new_tokens, 1, MOST_TOKENS)
    if job.deadline is not None and job.deadline <= 0:
        raise JobError(2, f"the deadline is {job.deadline:g} s", "give a deadline above zero, as in 130ms")
    if job.deadline_from is not None and not 0 < job.deadline_from < (job.deadline or 0.0):
        cause = f"the deadlines run from {job.deadline_from:g} s to {job.deadline or 0.0:g} s"
        raise JobError(2, cause, "give a range that rises, as in 100ms..170ms")
    return _checked_batching(job)


def _checked_batching(job: ServeJob) -> ServeJob:
    """What belongs to one discipline alone."""
    asked = [name for name in _CONTINUOUS if getattr(job, name) is not None]
    if job.concurrency is not None:
        check_range("concurrency", job.concurrency, 1, job.sessions)
    for name in ("ttft", "tpot"):
        bound = getattr(job, name)
        if bound is not None and bound <= 0:
            raise JobError(2, f"--{name} is {bound:g} s", f"give a time above zero, as in --{name} 30ms")
    chosen: Discipline = job.discipline or ("continuous" if asked else "fifo")
    if chosen == "fifo" and asked:
        raise foreign(asked[0], "fifo", "runs one session at a time, from the first step to the last")
    late = [name for name in _FIFO if getattr(job, name) is not None]
    if chosen == "continuous" and (late or job.on_time != _ALL):
        name = "deadline" if late else "on-time"
        raise foreign(name, "continuous", "judges token by token, by --ttft and --tpot")
    return job if job.discipline == chosen else replace(job, discipline=chosen)


def foreign(option: str, discipline: Discipline, why: str) -> JobError:
    """The error for an option that a discipline has no use for."""
    bounds = ", ".join(f"--{name}" for name in _CONTINUOUS)
    other = "continuous" if discipline == "fifo" else f"fifo without {bounds}"
    return JobError(6, f"--{option}: {discipline} {why}", f"leave --{option} out, or --discipline {other}")


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Raises JOB001 for a size that is out of range."""
    if not least <= value <= most:
        raise JobError(1, f"{name} is {value}", f"give between {least} and {most}")
