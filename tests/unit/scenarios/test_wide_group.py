"""A tensor parallel group over several boxes, against one box's and against one domain's."""

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.base.parse import set_path
from meshwright.job.serve import ServeJob
from meshwright.model.reader import read_model
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.scenarios.tensor_parallel import tp_scaling
from meshwright.scenarios.wide_group import wide_group
from meshwright.system.system import read_system

QWEN3_32B = read_model("Qwen/Qwen3-32B")
BOXES = read_system("hgx-h100 x2")


@pytest.fixture(scope="module")
def found():
    return wide_group(QWEN3_32B, BOXES, 16, 131064, "ring", "strict")


def test_each_step_is_the_one_of_a_tp_table_on_its_own_system(found):
    box, wide = tp_scaling(QWEN3_32B, BOXES, 131064, (8, 16), "ring")
    domain = tp_scaling(QWEN3_32B, set_path(BOXES, "devices_per_node", "16"), 131064, (16,), "ring")[0]
    archived = tp_scaling(QWEN3_32B, BOXES, 131064, (16,), "measured")[0]
    for step, row in (
        (found.one_box, box),
        (found.over_boxes, wide),
        (found.one_domain, domain),
        (found.measured, archived),
    ):
        assert (step.tp, step.local_s, step.exchange_s, step.step_s) == (
            row.tp,
            row.local_s,
            row.exchange_s,
            row.step_s,
        )


def test_what_a_wide_group_loses_is_against_the_group_of_one_box(found):
    for step in (found.over_boxes, found.measured, found.one_domain):
        assert step.slower_s == step.step_s - found.one_box.step_s
        assert step.all_reduce_ratio == step.all_reduce_s / found.one_box.all_reduce_s
    assert (found.one_box.slower_s, found.one_box.all_reduce_ratio) == (0.0, 1.0)


def test_at_the_break_even_exchange_the_plan_gives_both_the_same_step(found):
    job = ServeJob(sessions=1, context=131064, new_tokens=1)
    given = ServeOptions(layout={"tp": 16, "pp": 1}, all_reduce_time=found.break_even_s)
    wide = plan_serve(QWEN3_32B, BOXES, job, given).candidates[0]
    assert wide.measures["step_time_s"] == pytest.approx(found.one_box.step_s)
    assert found.one_box.all_reduce_s < found.break_even_s < found.one_domain.all_reduce_s


def test_a_plan_by_formula_says_what_was_measured_where_that_is_slower():
    # Source: chapter "Supernodes", section 6.5.1: 32.74 us on two HGX H100; trees of 10 KiB in all, eight
    # beside each other from every NIC, take 12.54 us on wires
    job = ServeJob(sessions=1, context=131064, new_tokens=8)
    told = {
        choice: plan_serve(QWEN3_32B, BOXES, job, ServeOptions(layout={"tp": 16, "pp": 1}, all_reduce=choice)).warnings
        for choice in ("auto", "ring", "measured")
    }
    assert any("12.54 us by formula" in text and "32.74 us were measured" in text for text in told["auto"])
    assert not any("measured" in text for choice in ("ring", "measured") for text in told[choice])


def test_a_platform_without_an_archive_has_no_measured_step():
    other = wide_group(QWEN3_32B, read_system("hgx-a100 x2"), 16, 131064, "ring", "strict")
    assert other.measured is None
    assert other.over_boxes.archived_bytes is None


@pytest.mark.parametrize(
    ("system", "tp", "all_reduce", "code"),
    [
        ("hgx-h100 x2", 8, "ring", "LAY002"),
        ("hgx-h100", 16, "ring", "LAY002"),
        ("hgx-h100 x2", 12, "ring", "LAY003"),
        ("hgx-h100 x2", 16, "rings", "COL001"),
    ],
)
def test_a_group_that_cannot_be_is_refused(system, tp, all_reduce, code):
    with pytest.raises(MeshwrightError) as caught:
        wide_group(QWEN3_32B, read_system(system), tp, 131064, all_reduce, "strict")
    assert caught.value.code == code
