import numpy as np
import pytest

from meshwright.cost.collectives import program_s
from meshwright.cost.experts import NOTHING_SENT, exchange, expert_bytes, experts_s, wires
from meshwright.cost.groups import lone_group
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.reader import read_model
from meshwright.system.fabric import system_fabric
from meshwright.system.system import read_system

MODEL = read_model("Qwen/Qwen3-235B-A22B")
SYSTEM = read_system("hgx-h100")


def test_an_expert_of_the_chapter_has_36_mib_however_it_is_cut():
    """Chapter "Supernodes", section 6.2.6."""
    for etp in (1, 2, 4):
        layouts = table([Layout(tp=etp, dp_replicate=2, ep=2, etp=etp)])
        assert int(np.atleast_1d(expert_bytes(MODEL, layouts, 0))[0]) * etp == 36 * 2**20


def test_few_rows_are_bound_by_reading_and_many_by_products():
    layouts = table([Layout(dp_replicate=8, ep=8)])
    memory, peak = SYSTEM.accelerator.memory_bandwidth, SYSTEM.accelerator.peak_for(("bf16",))[1]
    few, many = experts_s(MODEL, SYSTEM, layouts, 0, np.array([8, 80_000]), np.array([8, 16]))
    assert few == pytest.approx(8 * 36 * 2**20 / memory)
    assert many == pytest.approx(80_000 * 2 * 3 * 4096 * 1536 / peak)


def test_an_even_exchange_moves_the_bytes_of_the_even_all_to_all_at_once():
    """The all_to_all of the plans is what uniform routing sends: the same bytes over the same ports, in rounds."""
    wired = wires(system_fabric(SYSTEM), 8)
    sent = np.full((8, 8), 1000)
    found = exchange(wired, sent, 8192.0)
    group = lone_group(8, 0.0, SYSTEM.scale_up.bandwidth)
    rounds = program_s("direct", "all_to_all", group, 8 * 1000 * 8192.0)[0]
    assert found.link_bytes == 7 * 1000 * 8192
    assert found.seconds - SYSTEM.scale_up.latency == pytest.approx(rounds)


def test_an_uneven_exchange_lasts_as_long_as_its_busiest_link():
    wired = wires(system_fabric(read_system("hgx-h100 x2")), 16)
    sent = np.zeros((16, 16), dtype=np.int64)
    sent[1, 9], sent[2, 9], sent[3, 3] = 5, 6, 10**9
    found = exchange(wired, sent, 1e6)
    assert found.link_bytes == 11e6
    assert found.seconds > 11e6 / 50e9


def test_what_stays_on_its_rank_takes_no_time():
    wired = wires(system_fabric(SYSTEM), 4)
    assert exchange(wired, np.diag([1, 2, 3, 4]), 8192.0) == NOTHING_SENT
