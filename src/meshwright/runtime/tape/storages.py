"""Storages that operators make go in, as they come and go; what was alive, by category, comes out.

A storage is known from the operator that gives it, or the module that holds it, to its end, also where its bytes are
let go before (`resize_`, as FSDP2 frees modules). Categories are known later than bytes: so what happened is kept, and
played again at the end. What a kernel takes and gives back inside is not seen, nor what a backend of collectives holds.
"""

from __future__ import annotations

import weakref
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from meshwright.runtime.tape.record import Category, Phase


class Change(NamedTuple):
    """Bytes of a storage that came or went, in a slot of a phase."""

    storage: int
    nbytes: int
    slot: int
    phase: Phase


class Storages:
    """All storages of a rank since the tape was on."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.changes: list[Change] = []
        self.category: dict[int, Category] = {}
        self.slot = 0
        self.phase: Phase = "forward"
        self._numbers: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._made = 0

    def see(self, tensor: torch.Tensor) -> int:
        """The number of a tensor's storage, which is new where it was not seen before."""
        storage = tensor.untyped_storage()
        place = _identity(storage)
        if place not in self._numbers:
            number = self._made
            self._made += 1
            self._numbers[place] = number
            self._sizes[number] = 0
            self._set(number, storage.nbytes())
            weakref.finalize(storage, self._end, place, number).atexit = False
        return self._numbers[place]

    def claim(self, category: Category, tensors: Iterable[torch.Tensor], *, over: bool = False) -> None:
        """Say what storages are; the first word counts, unless the new one stands `over` it."""
        for tensor in tensors:
            number = self.see(tensor)
            if over or number not in self.category:
                self.category[number] = category

    def next_slot(self, phase: Phase) -> None:
        """What comes belongs to another slot."""
        self.slot, self.phase = self.slot + 1, phase

    @contextmanager
    def watched(self) -> Generator[None]:
        """While this is entered, storages that are resized are seen."""
        storages: Any = torch.UntypedStorage  # in parts untyped in torch
        before = storages.resize_

        def resize(storage: Any, size: int) -> Any:
            found = before(storage, size)
            number = self._numbers.get(_identity(storage))
            if number is not None:
                self._set(number, storage.nbytes())
            return found

        storages.resize_ = resize
        try:
            yield
        finally:
            storages.resize_ = before

    def categories(self) -> dict[int, Category]:
        """Of every storage. What nobody claimed is an activation where it outlives the slot that made it."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for change in self.changes:
            if change.nbytes > 0:
                first.setdefault(change.storage, change.slot)
                last.pop(change.storage, None)
            else:
                last[change.storage] = change.slot
        found: dict[int, Category] = {}
        for number, slot in first.items():
            short = last.get(number) == slot
            found[number] = self.category.get(number, "workspace" if short else "activations")
        return found

    def played(self) -> Iterator[tuple[Change, Counter[Category]]]:
        """Every change with what is alive behind it, by category; one counter, which goes on changing."""
        categories, alive = self.categories(), Counter["Category"]()
        for change in self.changes:
            alive[categories[change.storage]] += change.nbytes
            yield change, alive

    def _set(self, number: int, nbytes: int) -> None:
        more = nbytes - self._sizes[number]
        if more:
            self._sizes[number] = nbytes
            self.changes.append(Change(number, more, self.slot, self.phase))

    def _end(self, place: int, number: int) -> None:
        if self._numbers.get(place) == number:
            del self._numbers[place]
        self._set(number, 0)


def _identity(storage: Any) -> int:
    """Torch's own, of the memory behind its Python objects."""
    return storage._cdata  # noqa: SLF001 - see above
