"""A trainer goes in; the same trainer, whose steps are recorded, and its records come out.

Every operator of a step is seen, those of a backward too: autograd hands dispatch modes on to its threads. FSDP2 works
on DTensors; for these the tape steps aside and sees the local operators below them.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from meshwright.runtime.loop.trainer import Trainer
from meshwright.runtime.pipeline.executor import Pipeline
from meshwright.runtime.state.weights import kept
from meshwright.runtime.tape.calls import axis_of, call_of, traffic_of
from meshwright.runtime.tape.flops import flops_of
from meshwright.runtime.tape.record import Record
from meshwright.runtime.tape.storages import Storages
from meshwright.workload.slots import BACKWARD_WEIGHT

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from torch import Tensor

    from meshwright.runtime.loop.trainer import Report, Sampler
    from meshwright.runtime.pipeline.executor import Samples
    from meshwright.runtime.pipeline.orders import Turn
    from meshwright.runtime.tape.calls import Call
    from meshwright.runtime.tape.record import Category, Phase, Work

T = TypeVar("T")
_SUMS: Final = ("reduce_scatter", "all_reduce")
_COPIES: Final = frozenset({"dp_replicate", "dp_shard"})
_FSDP: Final = "fsdp"


class Tape(TorchDispatchMode):
    """What one rank did since it was entered."""

    def __init__(self, trainer: Trainer) -> None:
        """Of a trainer; what it holds already is seen at once."""
        super().__init__()
        self.trainer = trainer
        self.storages = Storages()
        self.flops: Counter[tuple[Work, Phase]] = Counter()
        self.calls: list[Call] = []
        self.slots_s = self.run_s = 0.0
        self.marks: dict[str, int] = {}
        self.storages.claim("parameters", (kept(parameter) for _, parameter in trainer.parameters))
        self._state()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Let an operator run, and see what it makes, multiplies and sends."""
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        named: dict[str, Any] = kwargs or {}
        found = func(*args, **named)
        for item in tree_leaves(found):
            if isinstance(item, torch.Tensor):
                self.storages.see(item)
        work = flops_of(func, args, named)
        if work is not None:
            self.flops[work[0], self.storages.phase] += work[1]
        if func.namespace == "c10d":
            self._called(func, args)
        elif func.namespace == _FSDP:
            self._claim_buffers(args, named)
        return found

    def begin(self, phase: Phase) -> None:
        """Another slot."""
        self.storages.next_slot(phase)

    def gradients(self) -> None:
        """See what stays of a backward: gradients as they are accumulated, sharded or whole."""
        self.wholes()
        own = (parameter.grad for _, parameter in self.trainer.parameters)
        self.storages.claim("gradients", (kept(gradient) for gradient in own if gradient is not None), over=True)
        for held in _fsdp_parameters(self.trainer):
            whole = getattr(held, "unsharded_accumulated_grad", None)
            unsharded = getattr(held, "_unsharded_param", None)
            grads = [whole, None if unsharded is None else unsharded.grad]
            self.storages.claim("gradients", (kept(item) for item in grads if item is not None), over=True)

    def wholes(self) -> None:
        """See the modules that FSDP2 brought together."""
        for held in _fsdp_parameters(self.trainer):
            self.storages.claim("comm_buffers", held.all_gather_outputs, over=True)

    def mark(self, name: str) -> None:
        """Remember this moment."""
        self.marks[name] = len(self.storages.changes)

    def end(self) -> None:
        """See what the update left."""
        self._state()
        self.mark("left")

    def record(self) -> Record:
        """Of the step that ended last."""
        most: Counter[Category] = Counter()
        peak, phase, highest = Counter["Category"](), cast("Phase", "forward"), -1
        at: dict[str, dict[Category, int]] = {name: {} for name in self.marks}
        started = self.marks["started"]
        for number, (change, alive) in enumerate(self.storages.played(), 1):
            for name, place in self.marks.items():
                if place == number:
                    at[name] = dict(alive)
            if number < started:
                continue
            for name, nbytes in alive.items():
                most[name] = max(most[name], nbytes)
            if (total := alive.total()) > highest:
                highest, peak, phase = total, Counter(alive), change.phase
        return Record(
            rank=self.trainer.world.rank,
            left=_positive(at["left"]),
            held=_positive(at["held"]),
            most=_positive(most),
            peak=_positive(peak),
            peak_phase=phase,
            flops=dict(self.flops),
            traffic=traffic_of(self.trainer.world.layout, self.calls),
            slots_s=self.slots_s,
            run_s=self.run_s,
        )

    def start(self) -> None:
        """A step begins: what is counted is counted from here."""
        self.flops.clear()
        self.calls.clear()
        self.slots_s = self.run_s = 0.0
        self.begin("forward")
        self.mark("started")

    def _called(self, func: Any, args: Any) -> None:
        call = call_of(func, args, self.storages.phase)
        if call is None or len(call.ranks) == 1:
            return
        # what sums gradients over copies runs within a backward, whose phase it is not
        over_copies = set(axis_of(self.trainer.world.layout, call.ranks).split("+")) <= _COPIES
        sums = call.name in _SUMS and call.phase.startswith("backward")
        self.calls.append(call._replace(phase="reduce") if over_copies and sums else call)

    def _claim_buffers(self, args: Any, named: dict[str, Any]) -> None:
        """Flat buffers of FSDP2 and the whole modules that it fills from them; not the pieces that are parameters."""
        tensors = [item for item in tree_leaves((args, named)) if isinstance(item, torch.Tensor)]
        self.storages.claim("comm_buffers", tensors)

    def _state(self) -> None:
        """See the optimizer's."""
        state = [item for held in self.trainer.optimizer.state.values() for item in held.values()]
        self.storages.claim("optimizer_state", (item for item in state if isinstance(item, torch.Tensor)), over=True)


class _TapedPipeline(Pipeline):
    """A pipeline that tells a tape which slot it is in."""

    tape: Tape

    def run(self, samples: Samples) -> Tensor:
        self.tape.storages.claim("samples", (*samples.tokens, *samples.labels))
        began = time.perf_counter()
        loss = super().run(samples)
        self.tape.run_s += time.perf_counter() - began
        self.tape.begin("reduce")
        return loss

    def _forward(self, turn: Turn, given: Tensor | None, samples: Samples) -> Tensor | float:
        with _slot(self.tape, "forward"):
            return super()._forward(turn, given, samples)

    def _backward(self, turn: Turn, gradient: Tensor | None) -> None:
        with _slot(self.tape, "backward_input"):
            super()._backward(turn, gradient)

    def _weights(self, turn: Turn) -> None:
        assert turn.kind == BACKWARD_WEIGHT
        with _slot(self.tape, "backward_weight"):
            super()._weights(turn)


class _TapedTrainer(Trainer):
    """A trainer that tells a tape when it updates."""

    tape: Tape

    def step(self, number: int, sampler: Sampler) -> Report:
        with self.tape, self.tape.storages.watched():
            self.tape.start()
            report = super().step(number, sampler)
            self.tape.begin("update")
            self.tape.end()
        return report

    def _update(self, norm: float) -> None:
        self.tape.gradients()
        self.tape.mark("held")
        self.tape.begin("update")
        super()._update(norm)


@contextmanager
def _slot(tape: Tape, phase: Phase) -> Generator[None]:
    tape.begin(phase)
    began = time.perf_counter()
    yield
    tape.slots_s += time.perf_counter() - began
    if phase == "forward":
        tape.wholes()
    else:
        tape.gradients()


def taped(trainer: Trainer) -> tuple[Trainer, Tape]:
    """A trainer of the same stages and optimizer whose steps are recorded. `trainer` itself is not to be used again."""
    pipeline = _as(_TapedPipeline, trainer.pipeline)
    found = _as(_TapedTrainer, trainer)
    found.pipeline = pipeline
    pipeline.tape = found.tape = Tape(found)
    return found, found.tape


def _as(kind: type[T], value: Any) -> T:
    """The same fields in a class below its own."""
    made = kind.__new__(kind)
    for item in fields(value):
        setattr(made, item.name, getattr(value, item.name))
    return made


def _fsdp_parameters(trainer: Trainer) -> Sequence[Any]:
    """Torch's own record of every sharded parameter, which is not public."""
    found: list[Any] = []
    for stage in trainer.stages.values():
        for module in stage.modules():
            if isinstance(module, FSDPModule):
                for group in cast("Any", module)._get_fsdp_state()._fsdp_param_groups:  # noqa: SLF001
                    found += group.fsdp_params
    return found


def _positive(counts: dict[Category, int] | Counter[Category]) -> dict[Category, int]:
    return {name: nbytes for name, nbytes in counts.items() if nbytes}
