"""What a launcher such as torchrun says of this process goes in; it joins the others and runs its rank's function.

torchrun starts and ends the processes. What fails here is told through its store, so that the ranks that see it name
the one that they waited for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import torch

from meshwright.base.errors import MeshwrightError, RunError
from meshwright.runtime.launch.blame import Ended, coded_of, error_of, is_of_others
from meshwright.runtime.launch.member import Function, Member, Seat, Told, joined
from meshwright.runtime.launch.stores import Store, reached, served, under_prefix
from meshwright.runtime.launch.whereabouts import Line, Note, Whereabouts, as_text, note_of

if TYPE_CHECKING:
    from meshwright.runtime.job import Launcher
    from meshwright.runtime.launch.supervisor import Crew

_ROOM: Final = 2**16
_SETTLE_S: Final = 2.0
_SILENT: Final = "something that it did not tell"


def run_under(launcher: Launcher, function: Function, payload: Any, crew: Crew, told: Told) -> Any:
    """What the function returns on this rank. Raises as `launch`.

    The keys of one attempt have a prefix of their own: the store outlives the ranks of the attempt before.
    """
    torch.set_num_threads(1)
    store = under_prefix(f"meshwright-{launcher.attempt}", _store(launcher, crew))
    line = Line(bytearray(_ROOM), 0, _ROOM)  # read when something fails
    where = Whereabouts(line)
    seat = Seat(
        rank=launcher.rank,
        local_rank=launcher.local_rank,
        places=crew.places,
        devices=crew.devices,
        timeout_s=crew.timeout_s,
    )
    try:
        with joined(seat, store, where) as device:
            member = Member(rank=seat.rank, ranks=launcher.ranks, device=device, where=where, tell=told)
            return function(member, payload)
    except MeshwrightError:
        raise
    except Exception as problem:
        own = Ended(raised=f"{type(problem).__name__}: {problem}", coded=coded_of(problem))
        told_note = line.read()
        failed, notes = _told_by_all(store, seat, own, told_note)
        raise error_of(failed, notes, crew.places, crew.timeout_s)[1] from problem


def _store(launcher: Launcher, crew: Crew) -> Store:
    """The store that all know. Raises RUN003 where it can not be reached, or not be kept."""
    opened = served if launcher.rank == 0 and not launcher.serves else reached
    try:
        return opened(launcher.host, launcher.port, crew.timeout_s)
    except (RuntimeError, ValueError, OverflowError, TypeError) as problem:
        cause = f"the launcher's store at {launcher.host}:{launcher.port}: {str(problem).partition(chr(10))[0]}"
        raise RunError(3, cause, "check MASTER_ADDR and MASTER_PORT, and that rank 0 has started") from problem


def _told_by_all(store: Store, seat: Seat, own: Ended, note: Note) -> tuple[dict[int, Ended], list[Note]]:
    """How ranks failed and where each stands, of those that tell it in time; the rest are elsewhere."""
    failed = {seat.rank: own}
    notes = [Note(doing=_SILENT) for _ in seat.places]
    notes[seat.rank] = note
    try:
        store.set(f"note/{seat.rank}", as_text(note))
        store.set(f"raised/{seat.rank}", own.raised if not is_of_others(own, note) else "")
        time.sleep(_SETTLE_S)
        for rank in range(len(seat.places)):
            if rank != seat.rank and store.check([f"note/{rank}", f"raised/{rank}"]):
                notes[rank] = note_of(store.get(f"note/{rank}").decode())
                raised = store.get(f"raised/{rank}").decode()
                failed |= {rank: Ended(raised=raised)} if raised else {}
    except RuntimeError:  # the store went with the rank that kept it
        return failed, notes
    return failed, notes
