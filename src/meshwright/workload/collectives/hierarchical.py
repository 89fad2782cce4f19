"""Node by node: reduce_scatter in the node, all_reduce across nodes along every rail, all_gather in the node.

In the node every rank sends to each other one in turn, as a switch or a full mesh permits; along a rail, the ranks with
one place in their nodes, it is a ring. The calls are three (of an all_gather or reduce_scatter two); less where there
is one node, or nodes of one rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.workload.collectives._grid import OPERATIONS, Way, along_dims
from meshwright.workload.collectives._shared import any_count, check, check_node, divisor_below

if TYPE_CHECKING:
    from meshwright.workload.programs import Program

_NODE_SIZE: Final = 8


def permits(operation: str, ranks: int) -> bool:
    """Any number of ranks: with fewer than a node's, or a prime number, one of the two dims is all there is."""
    return operation in OPERATIONS and any_count(ranks)


def program(operation: str, ranks: int, *, node_size: int = 0) -> Program:
    """Rounds in the node, around the rails, and in the node again.

    node_size: neighbouring ranks of a node; 0 takes the largest divisor of the ranks up to 8. Raises COL002, COL010,
    COL012 (a size that does not divide the ranks).
    """
    check("hierarchical", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    node = node_size or divisor_below(ranks, _NODE_SIZE)
    check_node(node, ranks)
    in_node, on_rails = node > 1, ranks > node
    return along_dims(
        operation,
        (ranks // node, node),
        (Way(order=(1, 0), turn=1),),
        direct=frozenset({1}),
        launches=max(1, in_node * (2 if operation == "all_reduce" else 1) + on_rails),
    )
