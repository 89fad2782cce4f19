"""Which layout serves some sessions, when each of them ends, and what the on-time ones cost."""

from __future__ import annotations

from typing import Final

from meshwright.job.serve import ServeJob
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers

_TP1: Final = "candidates[id=replicas=8,tp=1,pp=1]"
_TP2: Final = "candidates[id=replicas=4,tp=2,pp=1]"
_TP4: Final = "candidates[id=replicas=2,tp=4,pp=1]"
_TP8: Final = "candidates[id=replicas=1,tp=8,pp=1]"
_TP16: Final = "candidates[id=replicas=1,tp=16,pp=1]"
_HIT_TP2: Final = "answer.layouts[id=replicas=4,tp=2,pp=1]"
_HIT_TP4: Final = "answer.layouts[id=replicas=2,tp=4,pp=1]"


@answers(
    "plan serve",
    {
        f"{_TP1}.service_time_s": "G6-461",
        f"{_TP2}.service_time_s": "G6-416",
        f"{_TP4}.service_time_s": "G6-417",
        f"{_TP8}.service_time_s": "G6-418",
        f"{_TP2}.finish_times_s[0]": "G6-419",
        f"{_TP2}.finish_times_s[1]": "G6-420",
        f"{_TP2}.finish_times_s[2]": "G6-421",
        f"{_TP2}.finish_times_s[3]": "G6-422",
        f"{_TP4}.finish_times_s[0]": "G6-423",
        f"{_TP4}.finish_times_s[1]": "G6-424",
        f"{_TP4}.finish_times_s[2]": "G6-425",
        f"{_TP4}.finish_times_s[3]": "G6-426",
        f"{_TP8}.finish_times_s[0]": "G6-427",
        f"{_TP8}.finish_times_s[1]": "G6-428",
        f"{_TP8}.finish_times_s[2]": "G6-429",
        f"{_TP8}.finish_times_s[3]": "G6-430",
        f"{_TP2}.last_finish_s": "G6-462",
        f"{_TP2}.cost_gpu_s": "G6-436",
        f"{_TP4}.cost_gpu_s": "G6-438",
        f"{_TP8}.cost_gpu_s": "G6-440",
        f"{_TP2}.cost_per_on_time_gpu_s": "G6-437 G6-463",
        f"{_TP4}.cost_per_on_time_gpu_s": "G6-439",
        f"{_TP8}.cost_per_on_time_gpu_s": "G6-441",
        f"{_TP8}.on_time_count": "G6-442",
        f"{_TP16}.service_time_s": "G6-434",
        f"{_TP2}.fault.finish_times_s[0]": "G6-443",
        f"{_TP4}.fault.finish_times_s[0]": "G6-447",
        f"{_TP4}.fault.finish_times_s[1]": "G6-445",
        f"{_TP4}.fault.finish_times_s[2]": "G6-448",
        f"{_TP4}.fault.finish_times_s[3]": "G6-446",
        f"{_TP8}.fault.finish_times_s[0]": "G6-450",
        f"{_TP8}.fault.finish_times_s[1]": "G6-451",
        f"{_TP8}.fault.finish_times_s[2]": "G6-452",
        f"{_TP8}.fault.finish_times_s[3]": "G6-453",
        f"{_TP8}.fault.on_time_count": "G6-454",
        f"{_TP2}.fault.cost_gpu_s": "G6-455",
        f"{_TP2}.fault.cost_per_on_time_gpu_s": "G6-456",
        f"{_TP4}.fault.cost_per_on_time_gpu_s": "G6-458",
        f"{_TP2}.energy_j": "G6-459",
        f"{_TP4}.energy_j": "G6-460",
        "best.layout": "G6-465 G6-466",
        "sensitivity[parameter=system.scale_up.bandwidth][change=doubled].saving_s": "G6-226",
        "sensitivity[parameter=system.scale_up.latency][change=halved].saving_s": "G6-227",
    },
)
def planned(row: Row) -> object:
    return row.select(plan_serve(row.model(), row.system(), row.record(ServeJob), row.record(ServeOptions)))


@answers("plan serve", {"": "G6-415"})
def filled(row: Row) -> object:
    job = row.record(ServeJob)
    return row.select(job.last_position)


@answers(
    "study run fault-cost",
    {
        f"{_HIT_TP2}.with_fault.on_time_share": "G6-444",
        f"{_HIT_TP4}.with_fault.on_time_share": "G6-449",
        f"{_HIT_TP2}.cost_ratio": "G6-457",
    },
)
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
