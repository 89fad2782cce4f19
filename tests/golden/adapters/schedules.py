"""Pipeline schedules: their times, peaks and messages, what is inside them, and a line of stages."""

from __future__ import annotations

from meshwright.scenarios.schedule import ScheduleOptions, schedule
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "schedule",
    {
        "fitting": "G10-183 G10-184",
        "schedules[schedule=fill_drain].utilization": "G10-158",
        "schedules[schedule=fill_drain].compute_s": "G10-159",
        "schedules[schedule=fill_drain].total_s": "G10-161",
        "schedules[schedule=fill_drain].bubble_s": "G10-173",
        "schedules[schedule=fill_drain].largest_peak_bytes": "G10-174",
        "schedules[schedule=fill_drain].peak_bytes[0]": "G10-196",
        "schedules[schedule=fill_drain].peak_bytes[3]": "G10-197",
        "schedules[schedule=fill_drain].idle_s[0]": "G10-215",
        "schedules[schedule=fill_drain].transfer_wait_s": "G10-223",
        "schedules[schedule=one_f_one_b].gradients_s": "G10-170",
        "schedules[schedule=one_f_one_b].total_s": "G10-171 G10-217",
        "schedules[schedule=one_f_one_b].over_fastest": "G10-172",
        "schedules[schedule=one_f_one_b].largest_peak_bytes": "G10-175",
        "schedules[schedule=one_f_one_b].below_largest": "G10-176",
        "schedules[schedule=one_f_one_b].crossings": "G10-186",
        "schedules[schedule=one_f_one_b].idle_s[0]": "G10-189",
        "schedules[schedule=one_f_one_b].messages": "G10-191",
        "schedules[schedule=one_f_one_b].peak_bytes[0]": "G10-194",
        "schedules[schedule=one_f_one_b].peak_bytes[3]": "G10-195",
        "schedules[schedule=one_f_one_b].bubble_over_ideal": "G10-221 G10-222",
        "schedules[schedule=interleaved].crossings": "G10-185",
        "schedules[schedule=interleaved].extra_crossings": "G10-187",
        "schedules[schedule=interleaved].total_s": "G10-188 G10-218",
        "schedules[schedule=interleaved].idle_s[0]": "G10-190",
        "schedules[schedule=interleaved].messages": "G10-192",
        "schedules[schedule=interleaved].peak_bytes[0]": "G10-193",
        "schedules[schedule=zero_bubble_h1].peak_bytes[0]": "G10-198",
        "schedules[schedule=zero_bubble_h1].peak_bytes[3]": "G10-199",
        "schedules[schedule=zero_bubble_h1].total_s": "G10-206 G10-219",
        "schedules[schedule=zero_bubble_h1].idle_s[0]": "G10-207 G10-208",
        "schedules[schedule=zero_bubble_h1].transfer_wait_s": "G10-209",
        "schedules[schedule=dualpipe_declared].peak_bytes[0]": "G10-200",
        "schedules[schedule=dualpipe_declared].peak_bytes[1]": "G10-201",
        "schedules[schedule=dualpipe_declared].peak_bytes[2]": "G10-202",
        "schedules[schedule=dualpipe_declared].total_s": "G10-212 G10-220",
        "schedules[schedule=dualpipe_declared].idle_s[0]": "G10-214",
        "schedules[schedule=dualpipe_published].activation_sets": "G10-213",
    },
)
def scheduled(row: Row) -> object:
    return row.select(schedule(row.record(ScheduleOptions)))


@answers(
    "study run slot-times",
    {
        "answer.delay_s": "G10-160",
        "answer.start_s": "G10-167 G10-168 G10-216",
        "answer.end_s": "G10-162 G10-164 G10-165",
        "answer.arrival_s": "G10-163 G10-166",
        "answer.gap_s": "G10-169",
    },
)
@answers("study run rank-order", {"answer.weight_lag": "G10-210"})
@answers("study run schedule-bubble", {"answer.bubble_s": "G10-203 G10-204 G10-205 G10-211"})
@answers(
    "study run layer-blocks",
    {
        "answer.count": "G10-177",
        "answer.blocks[0].layers": "G6-548",
        "answer.blocks[3].layers": "G10-178",
        "answer.blocks[7].layers": "G10-179",
        "answer.blocks[4].first_layer": "G10-180",
        "answer.blocks[4].last_layer": "G10-181",
        "answer.blocks[0].last_layer": "G10-182",
    },
)
@answers(
    "study run stage-line",
    {
        "answer.finish_s[0]": "G6-144 G6-149",
        "answer.finish_s[1]": "G6-145",
        "answer.last_s": "G6-146",
        "answer.utilization": "G6-147 G6-148",
        "answer.interval_s": "G6-150",
    },
)
def inside(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
