"""Supernodes by size, where tables and state lie beside them, and one user on machines of other memories."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from meshwright.base.errors import UserError
from meshwright.base.parse import set_path
from meshwright.cost.spread_instances import reached_count
from meshwright.scenarios.larger_models import larger_models
from meshwright.scenarios.shared_state import logical_token_bytes, shared_state
from meshwright.scenarios.supernode_size import Setting, SpreadModel, expert_bytes, supernode_size
from meshwright.scenarios.weight_machines import state_room, summed_bytes, unnamed_s
from meshwright.sweep.study import read_study, run_study
from meshwright.system.system import read_system

BOXES = read_system("hgx-h100 x32")
FLASH = SpreadModel(
    layers=40,
    experts=384,
    top_k=6,
    hidden=5120,
    element_bytes=2,
    replicated_bytes=9_531_704_768,
    looked_up_bytes=1_323_827_200,
    expert_bytes=18_800_640,
    table_bytes=203_073_076_240,
    session_bytes=180_703_360,
    read_state_bytes=46_763_136,
    token_flops=40_113_676_288.0,
)


def sized(*sizes, model=FLASH, system=BOXES, workspace=2 * 2**30, target=0.05, **setting):
    return supernode_size(model, system, sizes, workspace, target, Setting(**setting))


def test_the_packaged_study_is_the_chapters_table():
    """Chapter "Supernodes", section 6.7.4: 37, 335, 356 and 367 sessions, and the step of each."""
    rows = run_study("supernode-size", {}).body["answer"]["rows"]
    assert [row["sessions"] for row in rows] == [37, 335, 356, 367]
    assert [round(row["step_s"] * 1e3, 1) for row in rows] == [14.1, 17.3, 18.4, 18.9]


def test_most_of_the_gain_of_a_larger_supernode_is_room_for_sessions():
    small, large = sized(8, 64).rows
    assert large.times_first_sessions > large.times_first_tokens > 7
    assert small.bound == large.bound == "capacity"
    assert sized(8, 64, tables=("elsewhere", "spread")).rows[1].times_first_tokens == pytest.approx(1.9, abs=0.05)


def test_a_lone_session_is_no_faster_in_a_larger_supernode():
    """Rejected answer 20 of the chapter: a bigger supernode does not speed up one session."""
    speeds = [row.tokens_per_s for row in sized(8, 16, 64, 256).one_session]
    assert speeds == sorted(speeds, reverse=True)
    assert speeds[0] < 1.001 * speeds[-1]


def test_a_tighter_target_holds_fewer_sessions_and_exactly_the_most_that_meet_it():
    loose, tight = sized(64).rows[0], sized(64, target=0.015).rows[0]
    assert tight.bound == "target"
    assert tight.step_s <= 0.015
    more = replace(FLASH, session_bytes=1)
    assert sized(64, target=0.015, model=more).rows[0].sessions == tight.sessions < loose.sessions
    assert sized(64, target=tight.step_s * (1 + 1e-9)).rows[0].sessions == tight.sessions
    assert sized(64, target=tight.step_s * (1 - 1e-9)).rows[0].sessions == tight.sessions - 1


def test_a_target_below_one_session_serves_nobody():
    found = sized(8, 64, target=1e-3)
    assert found.best_ranks is None
    assert [(row.sessions, row.step_s, row.tokens_per_s) for row in found.rows] == [(0, None, 0.0)] * 2


def test_weights_beyond_a_card_fit_nowhere_and_are_said_so():
    found = sized(4, 8, model=replace(FLASH, experts=600)).rows
    assert [(row.bound, row.sessions) for row in found] == [("nothing fits", 0)] * 2


def test_strict_shards_are_whole_experts_and_never_hold_less():
    even, strict = (sized(8, 64, 100, 256, shards=shards).rows for shards in ("even", "strict"))
    assert [row.experts_per_rank for row in strict] == [48, 6, 4, 2]
    assert [row.weights_bytes == other.weights_bytes for row, other in zip(even, strict, strict=True)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert all(row.weights_bytes <= other.weights_bytes for row, other in zip(even, strict, strict=True))


def test_boxes_exchange_over_nics_and_one_box_is_a_domain():
    domain, boxes = (sized(8, 64, reach=(reach,)).rows for reach in ("domain", "boxes"))
    assert boxes[0] == domain[0]
    assert boxes[1].exchange_s > 4 * domain[1].exchange_s
    assert boxes[1].leaving_fraction == 1 - 8 / 64


def test_one_card_exchanges_nothing():
    small = replace(FLASH, experts=8, table_bytes=0)
    assert sized(1, model=small).rows[0].exchange_s == 0


def test_a_copy_a_card_is_never_more_than_a_copy_an_expert():
    for size in (2, 8, 64, 256):
        copies, once = (sized(size, sent=sent, tables=("elsewhere",)).rows[0] for sent in ("copies", "deduplicated"))
        if copies.sessions and copies.sessions == once.sessions:
            assert once.exchange_s < copies.exchange_s


@pytest.mark.parametrize(("experts", "top_k", "ranks"), [(8, 3, 4), (6, 2, 3), (12, 4, 2), (6, 6, 3), (5, 2, 5)])
def test_cards_that_a_row_reaches_are_counted_over_every_choice(experts, top_k, ranks):
    owners = np.arange(experts) * ranks // experts
    every = [len({owners[item] for item in chosen}) for chosen in combinations(range(experts), top_k)]
    assert reached_count(top_k, ranks, experts) == pytest.approx(np.mean(every))


def test_a_faster_card_or_link_never_gives_less():
    base = sized(64).rows[0]
    for path in ("accelerator.memory_bandwidth", "accelerator.peak.bf16", "scale_up.bandwidth"):
        value = {"accelerator.peak.bf16": "2e15 FLOP/s"}.get(path, "9e12 B/s")
        assert sized(64, system=set_path(BOXES, path, value)).rows[0].tokens_per_s >= base.tokens_per_s


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"sizes": (512,)}, "JOB001"),
        ({"sizes": (0,)}, "JOB001"),
        ({"target": 0.0}, "JOB134"),
        ({"model": replace(FLASH, top_k=385)}, "JOB134"),
        ({"model": replace(FLASH, looked_up_bytes=10**12)}, "JOB134"),
        ({"reach": ("domain", "boxes")}, "JOB134"),
    ],
)
def test_what_cannot_be_is_refused(change, code):
    sizes = change.pop("sizes", (8, 64, 128))
    with pytest.raises(UserError, match=code):
        sized(*sizes, **change)


def test_an_expert_of_four_bits_has_a_scale_byte_for_every_32_of_a_row():
    assert expert_bytes(5120, 2304, "mxfp4", "bf16") == 3 * 5120 * 2304 * 17 // 32
    assert expert_bytes(5120, 2304, "bf16", "bf16") == 3 * 5120 * 2304 * 2


def state(**change):
    given = {
        "tokens": 200_000,
        "token_bytes": 890,
        "layers": 40,
        "window": 128,
        "window_token_bytes": 528,
        "read_state_bytes": 46_763_136,
        "stages": 2,
    }
    return shared_state(**(given | change))


def test_shared_state_is_free_on_one_stage_alone():
    """Rejected answer 27 of the chapter: 890 B a token are logical bytes."""
    alone, over = state(stages=1), state(stages=4)
    assert {(item.stored_bytes, item.sent_token_bytes) for item in alone.choices} == {(alone.session_bytes, 0)}
    by_choice = {item.choice: item for item in over.choices}
    assert by_choice["replicated"].stored_bytes == over.session_bytes + 3 * 890 * 200_000
    assert by_choice["remote"].sent_token_bytes > 1000 * by_choice["replicated"].sent_token_bytes > 0
    assert by_choice["co_located"].sent_token_bytes == 0


def test_a_token_adds_what_is_left_beside_the_windows():
    found = state()
    assert logical_token_bytes(found.session_bytes, found.window_bytes, 200_000) == 890
    with pytest.raises(UserError, match="JOB001"):
        logical_token_bytes(1, 2, 1)


def test_tables_hide_while_a_round_trip_is_within_a_block():
    slow, fast = (run_study("table-placement", {"token_s": time}).body["answer"] for time in ("43 us", "41 us"))
    assert slow["host"]["hidden"]
    assert not fast["host"]["hidden"]
    assert slow["host"]["least_step_s"] == pytest.approx(42e-6)
    with pytest.raises(UserError, match="JOB133"):
        run_study("table-placement", {"stores.reads_per_s": "0"})


def machines(**change):
    found = run_study("rom-machines", {f"machines.{name}": text for name, text in change.items()})
    return found.body["answer"]["machines"]


def test_reads_of_one_memory_add_up_and_of_two_do_not():
    rom, cards = machines()
    assert rom["bound"] == cards["bound"] == "communication"
    assert machines(paths="shared")[0]["work_s"] - rom["work_s"] == pytest.approx(1.6181e-6 / 0.9)
    assert machines(paths="shared")[1] == cards


def test_what_a_speed_leaves_is_what_a_machine_has_beside_work_and_communication():
    found = machines()[0]
    assert unnamed_s(found["tokens_per_s"], found["work_s"], found["communication_s"]) == pytest.approx(10.0517e-6)
    with pytest.raises(UserError, match="JOB133"):
        unnamed_s(0.0, 1.0, 1.0)


@pytest.mark.parametrize("text", ["0%", "101%"])
def test_a_balance_is_a_share_above_zero(text):
    with pytest.raises(UserError):
        machines(balance=text)


def test_memory_for_state_decides_how_many_sessions_there_are():
    inputs = read_study("checkpoint-bytes").inputs["parts"]
    whole = summed_bytes({name: int(text.split()[0]) for name, text in inputs.items()})
    found = state_room(whole, 44 * 10**9, 1_741_500_000_000, 200_000_000, 180_703_360)
    assert (found.devices, found.large_sessions, found.fast_sessions) == (12, 9637, 1)
    assert state_room(whole, 44 * 10**9, 10**12, 0, 180_703_360).times_more_sessions is None


def test_a_latent_row_is_half_when_it_is_projected_before_it_is_sent():
    rows = {row["model"]: row for row in run_study("larger-models", {}).body["answer"]["rows"]}
    assert rows["Kimi K3"]["times_fewer_bytes"] == 2
    assert rows["DeepSeek V4-Pro"]["times_fewer_bytes"] == 1
    assert [row["fits"] for row in rows.values()] == [True, False, False]
    assert [row["boxes"] for row in rows.values()] == [1, 2, 3]


def test_a_model_without_facts_is_refused():
    with pytest.raises(UserError, match="JOB134"):
        larger_models((), ("Kimi K9",), BOXES, 0, 2)
