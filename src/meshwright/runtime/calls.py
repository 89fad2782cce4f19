"""A rank's program goes in; its calls to process groups, its waits and its uses of buffers in flight come out.

While `recorded` is open, the methods of torch's process groups and of its work handles are wrapped, so that calls of
our code, of FSDP2 and of anything else are seen alike, and a dispatch mode sees the operators that touch a buffer which
a call still holds. Outside of it nothing is wrapped and nothing costs. Not seen: functional collectives, which torch
gives to a backend past its Python methods; receives from any rank; and what reads memory past torch's operators.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from meshwright.base.errors import RunError
from meshwright.base.result import plain
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.workload.calls import Call, Event, Group, Span, Use, Wait

if TYPE_CHECKING:
    from pathlib import Path

    from meshwright.runtime.world import World


class _Form(NamedTuple):
    """Of a method: what it is, and at which places of its arguments stand what it gives and what it takes."""

    kind: str
    given: int
    taken: int
    sized_by: int


_FORMS: Final = {
    "allreduce": _Form("all_reduce", 0, 0, 0),
    "allreduce_coalesced": _Form("all_reduce", 0, 0, 0),
    "broadcast": _Form("broadcast", 0, 0, 0),
    "reduce": _Form("reduce", 0, 0, 0),
    "allgather": _Form("all_gather", 1, 0, 1),
    "all_gather_single": _Form("all_gather", 1, 0, 1),
    "all_gather_single_coalesced": _Form("all_gather", 1, 0, 1),
    "gather": _Form("gather", 1, 0, 1),
    "scatter": _Form("scatter", 1, 0, 0),
    "reduce_scatter": _Form("reduce_scatter", 1, 0, 0),
    "reduce_scatter_single": _Form("reduce_scatter", 1, 0, 0),
    "reduce_scatter_single_coalesced": _Form("reduce_scatter", 1, 0, 0),
    "alltoall": _Form("all_to_all", 1, 0, 1),
    "all_to_all_single": _Form("all_to_all", 1, 0, 1),
    "send": _Form("send", 0, 0, 0),
    "recv": _Form("recv", 0, 0, 0),
    "barrier": _Form("barrier", 0, 0, 0),
}
_ENDS: Final = ("wait", "synchronize", "block_current_stream")
_NO_READS: Final = frozenset({"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"}) | {
    *("new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full", "is_same_size", "record_stream"),
}
"""Operators that look at a tensor's shape alone; those that make a view are known by their schema."""
_UNNAMED: Final = {"undefined": "group", "default_pg": "world"}


@contextmanager
def recorded(path: Path, rank: int, axes: Mapping[str, str]) -> Generator[None]:
    """Record until the end of the block, one line of JSON an event, for `verify.calls.read_calls`. One at a time.

    Every line is written at once: a mismatch may end a process from below, and its last call is what is looked for.
    axes: what groups are called, by their names; see `axes_of`. Raises RUN044 where the file cannot be written.
    """
    with ExitStack() as stack:
        try:
            lines = stack.enter_context(path.open("w", encoding="utf-8", buffering=1))
        except OSError as problem:
            raise RunError(44, f"cannot write {path}: {problem.strerror}", "choose another folder") from problem
        recorder = _Recorder(rank=rank, axes=axes, lines=lines)
        recorder.write({"rank": rank})
        for name, form in _FORMS.items():
            stack.enter_context(_patched(dist.ProcessGroup, name, recorder.giving(form)))
        for name in _ENDS:
            stack.enter_context(_patched(dist.Work, name, recorder.waiting()))
        stack.enter_context(_patched(dist.Work, "is_completed", recorder.asking()))
        stack.enter_context(_patched(dist.ProcessGroup, "_end_coalescing", recorder.closing()))
        for module in (dist, dist.distributed_c10d):
            stack.enter_context(_patched(module, "batch_isend_irecv", recorder.together()))
        stack.enter_context(_Uses(recorder))
        yield
        recorder.write({"ended": True})


def axes_of(world: World) -> dict[str, str]:
    """What the groups of a world are called, by their names: the axes that they lie along."""
    if world.mesh is None:
        return {}
    along = [axis for axis in PIPELINE_OUTSIDE if getattr(world.layout, axis) > 1]
    found = {str(world.mesh[axis].get_group().group_name): axis for axis in along}
    return found if world.back is None else {**found, str(world.back.group_name): "pp"}


@dataclass(slots=True, kw_only=True)
class _Recorder:
    """What is in flight: by call, its work handle and its tensors, so that no buffer is used anew.

    storages: numbers of their buffers.   given, batches, numbered: so far.   batch: that is being given.
    """

    rank: int
    axes: Mapping[str, str]
    lines: TextIO
    given: int = 0
    batches: int = 0
    batch: int | None = None
    in_flight: dict[int, tuple[Any, Sequence[Tensor]]] = field(
        default_factory=dict[int, "tuple[Any, Sequence[Tensor]]"]
    )
    storages: dict[int, int] = field(default_factory=dict[int, int])
    numbered: int = 0

    def write(self, event: Event | Mapping[str, object]) -> None:
        """One line."""
        self.lines.write(json.dumps(plain(event)) + "\n")

    def giving(self, form: _Form) -> Callable[[Any], Any]:
        """A wrapper of a process group's method."""

        def wrap(method: Any) -> Any:
            def give(group: Any, *args: Any, **kwargs: Any) -> Any:
                number = self._give(form, group, args, kwargs)
                work = method(group, *args, **kwargs)
                if work is not None:
                    self._held_by(work, [number])
                elif self.batch is None:
                    self._done([number])  # the backend has waited itself
                return work

            return give

        return wrap

    def waiting(self) -> Callable[[Any], Any]:
        """A wrapper of what waits for a work handle; a wait is told before it begins, as it may never end."""

        def wrap(method: Any) -> Any:
            def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
                self._end(work)
                return method(work, *args, **kwargs)

            return wait

        return wrap

    def asking(self) -> Callable[[Any], Any]:
        """A wrapper of what asks whether work is done: a yes is as good as a wait."""

        def wrap(method: Any) -> Any:
            def ask(work: Any) -> Any:
                done = method(work)
                if done:
                    self._end(work)
                return done

            return ask

        return wrap

    def closing(self) -> Callable[[Any], Any]:
        """A wrapper of what ends a batch that a backend takes as one: its work handle is that of all in it."""

        def wrap(method: Any) -> Any:
            def close(group: Any, *args: Any) -> Any:
                work = method(group, *args)
                self._held_by(work, [number for number, (held, _) in self.in_flight.items() if held is None])
                return work

            return close

        return wrap

    def together(self) -> Callable[[Any], Any]:
        """A wrapper of what gives transfers in one batch."""

        def wrap(function: Any) -> Any:
            def give(transfers: Any) -> Any:
                self.batch, self.batches = self.batches, self.batches + 1
                try:
                    return function(transfers)
                finally:
                    self.batch = None

            return give

        return wrap

    def use(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Note an operator, where it touches a buffer in flight."""
        if not self.in_flight or operator.namespace in {"c10d", "prim"} or _base(operator) in _NO_READS:
            return
        read: list[Span] = []
        written: list[Span] = []
        for place, argument in enumerate(operator._schema.arguments):  # noqa: SLF001 - torch's name for it
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            alias = argument.alias_info
            if alias is not None and not alias.is_write:
                continue  # a view: it looks at nothing
            spans = [self._span(item, new=False) for item in _tensors(value)]
            (read if alias is None else written).extend(span for span in spans if span is not None)
        if read or written:
            self.write(Use(operator=str(operator), read=tuple(read), written=tuple(written)))

    def _give(self, form: _Form, group: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
        ranks = tuple(dist.get_process_group_ranks(group))
        options = next((item for item in (*args, *kwargs.values()) if type(item).__name__.endswith("Options")), None)
        peer = _peer(form.kind, args, options)
        given, taken = ([] if form.kind == "barrier" else _tensors(args[place]) for place in (form.given, form.taken))
        reads, writes = _directions(form.kind, given, taken, own=peer is not None and ranks[peer] == self.rank)
        sized = taken if form.sized_by == 0 else given
        cuts = _cuts(len(ranks), args, given, taken) if form.kind == "all_to_all" else ((), ())
        call = Call(
            group=self._group(group, ranks),
            kind=form.kind,
            elements=sum(item.numel() for item in sized),
            dtype=str(sized[0].dtype).removeprefix("torch.") if sized else "",
            peer=None if peer is None else ranks[peer],
            operation=_operation(options),
            gives=cuts[0],
            takes=cuts[1],
            tag=int(args[2]) if form.kind in {"send", "recv"} else 0,
            batch=self.batch,
            reads=self._spans(reads),
            writes=self._spans(writes),
        )
        self.write(call)
        number, self.given = self.given, self.given + 1
        self.in_flight[number] = (None, [*given, *taken])
        return number

    def _group(self, group: Any, ranks: tuple[int, ...]) -> Group:
        name = str(group.group_name)
        described = str(group.group_desc).removeprefix("mesh_")
        return Group(name=name, axis=self.axes.get(name, _UNNAMED.get(described, described)), ranks=ranks)

    def _held_by(self, work: Any, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.in_flight[number] = (work, self.in_flight[number][1])

    def _end(self, work: Any) -> None:
        self._done([number for number, (held, _) in self.in_flight.items() if held is work])

    def _done(self, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        for number in numbers:
            self.write(Wait(awaited=number))
            del self.in_flight[number]
        held = {_storage(item) for _, tensors in self.in_flight.values() for item in tensors}
        self.storages = {key: name for key, name in self.storages.items() if key in held}

    def _spans(self, tensors: Sequence[Tensor]) -> tuple[Span, ...]:
        spans = (self._span(item, new=True) for item in tensors)
        return tuple(span for span in spans if span is not None)

    def _span(self, tensor: Tensor, *, new: bool) -> Span | None:
        """From a tensor's first element to its last; None for what holds nothing, or no buffer in flight."""
        if not tensor.numel() or tensor.layout != torch.strided:
            return None
        key = _storage(tensor)
        if key not in self.storages:
            if not new:
                return None
            self.storages[key], self.numbered = self.numbered, self.numbered + 1
        size, first = tensor.element_size(), int(tensor.storage_offset())
        steps = sum((count - 1) * int(stride) for count, stride in zip(tensor.shape, tensor.stride(), strict=True))
        return Span(storage=self.storages[key], start=first * size, stop=(first + steps + 1) * size)


class _Uses(TorchDispatchMode):
    """Shows every operator on plain tensors to the recorder."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if any(kind not in {Tensor, nn.Parameter} for kind in types):
            return NotImplemented  # a sharded tensor first becomes its local one, and then comes here
        self.recorder.use(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


@contextmanager
def _patched(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Generator[None]:
    kept = vars(owner).get(name)  # as it stands in the class: looked up there it would bind to nothing when put back
    setattr(owner, name, wrap(getattr(owner, name)))
    try:
        yield
    finally:
        if kept is None:
            delattr(owner, name)
        else:
            setattr(owner, name, kept)


def _base(operator: Any) -> str:
    """`aten.new_empty.default` as `new_empty`."""
    return str(operator._schema.name).rpartition("::")[2]  # noqa: SLF001 - torch's name for it


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - what tells two allocations apart


def _tensors(value: Any) -> list[Tensor]:
    """A tensor, or those of lists of them."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in cast("Sequence[Any]", value) for tensor in _tensors(item)]
    return []


def _peer(kind: str, args: Sequence[Any], options: Any) -> int | None:
    """The place in the group of the root, the sender or the receiver."""
    if kind in {"send", "recv"}:
        return int(args[1])
    root = getattr(options, "rootRank", None)
    return None if root is None else int(root)


def _operation(options: Any) -> str:
    operation = getattr(options, "reduceOp", None)
    return "" if operation is None else str(operation.op.name).lower()


def _directions(
    kind: str, given: Sequence[Tensor], taken: Sequence[Tensor], *, own: bool
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """Which tensors a call reads, and which it writes. own: this rank is the root."""
    if kind == "send" or (kind == "broadcast" and own):
        return given, ()
    if kind in {"recv", "broadcast"}:
        return (), taken
    if kind in {"all_reduce", "reduce"}:
        return (given, taken) if kind == "all_reduce" or own else (given, ())
    return given, taken


def _cuts(
    ranks: int, args: Sequence[Any], given: Sequence[Tensor], taken: Sequence[Tensor]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Elements to and from each rank: of lists of tensors, or of one tensor cut along its first dim."""
    if isinstance(args[0], (list, tuple)):
        return tuple(item.numel() for item in given), tuple(item.numel() for item in taken)
    sides = ((given[0], args[3]), (taken[0], args[2]))

    def cut(tensor: Tensor, rows: Sequence[int]) -> tuple[int, ...]:
        row = tensor[0].numel() if tensor.shape[0] else 0
        return tuple(count * row for count in rows) if rows else (tensor.numel() // ranks,) * ranks

    return cut(*sides[0]), cut(*sides[1])
