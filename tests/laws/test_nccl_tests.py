"""Whatever happens to a file of nccl-tests, it is read or refused by a code; what is read is judged."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from meshwright.base.errors import CollectiveError
from meshwright.base.result import as_json
from meshwright.scenarios.collective_check import CheckOptions, collective_check
from meshwright.system.nccl_tests import PROGRAMS, read_measurement
from meshwright.system.system import read_system
from tests.measured.nccl_text import text

_SYSTEMS = tuple(read_system(name) for name in ("hgx-h100", "hgx-a100 x2", "rtx4090-host", "mi300x-8"))
_RATES = st.lists(
    st.tuples(st.integers(3, 34).map(lambda power: 1 << power), st.floats(1e-3, 2e3)), min_size=1, max_size=6
)
_LARGE = st.lists(
    st.tuples(st.integers(20, 34).map(lambda power: 1 << power), st.floats(1, 500)), min_size=1, max_size=6
)
_DAMAGES = st.lists(
    st.tuples(st.sampled_from(("cut", "change", "drop", "twice")), st.floats(0, 1), st.sampled_from("\n 09.-#Né")),
    max_size=2,
)


def damaged(told, how, where, sign):
    at = int(where * (len(told) - 1)) if told else 0
    lines = told.split("\n")
    line = int(where * (len(lines) - 1))
    if how == "cut":
        return told[:at]
    if how == "change":
        return told[:at] + sign + told[at + 1 :]
    return "\n".join([*lines[:line], *([lines[line]] * 2 if how == "twice" else []), *lines[line + 1 :]])


@given(
    rates=_RATES,
    operation=st.sampled_from(sorted(PROGRAMS.values())),
    hosts=st.integers(1, 2),
    ranks_per_host=st.integers(2, 8),
    damages=_DAMAGES,
    system=st.sampled_from(_SYSTEMS),
    partial=st.booleans(),
)
def test_a_damaged_file_is_read_or_refused_by_a_code(  # noqa: PLR0917 - hypothesis names them
    rates, operation, hosts, ranks_per_host, damages, system, partial
):
    told = text(rates, operation=operation, hosts=hosts, ranks_per_host=ranks_per_host, device="any")
    for damage in damages:
        told = damaged(told, *damage)
    try:
        found = collective_check(read_measurement(told, "run.txt"), system, CheckOptions(partial=partial))
    except CollectiveError:
        return
    json.dumps(as_json(found), allow_nan=False)
    for row in found.body["rows"]:
        assert (row.state == "not_judged") == (row.expected_bytes_per_s is None)
        assert row.low_bytes_per_s is None or row.low_bytes_per_s <= row.expected_bytes_per_s <= row.high_bytes_per_s


@given(rates=_LARGE, operation=st.sampled_from(sorted(PROGRAMS.values())), system=st.sampled_from(_SYSTEMS))
def test_a_faster_run_is_never_judged_worse(rates, operation, system):
    order = {"low": 0, "not_judged": 1, "normal": 1, "above": 2}
    states = []
    for factor in (1.0, 1.5):
        told = text([(size, rate * factor) for size, rate in rates], operation=operation, **_MACHINE)
        states.append(
            [row.state for row in collective_check(read_measurement(told, "f"), system, CheckOptions()).body["rows"]]
        )
    assert all(order[slow] <= order[fast] for slow, fast in zip(*states, strict=True))


_MACHINE = {"hosts": 1, "ranks_per_host": 8, "device": "any"}
