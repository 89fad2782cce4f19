"""Processes of a run: what they return, how a rank that fails or stands is named, and that none is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from meshwright.base.errors import LayoutError, RunError  # noqa: E402
from meshwright.runtime.job import Launcher  # noqa: E402
from meshwright.runtime.launch.supervisor import Crew, launch  # noqa: E402
from meshwright.runtime.launch.under import run_under  # noqa: E402
from meshwright.runtime.launch.whereabouts import Board, Note  # noqa: E402
from tests.runtime.processes import children_of, gone_within  # noqa: E402

_STEP = 2


def crew(ranks, timeout_s=20.0):
    places = tuple({"pp": rank // 2, "tp": rank % 2} for rank in range(ranks))
    return Crew(places=places, devices="cpu", timeout_s=timeout_s)


def silent(_):
    """Nobody listens."""


def outcome(function, ranks, payload=None, timeout_s=20.0):
    """The error of a launch that must fail, how long that took, and that nobody is left."""
    begun, before = time.monotonic(), set(children_of(os.getpid()))
    with pytest.raises(RunError) as caught:
        launch(function, payload, crew(ranks, timeout_s), silent)
    assert set(children_of(os.getpid())) <= before
    return caught.value, time.monotonic() - begun


def summed(member, payload):
    value = torch.tensor([float(member.rank + payload)])
    dist.all_reduce(value)
    member.tell((member.rank, float(value)))
    return float(value)


def test_every_rank_returns_what_its_function_does_and_tells_what_it_says():
    told = []
    assert launch(summed, 10, crew(3), told.append) == (33.0, 33.0, 33.0)
    assert sorted(told) == [(0, 33.0), (1, 33.0), (2, 33.0)]
    assert not multiprocessing.active_children()


def test_processes_that_are_started_anew_do_the_same():
    assert launch(summed, 1, crew(2, 60.0), silent, "spawn") == (3.0, 3.0)


def printing(member, _):
    print("on stdout")
    print("on stderr", file=sys.stderr)
    return member.rank


def test_nothing_that_a_rank_prints_reaches_the_output_of_the_program(capfd):
    launch(printing, None, crew(2), silent)
    assert capfd.readouterr() == ("", "")


# ----------------------------------------------------------------------------------------------------- ranks that fail


def killed(member, _):
    member.where.enters_step(_STEP)
    if member.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1))


def test_a_killed_rank_is_named_with_its_place_and_what_others_waited_for_it_in():
    error, seconds = outcome(killed, 2)
    assert error.code == "RUN010"
    assert error.cause.startswith("rank 1 (pp 0, tp 1) was killed by SIGKILL in step 2")
    assert "rank 0 (pp 0, tp 0) waited for it in all_reduce over tp (step 2)" in error.cause
    assert seconds < 15, "at once, not after the timeout"


def raising(member, _):
    dist.all_reduce(torch.ones(1))
    if member.rank == 2:
        raise ValueError("a fault of one rank")
    dist.barrier()


def test_a_rank_that_raises_is_named_and_its_traceback_goes_to_the_log(caplog):
    error, _ = outcome(raising, 3)
    assert error.code == "RUN010"
    assert error.cause.startswith("rank 2 (pp 1, tp 0) raised ValueError: a fault of one rank")
    assert 'raise ValueError("a fault of one rank")' in caplog.text
    assert "rank 2 (pp 1, tp 0) wrote:" in caplog.text


def leaving(member, _):
    if member.rank == 0:
        os._exit(7)
    dist.barrier()


def test_a_rank_that_leaves_is_named_with_its_exit_code():
    error, _ = outcome(leaving, 2)
    assert error.cause.startswith("rank 0 (pp 0, tp 0) left with exit code 7")


def coded(member, _):
    raise LayoutError(3, "tp=3 divides nothing", "--layout tp=2")


def test_an_error_of_ours_keeps_its_code():
    with pytest.raises(LayoutError) as caught:
        launch(coded, None, crew(2), silent)
    assert caught.value.message == "error[LAY003]: tp=3 divides nothing\nfix: --layout tp=2"


# ----------------------------------------------------------------------------------------------------- ranks that stand


def sleeping(member, _):
    member.where.enters_step(_STEP)
    if member.rank == 2:
        time.sleep(600)
    if member.rank < 2:
        dist.all_reduce(torch.ones(1), group=member_group(member, (0, 1)))
    dist.all_reduce(torch.ones(1))


def member_group(member, ranks):
    """A group of some ranks; the others must not be asked, as they may sleep."""
    assert member.rank in ranks
    return dist.new_group(list(ranks), use_local_synchronization=True)


def test_a_rank_that_sleeps_is_named_within_the_timeout():
    error, seconds = outcome(sleeping, 3, timeout_s=4.0)
    assert error.code == "RUN011"
    assert error.cause.startswith("rank 2 (pp 1, tp 0) stood still for 4 s in step 2; ")
    assert "waited for it in all_reduce over all ranks" in error.cause
    assert 3 < seconds < 20


def crossed(member, _):
    """Each waits for the other in an exchange that the other is not in."""
    first, second = dist.new_group([0, 1]), dist.new_group([1, 0])
    member.where.enters_step(_STEP)
    if member.rank == 1:
        time.sleep(2)
        dist.all_reduce(torch.ones(1), group=second)
    dist.barrier(group=first)


def test_where_all_wait_the_one_that_the_longest_wait_is_for_is_named():
    error, _ = outcome(crossed, 2, timeout_s=4.0)
    assert error.code == "RUN011"
    assert error.cause.startswith("rank 1 (pp 0, tp 1) stood still for 4 s in step 2, in all_reduce over tp; ")
    assert "rank 0 (pp 0, tp 0) waited for it in barrier over tp" in error.cause


def alone(member, _):
    time.sleep(600)


def test_a_rank_that_nobody_waits_for_may_not_stand_either():
    error, _ = outcome(alone, 1, timeout_s=2.0)
    assert error.cause.startswith("rank 0 (pp 0, tp 0) stood still for 2 s")


def test_a_note_that_is_being_written_is_no_note_of_long_ago(tmp_path):
    board = Board(tmp_path / "board", 1)
    line = board.lines[0]
    line.write(Note(at_s=time.monotonic(), doing="here"))
    line.memory[line.start + 4 : line.start + 12] = bytes(8)  # as struct leaves a head for a moment
    assert time.monotonic() - line.read().at_s < 60
    line.write(Note(at_s=time.monotonic(), doing="there"))
    assert line.read().doing == "there"
    board.close()


# -------------------------------------------------------------------------------------------- under another's launcher


def raising_in_step(member, _):
    member.where.enters_step(_STEP)
    if member.rank == 1:
        raise ValueError("a fault of one rank")
    dist.all_reduce(torch.ones(1))


def sleeping_in_step(member, _):
    member.where.enters_step(_STEP)
    if member.rank == 1:
        time.sleep(30)
    dist.all_reduce(torch.ones(1))


def under(rank, port, function, answers):
    """What a process that torchrun started does."""
    launcher = Launcher(rank=rank, local_rank=rank, ranks=2, host="127.0.0.1", port=port, serves=True, attempt=0)
    try:
        answers.put((rank, run_under(launcher, function, 1, crew(2, 4.0), silent)))
    except RunError as error:
        answers.put((rank, f"{error.code} {error.cause}"))
    answers.close()
    answers.join_thread()
    os._exit(0)


def test_a_store_that_nobody_keeps_is_told():
    launcher = Launcher(rank=1, local_rank=1, ranks=2, host="127.0.0.1", port=1, serves=True, attempt=0)
    with pytest.raises(RunError, match=r"RUN003.*127\.0\.0\.1:1"):
        run_under(launcher, summed, 1, crew(2, 1.0), silent)


def answers_under(function, count):
    """What the first `count` of two ranks say, by rank; the store is the launcher's."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    started = [context.Process(target=under, args=(rank, store.port, function, answers)) for rank in (0, 1)]
    for item in started:
        item.start()
    try:
        return dict(answers.get(timeout=30) for _ in range(count))
    finally:
        for item in started:
            item.kill()
            item.join()


def test_ranks_of_another_launcher_join_and_compute():
    assert answers_under(summed, 2) == {0: 3.0, 1: 3.0}


def test_there_a_rank_that_raises_is_named_by_itself_and_by_the_one_that_waited():
    told = answers_under(raising_in_step, 2)
    start = "RUN010 rank 1 (pp 0, tp 1) raised ValueError: a fault of one rank in step 2"
    assert told[0].startswith(start)
    assert told[1].startswith(start)
    assert "rank 0 (pp 0, tp 0) waited for it in all_reduce over tp" in told[0]


def test_there_a_rank_that_sleeps_is_named_by_the_one_that_waited():
    told = answers_under(sleeping_in_step, 1)
    assert told[0].startswith("RUN011 rank 1 (pp 0, tp 1) stood still for 4 s in something that it did not tell; ")
    assert "rank 0 (pp 0, tp 0) waited for it in all_reduce over tp (step 2)" in told[0]


# ------------------------------------------------------------------------------------------------------------- orphans


def orphaned(folder):
    """A supervisor whose ranks write their ids and then sleep."""
    launch(sleeping_in, str(folder), crew(2, 300.0), silent)


def sleeping_in(member, folder):
    with open(f"{folder}/{member.rank}", "w", encoding="ascii") as file:  # noqa: PTH123 - one word
        file.write(str(os.getpid()))
    time.sleep(600)


def test_ranks_end_themselves_when_their_supervisor_is_killed(tmp_path):
    supervisor = multiprocessing.get_context("fork").Process(target=orphaned, args=(tmp_path,))
    supervisor.start()
    limit = time.monotonic() + 30
    while len([file for file in tmp_path.iterdir() if file.read_text()]) < 2 and time.monotonic() < limit:
        time.sleep(0.05)
    ranks = [int(file.read_text()) for file in tmp_path.iterdir()]
    assert len(ranks) == 2
    supervisor.kill()
    supervisor.join(10)
    assert gone_within(ranks, 20)
