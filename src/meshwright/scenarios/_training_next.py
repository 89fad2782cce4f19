"""A plan's question and what was found go in; the commands that one may type next come out, MODEL for the model."""

from __future__ import annotations

import re
from dataclasses import fields
from shlex import join
from typing import TYPE_CHECKING, Any, Final, cast

from meshwright.job.recipe import RECIPES, Recipe, read_recipe
from meshwright.scenarios._training_boxes import COPIES
from meshwright.scenarios._training_options import TrainOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.base.result import Candidate
    from meshwright.job.train import TrainJob
    from meshwright.system.system import System

_BOXES: Final = re.compile(r"(?:^|\s*)x\s*(?P<count>\d+)$")
_ONE: Final = {"count": "1"}
_UNITS: Final = {
    "deadline": "s",
    "reserve": "s",
    "input_wait": "s",
    "activation_budget": "B",
    "usable_memory": "B",
    "workspace": "B",
    "card_mtbf": "s",
    "job_mtbf": "s",
    "checkpoint_interval": "s",
    "storage_write": "B/s",
    "restart": "s",
    "spike_interval": "s",
    "common_mode_mtbf": "s",
    "checkpoint_copy": "s",
    "copy": "s",
    "host_memory": "B",
    "host_bandwidth": "B/s",
    "host_link": "B/s",
}
"""Units of the numbers that a command line takes with one."""
_MESH: Final = ("tp", "cp", "pp", "dp_shard", "dp_replicate", "ep", "etp")
_REST: Final = ("sp", "zero", "micro_batch", "recompute", "offload")


def next_commands(  # noqa: PLR0917 - the question, and what was found
    system: System,
    job: TrainJob,
    options: TrainOptions,
    best: Candidate | None,
    limits: Mapping[str, Any] | None,
    boxes: int | None,
    size: int,
) -> tuple[str, ...]:
    """In time: the interval between saves where failures are stated, and this layout alone. Late: more boxes.

    boxes: that hold the model, or may be in time, where these do not.   size: bytes of a save.
    """
    if best is None:
        return () if boxes is None else _larger(system, job, options, boxes)
    if limits is not None and limits["slack_s"] < 0:
        return () if boxes is None else _larger(system, job, options, boxes)
    return (*_saving(system, options, best, size, job.reserve), *_pinned(job, options, best))


def _larger(system: System, job: TrainJob, options: TrainOptions, nodes: int) -> tuple[str, ...]:
    """The same question with more boxes; of a system that has its number from a file, or from --set, by --set."""
    free = {name: value for name, value in options.layout.items() if name not in COPIES}
    words = question_words(job, options)
    if system.id.endswith(".toml") or system.nodes != int((_BOXES.search(system.id) or _ONE)["count"]):
        return (join([*_ON, "SYSTEM", *words, *_layout_words(free), "--set", f"system.nodes={nodes}"]),)
    if system.scale_out is None or system.nics_per_node < 1:
        return ()
    name = _BOXES.sub("", system.id)
    return (join([*_ON, f"{name} x{nodes}", *words, *_layout_words(free)]),)


_ON: Final = ("meshwright", "plan", "train", "MODEL", "--on")


def _saving(system: System, options: TrainOptions, best: Candidate, size: int, reserve: float) -> tuple[str, ...]:
    """How often to save, where a rate of saving and failures are stated."""
    if options.storage_write is None or (options.card_mtbf is None and options.job_mtbf is None):
        return ()
    given = {name: getattr(options, name) for name in ("card_mtbf", "job_mtbf", "spike_interval")}
    given |= {"common_mode_mtbf": options.common_mode_mtbf, "restart": options.restart, "reserve": reserve}
    if options.checkpoint_copy is not None:
        given |= {"mode": "async", "copy": options.checkpoint_copy}
    words = ["meshwright", "checkpoint", "interval", "--size", f"{size}B", "--devices", str(system.devices)]
    work = f"{_exact(float(best.measures['useful_s']))}s"
    words += ["--write", f"{_exact(options.storage_write)}B/s", "--work", work]
    return (join([*words, *_words({name: value for name, value in given.items() if value})]),)


def _pinned(job: TrainJob, options: TrainOptions, best: Candidate) -> tuple[str, ...]:
    """This layout alone, all fields of it fixed; none where they were."""
    layout = best.layout
    held = {name: layout[name] for name in (*_MESH, *_REST)}
    if layout["pp"] > 1:
        held |= {"schedule": layout["schedule"], "virtual_stages": layout["virtual_stages"]}
    fixed = {name: value for name, value in held.items() if value is not None}
    if fixed.keys() <= options.layout.keys():
        return ()
    return (join([*_ON, "SYSTEM", *question_words(job, options), *_layout_words(fixed)]),)


def question_words(job: TrainJob, options: TrainOptions) -> list[str]:
    """The job and the options that are not their defaults, as the command line takes them."""
    words = ["--tokens", str(job.tokens), "--sequence", str(job.sequence), "--global-batch", str(job.global_batch)]
    words += _words({"deadline": job.deadline, "reserve": job.reserve or None, "noise_scale": job.noise_scale})
    words += _words({"padding": job.padding or None})
    words += _recipe_words(job.recipe)
    usual = TrainOptions()
    names = [item.name for item in fields(TrainOptions) if item.name != "layout"]
    return words + _words(
        {name: getattr(options, name) for name in names if getattr(options, name) != getattr(usual, name)}
    )


def _recipe_words(recipe: Recipe) -> list[str]:
    """A recipe by its name, or each field that the default one has otherwise."""
    name = next((name for name in RECIPES.names() if read_recipe(name) == recipe), None)
    if name is not None:
        return [] if recipe == Recipe() else ["--recipe", name]
    usual = Recipe()
    changed = [item.name for item in fields(Recipe) if getattr(recipe, item.name) != getattr(usual, item.name)]
    return [word for name in changed for word in ("--set", f"job.recipe.{name}={_text(getattr(recipe, name))}")]


def _words(given: Mapping[str, Any]) -> list[str]:
    """Options by name with their values, without those that are None."""
    words: list[str] = []
    for name, value in given.items():
        if value is not None:
            unit = _UNITS.get(name, "")
            many = cast("tuple[float, ...]", value) if isinstance(value, tuple) else (value,)
            text = ",".join(f"{_exact(one)}{unit}" if unit else str(one).replace("_", "-") for one in many)
            words += [f"--{name.replace('_', '-')}", text]
    return words


def _exact(value: float) -> str:
    """Every digit, a whole number as such."""
    return str(int(value)) if value == int(value) else repr(value)


def _layout_words(layout: Mapping[str, Any]) -> list[str]:
    fixed = ",".join(f"{name}={_text(value)}" for name, value in layout.items())
    return ["--layout", fixed] if fixed else []


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    many = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return ",".join(str(item) for item in many)
