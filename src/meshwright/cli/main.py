"""The command `meshwright`: a command line goes in; an answer on stdout and an exit code come out.

Exit codes: 0 yes, 1 the answer is no, 2 bad input, 101 our bug, 130 interrupted. Verbs are imported when they are
named, so that `--help` loads neither numpy nor torch.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, Final

import click

from meshwright._version import __version__
from meshwright.base.errors import FileError, InternalError, MeshwrightError
from meshwright.cli.verbs import Verbs

_VERBS: Final = {
    "inspect": ("inspect", "What a model is: parameters, bytes, cached state and work per token."),
    "fit": ("fit", "Whether a model fits a system at given degrees, byte by byte."),
    "plan": ("plan", "Which layout to run: plan serve, plan train."),
    "experts": ("experts", "What experts do with a batch: loads, placement, dispatch and combine, drops."),
    "schedule": ("schedule", "Which pipeline schedule fits, and is then the fastest."),
    "rack": ("rack", "How many accelerators a power budget carries: boxes, racks, tiers of switches."),
    "pool": ("pool", "What memory of other nodes solves, at which rate, and in which order it may be used."),
    "topology": ("topology", "What a network is made of, and what a collective puts on its links."),
    "checkpoint": ("checkpoint", "How often to save, and what a failure loses: checkpoint interval, timeline."),
    "collective": ("collective", "Exchanges between ranks: collective time, check."),
    "calibrate": ("calibrate", "What this machine does, measured on its own processes: calibrate local."),
    "run": ("run", "Run a layout on real processes: run train."),
    "verify": ("verify", "Real runs beside what was expected of them: verify parity, verify run."),
    "explain": ("explain", "Where a number of a saved result comes from: its formula, values and sources."),
    "compare": ("compare", "What changed between two saved answers of one command."),
    "list": ("listing", "What the catalog knows, with sources."),
    "study": ("study", "Packaged studies: list them, run one."),
}
_INTERRUPTED: Final = 130
_HELP: Final = """Decide how large models run on accelerators.

\b
meshwright inspect Qwen/Qwen3-32B
meshwright plan serve Qwen/Qwen3-32B --on hgx-h100 --sessions 4 --context 32K --new-tokens 256
"""  # \b is click's word for "keep these lines"


@click.command(cls=Verbs, verbs=_VERBS, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="meshwright")
def meshwright() -> None:
    """The program."""


def main(arguments: list[str] | None = None) -> None:
    """Run one command line and exit with its code. Every failure is one coded message, never a traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(given))


def run(arguments: list[str]) -> int:
    """The exit code of one command line, after its answer or its error is printed."""
    try:
        code: Any = meshwright.main(args=list(arguments), prog_name="meshwright", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as problem:
        click.echo(problem.format_message())
        return 0
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return _INTERRUPTED
    except Exception as problem:  # noqa: BLE001 - the last line of defence: a bug, too, is one coded message
        return _fail(arguments, _coded(problem, arguments))
    return code if isinstance(code, int) else 0


def _coded(problem: Exception, arguments: list[str]) -> MeshwrightError:
    """Any failure as a coded one; under -v a bug shows its trace first."""
    if isinstance(problem, MeshwrightError):
        return problem
    if isinstance(problem, click.ClickException):
        return FileError(30, problem.format_message().rstrip("."), _help_line(problem))
    if isinstance(problem, (MemoryError, RecursionError)):
        return FileError(31, f"the input is too large: {type(problem).__name__}", "give a smaller one")
    if {"-v", "--verbose"} & set(arguments):
        import traceback  # noqa: PLC0415 - only a bug needs it

        traceback.print_exception(problem)
    return InternalError(f"{type(problem).__name__}: {problem} (-v shows the trace)")


def _fail(arguments: list[str], problem: MeshwrightError) -> int:
    if _wants_json(arguments):
        import json  # noqa: PLC0415 - --help must not pay for it

        from meshwright.base.result import error_json  # noqa: PLC0415 - as json

        with suppress(OSError):  # the message below says it too
            click.echo(json.dumps(error_json(problem.code, problem.cause, problem.fix), indent=2))
    click.echo(problem.message, err=True)
    return problem.exit_code


def _wants_json(arguments: list[str]) -> bool:
    """Whether the line asks for JSON, even when it could not be parsed; of several --format the last one counts."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    asked = [
        following if item == "--format" else item.removeprefix("--format=")
        for item, following in pairs
        if item == "--format" or item.startswith("--format=")
    ]
    return asked[-1:] == ["json"]


def _help_line(problem: click.ClickException) -> str:
    context = getattr(problem, "ctx", None)
    path = "meshwright" if context is None else context.command_path
    return f"{path} --help shows what it takes"
