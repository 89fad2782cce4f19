"""Rounds, bytes, sums and seconds of an all_reduce, its bandwidths, and where another algorithm takes over."""

from __future__ import annotations

from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "study run collective-time",
    {
        "answer.rounds": "G6-204 G6-228 G6-266",
        "answer.start_up_s": "G6-206 G6-267",
        "answer.sent_bytes": "G6-207 G6-172 G6-173",
        "answer.transfer_s": "G6-208",
        "answer.total_s": "G6-209 G6-229 G6-230 G6-231",
    },
)
@answers(
    "study run ring-trace",
    {
        "answer.arrivals[0].value": "G6-200",
        "answer.arrivals[1].value": "G6-201",
        "answer.arrivals[2].value": "G6-202",
        "answer.arrivals[-1].value": "G6-164",
    },
)
@answers("study run algorithm-bandwidth", {"answer.algbw_bytes_per_s": "G6-237", "answer.busbw_factor": "G6-238"})
@answers("study run bus-bandwidth", {"answer.busbw_bytes_per_s": "G6-239"})
@answers("study run ring-owners", {"answer.blocks": "G6-203"})
@answers("study run measured-all-reduce", {"answer.time": "G6-268"})
@answers("study run collective-crossover", {"answer": "G6-233"})
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
