"""Rows and experts of every group, and rows between ranks, go in; seconds of the experts and of exchanges come out.

Flows of one exchange run at once, each over its path: it lasts as long as its busiest link, and what its longest path
pays in latency (`link_loads`). Experts of a rank run one operator after the other, each at its roofline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.base.traced import formula, named
from meshwright.cost.estimate import matrix_rate
from meshwright.cost.link_loads import busiest_s, route_loads
from meshwright.cost.roofline import matmul_flops, roofline_s
from meshwright.layout.ownership import fullest_sizes, product
from meshwright.system.graph import Routes
from meshwright.workload.operators import operators
from meshwright.workload.traffic import spans

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints, N
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.system.graph import Fabric
    from meshwright.system.system import System
    from meshwright.workload.operators import Operator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wires:
    """The paths between the first `ranks` devices of a network: that of rank s to d stands at s x ranks + d."""

    fabric: Fabric
    ranks: int
    routes: Routes


@dataclass(frozen=True, slots=True, kw_only=True)
class Busiest:
    """What an exchange takes. link: its busiest one, -1 where nothing is sent.   link_bytes: what that one carries."""

    seconds: float
    link: int
    link_bytes: float


NOTHING_SENT = Busiest(seconds=0.0, link=-1, link_bytes=0.0)


def wires(fabric: Fabric, ranks: int) -> Wires:
    """The paths of every pair of ranks."""
    sender, receiver = np.divmod(np.arange(ranks * ranks), ranks)
    routes = fabric.route(fabric.devices[sender], fabric.devices[receiver])
    return Wires(fabric=fabric, ranks=ranks, routes=routes)


def exchange(wired: Wires, sent: Ints, row_bytes: float) -> Busiest:
    """Rows from each rank to each, all at once. sent: [ranks, ranks]; what stays crosses no link.

    Source: chapter "Supernodes", section 6.5.1.
    """
    sizes = sent.astype(np.float64).reshape(-1) * row_bytes
    sizes[:: wired.ranks + 1] = 0.0
    flows = np.flatnonzero(sizes)
    if not len(flows):
        return NOTHING_SENT
    counts = np.diff(wired.routes.first)[flows]
    own = Routes(
        first=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        links=wired.routes.links[spans(wired.routes.first[flows], counts)],
    )
    loads = route_loads(wired.fabric, own, sizes[flows])
    link = int(np.argmax(loads.link_bytes / wired.fabric.bandwidth_bytes_per_s))
    seconds = busiest_s(wired.fabric, loads) + loads.longest_s
    return Busiest(seconds=seconds, link=link, link_bytes=float(loads.link_bytes[link]))


def routed_operators(model: Model, kind: int) -> tuple[Operator, ...]:
    """The products of a block kind that only chosen rows go through."""
    return tuple(item for item in operators(model) if item.kind == kind and item.rows == "routed")


def expert_bytes(model: Model, layouts: Layouts, kind: int) -> Any:
    """Bytes of one expert's weights on each rank that holds it: what a step reads of an expert that has rows."""
    total: Any = 0
    for operator in routed_operators(model, kind):
        tensor = operator.weights[0]
        total = total + model.format_of(tensor).stored_bytes(fullest_sizes(tensor, layouts, "gathered")[1:])
    return named(total, "expert_bytes")


@formula
def distinct_bytes(distinct: N, expert_bytes: N) -> N:
    """Bytes read of the experts that have rows: each once a batch. Source: chapter "Supernodes", section 6.3.2."""
    return distinct * expert_bytes


def experts_s(  # noqa: PLR0917 - a layer and its rows
    model: Model, system: System, layouts: Layouts, kind: int, rows: Any, read: Any
) -> Floats:
    """[groups] of seconds of one layer's routed products. rows, read: [groups], rows and experts that have some.

    layouts: of one row.
    """
    memory: Any = system.accelerator.memory_bandwidth
    total: Any = np.zeros(len(np.atleast_1d(rows)))
    for operator in routed_operators(model, kind):
        tensor = operator.weights[0]
        sizes = fullest_sizes(tensor, layouts, "gathered")[1:]
        flops = matmul_flops(product(sizes) * 1.0, rows)
        moved = read * (model.format_of(tensor).stored_bytes(sizes) * 1.0)
        total = total + roofline_s(flops, matrix_rate(model, system, operator), moved, memory)
    return named(total, "experts_s")
