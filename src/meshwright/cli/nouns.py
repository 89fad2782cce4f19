"""Option text goes in; the nouns of a question come out, with `--set` applied; and next commands as one types them."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from shlex import join, split
from typing import TYPE_CHECKING, Any, Final

from click.core import ParameterSource

from meshwright.base.errors import SystemSpecError
from meshwright.cli.options import WORKSPACE, changed
from meshwright.layout.layout import checked_fields, read_fixed
from meshwright.model.checks import checked_model
from meshwright.model.reader import read_model
from meshwright.system.system import checked_system, read_systems

if TYPE_CHECKING:
    from collections.abc import Mapping

    import click

    from meshwright.base.result import Result
    from meshwright.cli.options import ModelChoice
    from meshwright.model.model import Model
    from meshwright.system.system import System

LOG: Final = logging.getLogger(__name__)


def model_of(choice: ModelChoice, settings: Mapping[str, str]) -> Model:
    """The model, changed by `--set model....`."""
    read = read_model(choice.name, weights=choice.weights, kv=choice.kv, cache=hub_cache(), download=choice.download)
    stored = (read.weights.name, read.kv.name)
    LOG.info("model %s: family %s, %d layers, weights %s, kv %s", read.name, read.family, read.layers, *stored)
    return checked_model(changed(read, settings), "model") if settings else read


def system_of(text: str, settings: Mapping[str, str]) -> System:
    """The one system of `--on`, changed by `--set system....`. Raises SYS010 for a list where one is wanted."""
    first, *others = read_systems(text)
    if others:
        raise SystemSpecError(10, f"--on {text}: this verb takes one system", f"name one, such as {first.id!r}")
    LOG.info("system %s: %d x %s", first.name, first.devices, first.accelerator.name)
    return checked_system(changed(first, settings), "system")


def systems_of(text: str, settings: Mapping[str, str]) -> tuple[System, ...]:
    """Every system of `--on`, each changed by `--set system....`."""
    found = tuple(checked_system(changed(system, settings), "system") for system in read_systems(text))
    for system in found:
        LOG.info("system %s: %d x %s", system.name, system.devices, system.accelerator.name)
    return found


def fixed_of(layout: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a layout that `--layout` and `--set layout....` fix, the latter last."""
    own = {**read_fixed(layout), **read_fixed(",".join(f"{path}={value}" for path, value in settings.items()))}
    return checked_fields(own)


def retyped(  # noqa: PLR0917 - what was found, and all that was typed
    result: Result,
    choice: ModelChoice,
    system: str,
    settings: tuple[str, ...],
    given: Mapping[str, Any],
    typed: Mapping[str, str] | None = None,
) -> Result:
    """The result with its next commands as one types them: MODEL and SYSTEM named, what was set otherwise set again.

    given: options of memory, which are told again where they are not the default.   typed: text of options by flag, in
    place of the value that a command has for that flag.
    """
    words = {"MODEL": choice.name, "SYSTEM": system}
    of_model = ["--weights", choice.weights] if choice.weights else []
    of_model += ["--kv", choice.kv] if choice.kv else []
    of_model += [*(["--download"] if choice.download else []), *_again(settings, "model.")]
    held = [
        word
        for name, usual in _HELD.items()
        if given.get(name, usual) != usual
        for word in (_flag(name), str(given[name]))
    ]
    commands: list[str] = []
    for command in result.next_commands:
        own = split(command)
        set_anew = {word.partition("=")[0] for before, word in pairwise(own) if before == "--set"}
        left = tuple(setting for setting in settings if setting.partition("=")[0].strip() not in set_anew)
        of_system = [*held, *_again(left, "system.")]
        more = [*(of_model if "MODEL" in own else []), *(of_system if "--on" in own else [])]
        said = _said(own, {} if typed is None else typed)
        commands.append(join([*(words.get(word, word) for word in said), *more]))
    return replace(result, next_commands=tuple(commands))


def _said(words: list[str], typed: Mapping[str, str]) -> list[str]:
    """The words, each flag's value as it was typed."""
    return [typed.get(before, word) for before, word in zip(["", *words], words, strict=False)]


def typed_options(context: click.Context, settings: tuple[str, ...], apart: tuple[str, ...]) -> dict[str, str]:
    """Text by flag of the options on the command line; not of those in `apart`, and of none that `--set` changes."""
    again = {setting.partition("=")[0].strip().removeprefix("job.") for setting in settings}
    found: dict[str, str] = {}
    for name, value in context.params.items():
        stands = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if stands and isinstance(value, str) and name not in {*apart, *again}:
            found[_flag(name)] = value
    return found


_HELD: Final = {
    "workspace": WORKSPACE,
    "max_batched_tokens": None,
    "reserve": "",
    "shards": "strict",
    "engine": None,
    **dict.fromkeys(("gpu_memory_utilization", "kv_cache_memory", "kv_blocks", "block_size")),
    **dict.fromkeys(("engine_weights", "engine_reserve")),
}
"""Options of memory, and the engine, that both plan and fit take, with their defaults."""


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _again(settings: tuple[str, ...], noun: str) -> list[str]:
    """The settings of a noun as options."""
    return [word for setting in settings if setting.strip().startswith(noun) for word in ("--set", setting)]


def hub_cache() -> Path:
    """Where huggingface_hub keeps its files: HF_HUB_CACHE, HF_HOME/hub, or ~/.cache/huggingface/hub."""
    if "HF_HUB_CACHE" in os.environ:
        return Path(os.environ["HF_HUB_CACHE"])
    home = os.environ.get("HF_HOME")
    base = Path(home) if home else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "huggingface"
    return base / "hub"
