"""What networks are made of, what rounds put on their links, and what systems and links of the catalog hold."""

from __future__ import annotations

from meshwright.scenarios.catalog import catalog
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "list systems",
    {
        "items[id={system}].devices": "G6-343 G6-345 G6-387 G6-552",
        "items[id={system}].cpus": "G6-344 G6-350 G6-388",
        "items[id={system}].cpu_links": "G6-551",
    },
)
def listed(row: Row) -> object:
    return row.select(catalog(row.subject))


@answers(
    "study run network-counts",
    {
        "answer.device_ports": "G6-273",
        "answer.oversubscription": "G6-277",
        "answer.switch_chips": "G6-327",
        "answer.cables": "G6-389",
        "answer.devices": "G6-346",
    },
)
@answers(
    "study run leaf-split",
    {
        "answer.up_bytes_per_s": "G6-274 G6-275",
        "answer.oversubscription": "G6-276",
        "answer.down_ports": "G6-278",
        "answer.spine_chips": "G6-279",
    },
)
@answers(
    "study run round-loads",
    {
        "answer[0].hops": "G6-280 G6-289",
        "answer[0].max_bytes": "G6-281 G6-290",
        "answer[0].link_total_bytes": "G6-282 G6-291",
        "answer[1].hops": "G6-283 G6-292",
        "answer[1].max_bytes": "G6-284 G6-293",
        "answer[1].link_total_bytes": "G6-285 G6-294",
        "answer[2].hops": "G6-286 G6-295",
        "answer[2].max_bytes": "G6-287 G6-296",
        "answer[2].link_total_bytes": "G6-288 G6-297",
        "answer[2].until_s": "G6-298 G6-299",
        "answer[2].partner": "G6-300 G6-301",
    },
)
@answers("study run message-of-total", {"answer": "G6-302"})
@answers("study run staged-ring", {"answer.between_cpus_bytes": "G6-303 G6-304 G6-305"})
@answers("study run numa-staging", {"answer.ratio": "G6-306"})
@answers(
    "study run torus-or-switch",
    {
        "answer.torus.network.diameter_links": "G6-307 G6-313",
        "answer.torus.network.devices": "G6-349 G6-351",
        "answer.layer.diameter_links": "G6-308",
        "answer.torus.network.diameter_forwards": "G6-309",
        "answer.extra_latency_s": "G6-310",
        "answer.extra_wait_s": "G6-311",
        "answer.extra_wait_share": "G6-312",
        "answer.switches.network.diameter_links": "G6-314",
        "answer.switches.network.diameter_forwards": "G6-315",
        "answer.torus.network.mean_links_with_self": "G6-316 G6-322",
        "answer.torus.network.links": "G6-317",
        "answer.torus.load_share": "G6-318",
        "answer.torus.least_s": "G6-319 G6-562",
        "answer.switches.least_s": "G6-320",
        "answer.least_ratio": "G6-321 G6-323",
        "answer.torus.network.cables": "G6-324",
        "answer.switches.network.cables": "G6-325",
        "answer.switches.network.switch_chips": "G6-326",
        "answer.torus.network.bisection.cables": "G6-352 G6-353",
    },
)
@answers(
    "study run torus-growth",
    {
        "answer.devices_ratio": "G6-354",
        "answer.bisection_ratio": "G6-355",
        "answer.bisection_per_device_ratio": "G6-356",
    },
)
@answers("study run lane-rates", {"answer.one_way_bytes_per_s": "G6-390", "answer.both_ways_bytes_per_s": "G6-391"})
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
