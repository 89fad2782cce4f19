"""The question of a row goes in; the words that a user would type after `meshwright` come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.golden.context import Row


def arguments(row: Row) -> list[str]:
    """The command, its model, and every input as an option; asks for JSON."""
    settings = row.settings
    words = [*row.command.split(), "--format", "json"]
    if row.command.startswith("list "):
        return words
    if row.command.startswith("study run "):
        return [*words, *(word for place, text in settings.items() for word in ("--set", f"{place}={text}"))]
    words += [settings.pop("model")] if "model" in settings else []
    fixed: list[str] = []
    fault: dict[str, str] = {}
    for place, text in settings.items():
        part, _, name = place.partition(".")
        if name.startswith("layout."):
            fixed.append(f"{name.removeprefix('layout.')}={text}")
        elif name.startswith("fault."):
            fault[name.removeprefix("fault.")] = text
        elif part in {"options", "job"}:
            words += [f"--{name.replace('_', '-')}", text]
        else:
            words += ["--set", f"{place}={text}"] if name else ["--on", text]
    if fault:
        words += ["--fault", "{domain}={index},at={at},stall={stall}".format_map(fault)]
    return [*words, "--layout", ",".join(fixed)] if fixed else words
