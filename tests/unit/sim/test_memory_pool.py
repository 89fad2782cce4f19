"""The life of a lent region: what is allowed, every wrong order by its code, and laws of random sequences."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.base.errors import JobError
from meshwright.sim.memory_pool import Operation, Pool, apply, replay, used_bytes

START = Pool(capacity=(80, 80, 80), own=(80, 60, 40))


def op(do, node, region="kv", **more):
    return Operation(do=do, node=node, region=region, **more)


LENT = (op("export", 1, size=20), op("map", 0))
SHARED = (op("export", 1, size=20), op("map", 0, sharing="shared"), op("map", 2, sharing="shared"))
WRITTEN = (*LENT, op("write", 0, length=8, name="w"))


def states(*operations):
    found = replay(START, operations)
    assert found.refused is None, found.refused
    return [pool.regions["kv"].state if "kv" in pool.regions else "free" for pool in found.pools]


def test_a_region_goes_from_free_to_free():
    """Chapter "Supernodes", section 6.6.2."""
    life = (*WRITTEN, op("complete", 0, name="w"), op("read", 0, length=8, name="r"), op("complete", 0, name="r"))
    life += (op("return", 0), op("reclaim", 1))
    assert states(*life) == ["free", "exported", "mapped", *["in_use"] * 4, "returned", "free"]


def test_its_memory_can_be_lent_again_once_it_is_taken_back():
    again = (*LENT, op("return", 0), op("reclaim", 1), *LENT)
    assert states(*again)[-1] == "mapped"


def test_a_region_that_nobody_mapped_can_be_taken_back():
    assert states(op("export", 1, size=20), op("reclaim", 1))[-1] == "free"


def test_shared_readers_read_at_once():
    assert (
        states(
            *SHARED, op("read", 0, length=8, name="a"), op("read", 2, length=8, name="b"), op("complete", 0, name="a")
        )[-1]
        == "in_use"
    )


def test_another_node_reads_what_was_completed_and_published():
    written = (*SHARED, op("write", 0, length=8, name="w"), op("complete", 0, name="w"))
    assert states(*written, op("publish", 0), op("read", 2, length=8, name="r"))[-1] == "in_use"
    assert states(*written, op("return", 0), op("read", 2, length=8, name="r"))[-1] == "in_use"
    assert states(*written, op("read", 2, offset=8, length=8, name="r"))[-1] == "in_use"


REFUSED = {
    "a node that is not there": ((op("export", 9, size=1),), "JOB103"),
    "a region that nobody lends": ((op("map", 0),), "JOB103"),
    "an address after its region was taken back": (
        (*LENT, op("return", 0), op("reclaim", 1), op("read", 0, length=1, name="r")),
        "JOB103",
    ),
    "an export of what is lent": ((*LENT, op("export", 1, size=1)), "JOB104"),
    "a map of what is returned": ((*LENT, op("return", 0), op("map", 2)), "JOB104"),
    "an export of more than is free": ((op("export", 1, size=21),), "JOB105"),
    "an export of nothing": ((op("export", 1, size=0),), "JOB105"),
    "an export of what another job fills": ((op("export", 0, size=1),), "JOB105"),
    "a second map by the same node": ((*LENT, op("map", 0)), "JOB106"),
    "a map of what is exclusive": ((*LENT, op("map", 2)), "JOB106"),
    "a shared map of what is exclusive": ((*LENT, op("map", 2, sharing="shared")), "JOB106"),
    "an exclusive map of what is shared": ((*SHARED[:2], op("map", 2)), "JOB106"),
    "access without a map": ((*LENT, op("read", 2, length=1, name="r")), "JOB107"),
    "access by the lender while it is lent": ((*LENT, op("write", 1, length=1, name="w")), "JOB107"),
    "access after the return": ((*LENT, op("return", 0), op("read", 0, length=1, name="r")), "JOB107"),
    "a write by a reader": (
        (LENT[0], op("map", 0, access="read"), op("write", 0, length=1, name="w")),
        "JOB107",
    ),
    "a return by who does not hold it": ((*LENT, op("return", 2)), "JOB107"),
    "a reclaim by who does not lend it": ((*LENT, op("return", 0), op("reclaim", 0)), "JOB107"),
    "bytes beyond the region": ((*LENT, op("read", 0, offset=16, length=8, name="r")), "JOB108"),
    "no bytes": ((*LENT, op("read", 0, length=0, name="r")), "JOB108"),
    "reuse before return": ((*LENT, op("reclaim", 1)), "JOB109"),
    "reuse while one of two holds it": ((*SHARED, op("return", 0), op("reclaim", 1)), "JOB109"),
    "a read before completion": ((*WRITTEN, op("read", 0, offset=4, length=8, name="r")), "JOB110"),
    "a read of another node before completion": (
        (*SHARED, op("write", 0, length=8, name="w"), op("read", 2, length=8, name="r")),
        "JOB110",
    ),
    "a read before it is visible": (
        (*SHARED, op("write", 0, length=8, name="w"), op("complete", 0, name="w"), op("read", 2, length=8, name="r")),
        "JOB111",
    ),
    "a return under way": ((*WRITTEN, op("return", 0)), "JOB112"),
    "two writes at once": ((*WRITTEN, op("write", 0, length=1, name="v")), "JOB113"),
    "a write under a read": (
        (*SHARED, op("read", 2, length=8, name="r"), op("write", 0, length=8, name="w")),
        "JOB113",
    ),
    "a write without a name": ((*LENT, op("write", 0, length=1)), "JOB114"),
    "a name under way": ((*WRITTEN, op("write", 0, offset=8, length=1, name="w")), "JOB114"),
    "a completion of nothing": ((*LENT, op("complete", 0, name="w")), "JOB114"),
    "a completion of another's write": (
        (*SHARED, op("write", 0, length=8, name="w"), op("complete", 2, name="w")),
        "JOB114",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_every_wrong_order_is_refused_by_its_code(name):
    operations, code = REFUSED[name]
    found = replay(START, operations)
    assert len(found.pools) == len(operations), "all but the last are allowed"
    assert found.refused is not None
    assert found.refused.code == code
    assert found.refused.fix


def test_a_shared_path_gives_no_order_and_no_rights():
    """Chapter "Supernodes", section 6.5.5: what two applications share on the way changes neither."""
    one, other = (op("export", 1, region=name, size=5) for name in ("a", "b"))
    pool = replay(START, (one, other, op("map", 0, region="a"), op("map", 0, region="b"))).pools[-1]
    pool = apply(pool, op("write", 0, region="a", length=1, name="first"))
    pool = apply(pool, op("write", 0, region="b", length=1, name="second"))
    pool = apply(pool, op("complete", 0, region="b", name="second"))  # the later one is done first: no common order
    with pytest.raises(JobError) as caught:
        apply(pool, op("read", 2, region="b", length=1, name="r"))  # and no right comes with the path
    assert caught.value.code == "JOB107"


OPERATIONS = st.builds(
    Operation,
    do=st.sampled_from(["export", "map", "write", "read", "complete", "publish", "return", "reclaim"]),
    node=st.integers(0, 2),
    region=st.sampled_from(["a", "b"]),
    size=st.integers(0, 25),
    sharing=st.sampled_from(["exclusive", "shared"]),
    access=st.sampled_from(["read", "read_write"]),
    offset=st.integers(0, 4),
    length=st.integers(0, 4),
    name=st.sampled_from(["", "x", "y"]),
)


@settings(max_examples=300)
@given(operations=st.lists(OPERATIONS, max_size=40))
def test_random_operations_never_reach_an_illegal_state(operations):
    pool = START
    for operation in operations:
        before = pool
        try:
            pool = apply(pool, operation)
        except JobError:
            assert pool is before
        check(pool)
        lent = {name: item.size for name, item in before.regions.items()}
        kept = {name: item.size for name, item in pool.regions.items() if name in lent}
        assert all(lent[name] == size for name, size in kept.items()), "a region never changes its size"
        assert len(lent.keys() ^ pool.regions.keys()) <= 1, "one operation moves one region"


def check(pool):
    """Bytes are conserved, rights are exclusive where they should be, and nothing is under way without a holder."""
    used = used_bytes(pool)
    assert all(own <= each <= size for own, each, size in zip(pool.own, used, pool.capacity, strict=True))
    assert sum(used) == sum(pool.own) + sum(item.size for item in pool.regions.values())
    for item in pool.regions.values():
        assert len(item.holders) <= 1 or item.sharing == "shared"
        assert all(span.node in item.holders for span in item.under_way.values())
        assert all(span.node in item.holders for span in item.unseen)
        assert all(0 <= span.start < span.end <= item.size for span in item.under_way.values())
        assert item.state in {"exported", "mapped", "in_use", "returned"}
        writes = [span for span in item.under_way.values() if span.kind == "write"]
        for write in writes:
            others = [span for span in item.under_way.values() if span is not write]
            assert not [span for span in others if span.start < write.end and write.start < span.end]
            assert item.holders[write.node] == "read_write"


@settings(max_examples=100)
@given(operations=st.lists(OPERATIONS, max_size=30))
def test_a_replay_stops_at_the_first_refusal(operations):
    found = replay(START, tuple(operations))
    assert (found.refused is None) == (len(found.pools) == len(operations) + 1)
    assert found == replay(START, tuple(operations)) or found.refused is not None
