"""The mesh: ranks and coordinates are the same thing twice, and groups along any axis partition the ranks."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.layout.axes import AXES, EXPERT_AXES, MESH_AXES, SHARD_AXIS, world_size
from meshwright.layout.layout import Layout
from meshwright.layout.mesh import coordinates, groups, rank_in_stage, rank_of
from meshwright.search.candidates import divisors


@st.composite
def meshes(draw) -> Layout:
    """Any degrees, and experts over a divisor of the ranks of a stage."""
    degrees = {axis: draw(st.integers(1, 3)) for axis in MESH_AXES}
    stage = world_size(degrees | {"replicas": 1, "pp": 1})
    ep = draw(st.sampled_from(divisors(stage)))
    return Layout(**degrees, ep=ep, etp=draw(st.sampled_from(divisors(stage // ep))))


@given(layout=meshes())
def test_coordinates_and_rank_of_are_inverse(layout):
    places = [coordinates(layout, rank) for rank in range(layout.world_size)]
    assert [rank_of(layout, place) for place in places] == list(range(layout.world_size))
    assert all(0 <= place[axis] < getattr(layout, axis) for place in places for axis in AXES)


@given(layout=meshes())
def test_tp_neighbours_are_rank_neighbours(layout):
    for group in groups(layout, "tp"):
        assert list(group) == list(range(group[0], group[0] + layout.tp))


@settings(max_examples=50)
@given(layout=meshes(), axis=st.sampled_from(AXES))
def test_groups_partition_the_ranks_and_vary_along_one_axis_only(layout, axis):
    found = groups(layout, axis)
    assert sorted(chain.from_iterable(found)) == list(range(layout.world_size))
    kept = [name for name in (EXPERT_AXES if axis in EXPERT_AXES else MESH_AXES) if name != axis]
    for group in found:
        places = [coordinates(layout, rank) for rank in group]
        assert [place[axis] for place in places] == list(range(getattr(layout, axis)))
        assert all(len({place[name] for place in places}) == 1 for name in kept)
        assert len({(place["replicas"], place["pp"]) for place in places}) == 1 or axis in {"replicas", "pp"}


@given(layout=meshes())
def test_dp_shard_and_cp_together_are_one_axis_with_cp_inside(layout):
    found = groups(layout, SHARD_AXIS)
    assert sorted(chain.from_iterable(found)) == list(range(layout.world_size))
    for group in found:
        places = [coordinates(layout, rank) for rank in group]
        assert [place[SHARD_AXIS] for place in places] == list(range(layout.dp_shard * layout.cp))
        assert [divmod(place[SHARD_AXIS], layout.cp) for place in places] == [
            (place["dp_shard"], place["cp"]) for place in places
        ]
        kept = [name for name in MESH_AXES if name not in {"dp_shard", "cp"}]
        assert all(len({place[name] for place in places}) == 1 for name in kept)


@given(layout=meshes())
def test_the_expert_view_covers_each_stage_a_whole_number_of_times(layout):
    stage = layout.dp_replicate * layout.dp_shard * layout.cp * layout.tp
    seen: dict[tuple[int, ...], int] = {}
    for rank in range(layout.world_size):
        place = coordinates(layout, rank)
        assert 0 <= rank_in_stage(layout, place) < stage
        key = (place["replicas"], place["pp"], place["ep"], place["etp"])
        seen[key] = seen.get(key, 0) + 1
    assert len(seen) == layout.replicas * layout.pp * layout.ep * layout.etp
    assert set(seen.values()) == {stage // (layout.ep * layout.etp)}


@given(layout=meshes(), sp=st.booleans())
def test_only_the_axes_of_the_mesh_multiply_ranks(layout, sp):
    """world_size = replicas * dp_replicate * dp_shard * pp * cp * tp; sp, ep and etp multiply nothing."""
    product = layout.replicas * layout.dp_replicate * layout.dp_shard * layout.pp * layout.cp * layout.tp
    assert layout.world_size == product
    other = Layout(**{axis: getattr(layout, axis) for axis in MESH_AXES}, sp=sp, ep=7, etp=5)
    assert other.world_size == product


def test_dp2_x_pp2_x_tp4_are_16_ranks():
    assert Layout(dp_replicate=2, pp=2, tp=4, sp=True).world_size == 16


@pytest.mark.parametrize(
    ("axis", "expected"), [("etp", [(0, 1), (2, 3), (4, 5), (6, 7)]), ("ep", [(0, 2, 4, 6), (1, 3, 5, 7)])]
)
def test_the_chapters_tp2_ep4_merges_in_pairs_then_across_groups(axis, expected):
    assert list(groups(Layout(tp=2, dp_replicate=4, ep=4, etp=2), axis)) == expected
