"""Option text goes in; the nouns of a question come out, with `--set` applied; and next commands as one types them."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from shlex import join, split
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.errors import SystemSpecError
from meshwright.cli.options import WORKSPACE, changed
from meshwright.layout.layout import read_fixed
from meshwright.model.checks import checked_model
from meshwright.model.reader import read_model
from meshwright.system.system import checked_system, read_systems

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def fixed_of(layout: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a layout that `--layout` and `--set layout....` fix, the latter last."""
    return read_fixed(",".join([layout, *(f"{path}={value}" for path, value in settings.items())]))


def retyped(
    result: Result, choice: ModelChoice, system: str, settings: tuple[str, ...], given: Mapping[str, Any]
) -> Result:
    """The result with its next commands as one types them: MODEL and SYSTEM named, what was set otherwise set again."""
    words = {"MODEL": choice.name, "SYSTEM": system}
    of_model = ["--weights", choice.weights] if choice.weights else []
    of_model += ["--kv", choice.kv] if choice.kv else []
    of_model += [*(["--download"] if choice.download else []), *_again(settings, "model.")]
    held = [word for name, usual in _HELD.items() if given[name] != usual for word in (_flag(name), given[name])]
    of_system = [*held, *_again(settings, "system.")]
    typed: list[str] = []
    for command in result.next_commands:
        own = split(command)
        more = [*of_model, *(of_system if "SYSTEM" in own else [])]
        typed.append(join([*(words.get(word, word) for word in own), *more]))
    return replace(result, next_commands=tuple(typed))


_HELD: Final = {"workspace": WORKSPACE, "max_batched_tokens": None, "reserve": "", "shards": "strict"}
"""Options of memory that both plan and fit take, with their defaults."""


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
