"""Option text goes in; the nouns of a question come out, with `--set` applied."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING

from meshwright.base.errors import SystemSpecError
from meshwright.cli.options import changed
from meshwright.model.reader import read_model
from meshwright.system.system import checked_system, read_systems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.base.result import Result
    from meshwright.cli.options import ModelChoice
    from meshwright.model.model import Model
    from meshwright.system.system import System


def model_of(choice: ModelChoice, settings: Mapping[str, str]) -> Model:
    """The model, changed by `--set model....`."""
    read = read_model(choice.name, weights=choice.weights, cache=hub_cache(), download=choice.download)
    return changed(read, settings)


def system_of(text: str, settings: Mapping[str, str]) -> System:
    """The one system of `--on`, changed by `--set system....`. Raises SYS010 for a list where one is wanted."""
    first, *others = read_systems(text)
    if others:
        raise SystemSpecError(10, f"--on {text}: this verb takes one system", f"name one, such as {first.id!r}")
    return checked_system(changed(first, settings), "--set")


def retyped(result: Result, choice: ModelChoice, system: str, settings: tuple[str, ...]) -> Result:
    """The result with MODEL and SYSTEM of its next commands replaced by what was typed, options included."""
    weights = ["--weights", choice.weights] if choice.weights else []
    download = ["--download"] if choice.download else []
    kept = [item for item in settings if item.startswith(("model.", "system."))]
    model = join([choice.name, *weights, *download, *(part for item in kept for part in ("--set", item))])
    commands = tuple(
        text.replace(" MODEL", f" {model}").replace(" SYSTEM", f" {quote(system)}") for text in result.next_commands
    )
    return replace(result, next_commands=commands)


def hub_cache() -> Path:
    """Where huggingface_hub keeps its files: HF_HUB_CACHE, HF_HOME/hub, or ~/.cache/huggingface/hub."""
    if "HF_HUB_CACHE" in os.environ:
        return Path(os.environ["HF_HUB_CACHE"])
    home = os.environ.get("HF_HOME")
    base = Path(home) if home else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "huggingface"
    return base / "hub"
