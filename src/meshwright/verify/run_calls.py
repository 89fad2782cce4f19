"""A checked setting goes in; it is run on real processes that record their calls; what is wrong comes out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from meshwright.base.errors import RunError
from meshwright.base.units import Seconds
from meshwright.runtime.calls import axes_of, recorded
from meshwright.runtime.job import RunOptions
from meshwright.runtime.launch.supervisor import launch
from meshwright.runtime.loop.samples import SyntheticTokens
from meshwright.runtime.loop.trainer import Batch, Recipe, trainer_of
from meshwright.runtime.state.weights import made_up
from meshwright.runtime.train import crew_of, precision_of
from meshwright.runtime.world import join
from meshwright.verify.calls import check_files
from meshwright.verify.run import inputs_of

if TYPE_CHECKING:
    from meshwright.base.result import Result
    from meshwright.model.arithmetic import Arithmetic
    from meshwright.runtime.launch.member import Member
    from meshwright.verify._meetings import Turns
    from meshwright.verify.setting import Setting


def verify_calls(setting: Setting, arithmetic: Arithmetic, turns: Turns, *, timeout_s: float) -> Result:
    """The calls of one step of every rank, compared. turns: how a backend runs the transfers of two ranks.

    A run that breaks is judged by what its ranks recorded until then, and its error is a note. Raises as `check_files`,
    and the run's error where a rank recorded nothing, or nothing is wrong in what they recorded.
    """
    crew = crew_of(setting.layout, RunOptions(timeout=Seconds(timeout_s)))
    with TemporaryDirectory(prefix="meshwright-") as folder:
        broken: RunError | None = None
        try:
            launch(_rank, (setting, arithmetic, folder), crew, _quietly)
        except RunError as problem:
            broken = problem
        paths = [Path(folder, str(rank)) for rank in range(setting.layout.world_size)]
        if broken is not None and not all(path.exists() for path in paths):
            raise broken
        found = check_files(paths, turns)
    if broken is not None and found.verdict.answer == "yes":
        raise broken
    notes = () if broken is None else (f"the run broke: {broken.cause}",)
    given = inputs_of(setting)
    return replace(found, inputs={**given, "options": {**given["options"], "turns": turns}}, notes=notes)


def _quietly(_: object) -> None:
    """Nothing is told meanwhile."""


def _rank(member: Member, given: tuple[Setting, Arithmetic, str]) -> None:
    """The steps of one rank, the last recorded."""
    setting, arithmetic, folder = given
    batch = Batch(global_batch=setting.global_batch, sequence=setting.sequence)
    world = join(setting.layout, member.rank, member.device)
    values, recipe = made_up(setting.model, setting.seed), Recipe(precision=precision_of(setting.recipe))
    trainer = trainer_of(setting.model, arithmetic, world, setting.slots, batch, recipe, values)
    data = SyntheticTokens(seed=setting.seed, vocab=setting.model.vocab, sequence=setting.sequence, ragged=True)
    for number in range(setting.steps):
        trainer.step(number, data.sample)
    with recorded(Path(folder, str(member.rank)), member.rank, axes_of(world)):
        trainer.step(setting.steps, data.sample)
