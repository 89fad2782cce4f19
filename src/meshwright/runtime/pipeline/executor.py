"""A rank's slots, its stages and the samples of a step go in; gradients lie behind, and the summed loss comes out.

The same loop runs one stage alone and any schedule: forwards, whole backwards, or gradients of inputs first and those
of weights later. Rows of another rank are asked for one slot before they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from meshwright.runtime.launch.whereabouts import Whereabouts
from meshwright.runtime.parallel.shards import before_backward, reduce_now
from meshwright.runtime.pipeline.orders import Message, gradient_for, rows_for
from meshwright.workload.slots import BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.runtime.modules.decoder import Stage
    from meshwright.runtime.modules.linear import Later
    from meshwright.runtime.pipeline.orders import Orders, Turn
    from meshwright.runtime.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Of one rank in a step, by micro-batch: tokens and labels [samples, positions].

    total: labels of the whole step, over all ranks: by it every loss is divided.
    """

    tokens: Sequence[Tensor]
    labels: Sequence[Tensor]
    total: int


@dataclass(slots=True, kw_only=True)
class Wire:
    """What comes from other pipeline ranks and goes there. shape, dtype: of the rows of one micro-batch.

    where: is told what is waited for.
    """

    world: World
    incoming: Mapping[int, tuple[Message, ...]]
    shape: tuple[int, ...]
    dtype: torch.dtype
    asked: dict[int, int] = field(default_factory=dict[int, int])
    waiting: dict[Message, tuple[Any, Tensor]] = field(default_factory=dict[Message, tuple[Any, Tensor]])
    arrived: dict[Message, Tensor] = field(default_factory=dict[Message, Tensor])
    sent: list[tuple[Any, Tensor]] = field(default_factory=list[tuple[Any, Tensor]])
    where: Whereabouts = field(default_factory=Whereabouts)

    def open(self, pairs: Sequence[tuple[int, int]]) -> None:
        """One number from every sender to every receiver, in one order on all ranks.

        NCCL makes what two ranks talk through at their first message, and waits for both: in the middle of a step one
        of them may first have to wait for another.
        """
        own, number = self.world.place["pp"], torch.zeros(1, device=self.world.device)
        for sender, receiver in pairs:
            group = self.world.wire(sender, receiver) if own in {sender, receiver} else None
            if own == sender:
                dist.send(number, self.world.peer(receiver), group=group)
            elif own == receiver:
                dist.recv(number, self.world.peer(sender), group=group)

    def ask(self, wanted: tuple[int, Message] | None) -> None:
        """Ask for a message, and for all that its sender sends before it."""
        if wanted is None:
            return
        sender, message = wanted
        if message in self.waiting or message in self.arrived:
            return
        messages, first = self.incoming[sender], self.asked.get(sender, 0)
        last = messages.index(message, first) + 1
        own = self.world.place["pp"]
        for item in messages[first:last]:
            rows = torch.empty(self.shape, dtype=self.dtype, device=self.world.device)
            self.waiting[item] = (dist.irecv(rows, self.world.peer(sender), group=self.world.wire(sender, own)), rows)
        self.asked[sender] = last

    def take(self, message: Message) -> Tensor:
        """The rows of a message, once they are here."""
        if message in self.waiting:
            work, rows = self.waiting.pop(message)
            sender = next(rank for rank, messages in self.incoming.items() if message in messages)
            self.where.enters(message.words, (self.world.peer(sender),))
            work.wait()
            self.where.leaves()
            return rows
        return self.arrived.pop(message)

    def send(self, to: tuple[int, Message] | None, message: Message, rows: Tensor) -> None:
        """To another rank, or to a stage of this one."""
        if to is None:
            self.arrived[message] = rows
            return
        rows, own = rows.contiguous(), self.world.place["pp"]
        self.sent = [item for item in self.sent if not item[0].is_completed()]
        self.where.enters(f"sending {message.words}", (self.world.peer(to[0]),))
        self.sent.append((dist.isend(rows, self.world.peer(to[0]), group=self.world.wire(own, to[0])), rows))
        self.where.leaves()

    def finish(self) -> None:
        """Wait for what was sent, and be ready for another step."""
        self.where.turns_to(None)
        self.where.enters("messages that it sent", ())
        for work, _ in self.sent:
            work.wait()
        self.where.leaves()
        self.sent, self.asked = [], {}


@dataclass(slots=True, kw_only=True)
class Pipeline:
    """One rank's part of a step. stages: by (direction, virtual stage)."""

    world: World
    orders: Orders
    stages: Mapping[tuple[int, int], Stage]
    wire: Wire
    later: Later
    kept: dict[tuple[int, int, int], tuple[Tensor, Tensor | GradientEdge]] = field(
        default_factory=dict[tuple[int, int, int], "tuple[Tensor, Tensor | GradientEdge]"]
    )
    put_off: dict[tuple[int, int, int], list[Callable[[], None]]] = field(
        default_factory=dict[tuple[int, int, int], "list[Callable[[], None]]"]
    )

    def run(self, samples: Samples) -> Tensor:
        """All slots in order. Returns the loss of this rank's last stages, divided by `samples.total`; 0 elsewhere."""
        loss = torch.zeros((), dtype=torch.float64, device=self.world.device)
        turns = self.orders.turns
        for turn, following in zip(turns, (*turns[1:], None), strict=True):
            self.wire.where.turns_to(turn)
            self.wire.ask(turn.receives)
            given = self._given(turn)
            if following is not None:
                self.wire.ask(following.receives)
            if turn.kind == FORWARD:
                loss += self._forward(turn, given, samples)
            elif turn.kind == BACKWARD_WEIGHT:
                self._weights(turn)
            else:
                self._backward(turn, given)
        self.wire.finish()
        return loss

    def _given(self, turn: Turn) -> Tensor | None:
        """The rows or the gradient that a slot begins with; None at the ends of the model and for weight gradients."""
        stage = self.stages[turn.part]
        forward = turn.kind == FORWARD
        if turn.kind == BACKWARD_WEIGHT or (stage.first if forward else stage.last):
            return None
        message = rows_for if forward else gradient_for
        return self.wire.take(message(turn.direction, turn.virtual_stage, turn.micro_batch))

    def _forward(self, turn: Turn, given: Tensor | None, samples: Samples) -> Tensor | float:
        stage, number = self.stages[turn.part], turn.micro_batch
        rows = samples.tokens[number] if given is None else given.requires_grad_()
        if stage.last:
            loss = stage(rows, samples.labels[number]) / samples.total
            self.kept[*turn.part, number] = (rows, loss)
            return loss.detach()
        out = stage(rows)
        self.kept[*turn.part, number] = (rows, get_gradient_edge(out))
        message = rows_for(turn.direction, turn.virtual_stage + 1, number)
        self.wire.send(turn.sends, message, out.detach())
        return 0.0

    def _backward(self, turn: Turn, gradient: Tensor | None) -> None:
        stage, number = self.stages[turn.part], turn.micro_batch
        rows, end = self.kept.pop((*turn.part, number))
        split = turn.kind == BACKWARD_INPUT
        before_backward(stage, self.world.layout, split=split, last=turn.last)
        self.later.puts_off = split
        torch.autograd.backward(cast("Tensor", end), gradient)  # an edge stands for its tensor
        if split:
            self.put_off[*turn.part, number] = self.later.taken()
        if not stage.first:
            assert rows.grad is not None
            message = gradient_for(turn.direction, turn.virtual_stage - 1, number)
            self.wire.send(turn.sends, message, rows.grad)

    def _weights(self, turn: Turn) -> None:
        for finish in self.put_off.pop((*turn.part, turn.micro_batch)):
            finish()
        reduce_now(self.stages[turn.part], self.world.layout, last=turn.last)
