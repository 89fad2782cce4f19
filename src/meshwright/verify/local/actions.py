"""A case goes in; a function that runs it once on this rank, and returns its seconds, comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

if TYPE_CHECKING:
    from meshwright.verify.local.cases import Case

Action: TypeAlias = Callable[[], tuple[float, ...]]
"""Runs once; one number of seconds, or of a pair's together: communication, computation, finish."""

DTYPES: Final = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64}
_PAIRED: Final = {"cpu": (512, 4), "cuda": (8192, 8)}
"""Side of the square products that run beside an exchange, and how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a rank measures. groups: by size, its neighbours of that number.   alone: an axis `dp_shard` of itself."""

    rank: int
    device: torch.device
    groups: Mapping[int, dist.ProcessGroup]
    alone: DeviceMesh

    def settle(self) -> None:
        """Wait for what the device still does."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def place_of(rank: int, world_size: int, sizes: tuple[int, ...], device: torch.device) -> Place:
    """The place of a rank; every rank makes the groups of all."""
    found: dict[int, dist.ProcessGroup] = {}
    for size in sorted({*sizes, world_size}):
        for first in range(0, world_size, size):
            group = dist.new_group(list(range(first, first + size)))
            if first <= rank < first + size:
                found[size] = cast("dist.ProcessGroup", group)
    each = torch.arange(world_size).reshape(world_size, 1)
    alone = DeviceMesh(device.type, each, mesh_dim_names=("others", "dp_shard"))
    return Place(rank=rank, device=device, groups=found, alone=alone)


def action_of(case: Case, place: Place) -> Action:
    """Of any case but a probe's step."""
    if case.operation.startswith("overlap "):
        return _paired(case, place)
    builders = {"matmul": _matmul, "attention": _attention, "copy": _copy, "update": _update}
    run = builders.get(case.operation, _exchange)(case, place)

    def timed() -> tuple[float, ...]:
        started = time.perf_counter()
        for _ in range(case.calls):
            run()
        place.settle()
        return ((time.perf_counter() - started) / case.calls,)

    return timed


def _exchange(case: Case, place: Place) -> Callable[[], None]:
    group, size = place.groups[case.ranks], max(case.amount // 4, case.ranks)
    whole = torch.zeros(size, device=place.device)
    other = torch.zeros(
        size if case.operation in {"all_to_all", "send_recv"} else size // case.ranks, device=place.device
    )
    if case.operation == "send_recv":
        return _ring(whole, other, group, case.ranks)
    runs: Mapping[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: dist.all_gather_single(whole, other, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_single(other, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, group=group),
    }
    chosen = runs[case.operation]

    def run() -> None:
        chosen()

    return run


def _ring(sent: Tensor, received: Tensor, group: dist.ProcessGroup, ranks: int) -> Callable[[], None]:
    """Every rank sends to the next and receives from the one before, at once."""
    own = dist.get_group_rank(group, dist.get_rank())
    after, before = (dist.get_global_rank(group, (own + step) % ranks) for step in (1, -1))

    def run() -> None:
        works = [dist.isend(sent, after, group=group), dist.irecv(received, before, group=group)]
        for work in works:
            if work is not None:
                work.wait()

    return run


def _matmul(case: Case, place: Place) -> Callable[[], None]:
    rows, inner, columns = case.shape
    dtype = DTYPES[case.format]
    given = torch.ones(rows, inner, dtype=dtype, device=place.device)
    weight = torch.ones(columns, inner, dtype=dtype, device=place.device)
    return lambda: _drop(nn.functional.linear(given, weight))


def _attention(case: Case, place: Place) -> Callable[[], None]:
    given = torch.ones(case.shape, dtype=DTYPES[case.format], device=place.device)
    return lambda: _drop(nn.functional.scaled_dot_product_attention(given, given, given, is_causal=True))


def _copy(case: Case, place: Place) -> Callable[[], None]:
    source, target = (torch.zeros(case.shape, device=place.device) for _ in range(2))
    return lambda: _drop(target.copy_(source))


def _update(case: Case, place: Place) -> Callable[[], None]:
    parameter = torch.zeros(case.shape, device=place.device, requires_grad=True)
    parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.AdamW([parameter])
    return lambda: _drop(optimizer.step())


def _drop(_: object) -> None:
    """Nothing is kept of what ran."""


def _paired(case: Case, place: Place) -> Action:
    """An all_reduce and matrix products: each alone, or both from one start.

    An exchange lasts from its asynchronous submission to the callback of its completion. Source: chapter "Supernodes",
    section 6.4.3, note 12.
    """
    mode, group = case.operation.removeprefix("overlap "), place.groups[case.ranks]
    message = torch.zeros(case.amount // 4, device=place.device)
    side, count = _PAIRED[place.device.type]
    factor = torch.ones(side, side, device=place.device, dtype=torch.bfloat16 if side > 1024 else torch.float32)  # noqa: PLR2004 - large ones are a GPU's

    def multiply() -> None:
        for _ in range(count):
            factor @ factor  # pyright: ignore[reportUnusedExpression] - it is the work

    def on_cpu() -> tuple[float, ...]:
        ended: list[float] = []
        started = time.perf_counter()
        work = None if mode == "computation" else dist.all_reduce(message, group=group, async_op=True)
        done = None if work is None else work.get_future().then(lambda _: ended.append(time.perf_counter()))
        if mode != "communication":
            multiply()
        computed = time.perf_counter()
        if work is not None and done is not None:
            work.wait()
            done.wait()
        spent = [*(item - started for item in ended), *([] if mode == "communication" else [computed - started])]
        return (*spent, max(spent)) if mode == "together" else tuple(spent)

    def on_cuda() -> tuple[float, ...]:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        side_stream = torch.cuda.Stream()
        here = torch.cuda.current_stream()
        marks[0].record(here)
        side_stream.wait_stream(here)
        if mode != "computation":
            with torch.cuda.stream(side_stream):
                dist.all_reduce(message, group=group)
                marks[1].record(side_stream)
        if mode != "communication":
            multiply()
            marks[2].record(here)
        place.settle()
        chosen = {"communication": marks[1:2], "computation": marks[2:], "together": marks[1:]}[mode]
        spent = [marks[0].elapsed_time(mark) / 1000 for mark in chosen]
        return (*spent, max(spent)) if mode == "together" else tuple(spent)

    return on_cuda if place.device.type == "cuda" else on_cpu
