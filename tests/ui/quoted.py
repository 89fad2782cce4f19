"""A page with ```console blocks goes in; its `$ meshwright ...` lines and the output it quotes under each come out.

`python -m tests.ui.quoted README.md` runs every line whose output is quoted and writes what it prints today. A quoted
line `...` stands for any number of lines.
"""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.ui.program import meshwright

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = re.compile(r"^```(?:console|shell|sh|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """One command of a page. output: what the page shows under it, None when it shows nothing."""

    command: str
    output: str | None

    @property
    def arguments(self) -> list[str]:
        """What follows the program's name; a trailing comment is no part of it."""
        return shlex.split(self.command, comments=True)[1:]


def commands(page: str) -> Iterator[Quoted]:
    """Every `meshwright` command of the page's blocks, in order."""
    for block in _BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.replace("\\\n", "").partition("\n")
            if command.split()[:1] == ["meshwright"]:
                yield Quoted(command=command, output=output.rstrip("\n") or None)


def matches(quoted: str, printed: str) -> bool:
    """Whether the quoted output is what was printed, line by line."""
    pattern = "\n".join(r"(?:.*\n)*?.*" if line == "..." else re.escape(line) for line in quoted.splitlines())
    return re.fullmatch(pattern, printed.rstrip("\n")) is not None


def renewed(page: str) -> str:
    """The page with every quoted output that no longer matches replaced by what the command prints today.

    All its commands run, in order and in an empty folder: what one saves another may read.
    """
    with TemporaryDirectory() as folder, chdir(folder):
        for item in commands(page):
            printed = meshwright(*item.arguments).out.rstrip("\n")
            if item.output is not None and not matches(item.output, printed):
                page = page.replace(f"\n{item.output}\n", f"\n{printed}\n")
    return page


def main() -> None:
    """Renew the pages named on the command line."""
    for name in sys.argv[1:]:
        file = Path(name)
        before = file.read_text(encoding="utf-8")
        after = renewed(before)
        file.write_text(after, encoding="utf-8")
        print(f"{name}: {'renewed' if after != before else 'up to date'}")


if __name__ == "__main__":
    main()
