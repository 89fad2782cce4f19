"""Options that verbs share: decorators that pack them into one value each; and `--set`, for the noun it names."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from meshwright.base.errors import FileError, suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Verb = Callable[..., int]

T = TypeVar("T")
FORMATS: Final = ("human", "json", "md", "csv")
WORKSPACE: Final = "2GiB"
COMPUTED: Final = "computed"
_WEIGHTS: Final = "bf16, fp16, fp32, fp8, int8, int4, mxfp4, nvfp4 or q8_0 (GGUF) instead of what the config says."


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where and how an answer is printed. seed: of anything random (the runs of `checkpoint interval`)."""

    style: str
    file: str | None
    quiet: bool
    verbose: bool
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """Which model, and how to read it."""

    name: str
    weights: str | None
    kv: str | None
    download: bool


def output_options(verb: Verb) -> Verb:
    """--format, -o, -q, -v, --seed, as one argument `output`."""
    decorators = (
        click.option("--format", "style", type=click.Choice(FORMATS), default="human", help="How to print the answer."),
        click.option("-o", "--output", "file", default=None, help="Write the answer to a file instead of stdout."),
        click.option("-q", "--quiet", is_flag=True, help="Only the verdict."),
        click.option("-v", "--verbose", is_flag=True, help="Log to stderr; show the trace of a bug."),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of anything random."),
    )
    return _packed(verb, "output", Output, decorators)


def model_options(verb: Verb) -> Verb:
    """MODEL, --weights, --kv, --download, as one argument `model`."""
    decorators = (
        click.argument("name", metavar="MODEL"),
        click.option("--weights", default=None, metavar="FORMAT", help=_WEIGHTS),
        click.option("--kv", default=None, metavar="FORMAT", help="Of the KV cache: bf16, fp16, fp32, fp8 or int8."),
        click.option("--download", is_flag=True, help="Ask the Hugging Face hub when the id is nowhere else."),
    )
    return _packed(verb, "model", ModelChoice, decorators)


def system_options(verb: Verb) -> Verb:
    """--on."""
    help_text = "A system: ID, 'ID xN' (N boxes), or a TOML file."
    return click.option("--on", "system", required=True, metavar="SYSTEM", help=help_text)(verb)


def form_option(verb: Verb) -> Verb:
    """--attention-form; its words have hyphens where those of the options have underscores."""
    help_text = "Of latent attention: make keys and values of the positions read, or fold that into the queries."
    choices = click.Choice(["by-phase", "expanded", "absorbed"])
    decorate = click.option("--attention-form", type=choices, default="by-phase", show_default=True, help=help_text)
    return decorate(verb)


def workspace_option(verb: Verb) -> Verb:
    """--workspace, --max-batched-tokens, --reserve and --shards; `workspace_fields` reads the first three."""
    help_text = "Kept free on every device (assumed); `computed` itemises it from shapes."
    decorators = (
        click.option("--workspace", default=WORKSPACE, show_default=True, help=help_text),
        click.option(
            "--max-batched-tokens", default=None, help="Rows of the largest step of a computed reserve [8192, assumed]."
        ),
        click.option("--reserve", default="", metavar="k=v,...", help="Other constants of a computed reserve."),
        click.option(
            "--shards",
            type=click.Choice(["strict", "even"]),
            default="strict",
            show_default=True,
            help="What a rank holds: as the ownership table cuts, or all divided by tp.",
        ),
    )
    for decorator in reversed(decorators):
        verb = decorator(verb)
    return verb


def workspace_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a verb with `--workspace computed` as a rule under `reserve`.

    Raises IO036 for a constant of a reserve that is not computed.
    """
    found, rule = reserve_rule(given)
    if found.pop("workspace") == COMPUTED:
        return found | {"reserve": rule}
    if rule:
        cause = f"{', '.join(rule)}: constants of a computed reserve, and --workspace states one"
        raise FileError(36, cause, "--workspace computed")
    return found | {"workspace": given["workspace"], "reserve": None}


def reserve_rule(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The options of a verb without the constants of a computed reserve, and these. Raises IO032 for no `k=v`."""
    found = dict(given)
    rows = found.pop("max_batched_tokens")
    constants = dict(pairs(tuple(filter(None, (item.strip() for item in found.pop("reserve").split(","))))))
    return found, constants | ({} if rows is None else {"max_batched_tokens": rows})


def context_options(verb: Verb) -> Verb:
    """--cp-split and --cp-exchange, of sequences and prompts; `ContextPlan` takes both."""
    decorators = (
        click.option(
            "--cp-split",
            type=click.Choice(["zigzag", "contiguous", "striped"]),
            default="zigzag",
            show_default=True,
            help="Positions of a sequence that each rank of cp keeps.",
        ),
        click.option(
            "--cp-exchange",
            type=click.Choice(["ring", "all-gather", "ulysses"]),
            default="ring",
            show_default=True,
            help="How attention meets the positions of other ranks of cp.",
        ),
    )
    for decorator in reversed(decorators):
        verb = decorator(verb)
    return verb


def engine_options(help_text: str) -> Callable[[Verb], Verb]:
    """--engine, and how it is started; `with_engine` reads them."""
    decorators = (
        click.option("--engine", default=None, help=help_text),
        click.option(
            "--gpu-memory-utilization",
            default=None,
            help="The engine's share of the device, whatever its flag is called [its default].",
        ),
        click.option("--kv-cache-memory", default=None, help="Bytes for KV on a device, in place of what it leaves."),
        click.option("--kv-blocks", type=int, default=None, help="Blocks of KV, as its log states them [computed]."),
        click.option("--block-size", type=int, default=None, help="Positions of the engine's KV block [its default]."),
        click.option("--engine-weights", default=None, help="Weights on a device, as its log states them [computed]."),
        click.option("--engine-reserve", default=None, help="What it keeps beside weights and KV [computed, assumed]."),
    )

    def decorate(verb: Verb) -> Verb:
        for decorator in reversed(decorators):
            verb = decorator(verb)
        return verb

    return decorate


def with_engine(given: dict[str, Any]) -> dict[str, Any]:
    """The options with the engine's under `engine`. Raises IO036 for one of them without --engine."""
    own = {field: given.pop(option) for option, field in _ENGINE.items()}
    if own["name"] is None:
        stated = [option for option, field in _ENGINE.items() if own[field] is not None]
        if stated:
            flag = f"--{stated[0].replace('_', '-')}"
            raise FileError(36, f"{flag} without --engine", "name the engine, as in --engine vllm")
        return workspace_fields(given)
    found, rule = reserve_rule(given)
    unused = own["reserve"] is not None or given["workspace"] == COMPUTED
    plain = workspace_fields(given) if unused else workspace_fields(found | {"max_batched_tokens": None, "reserve": ""})
    return plain | {"engine": own | {"rule": rule}}


_ENGINE: Final = {
    "engine": "name",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "kv_cache_memory": "kv_cache_memory",
    "kv_blocks": "kv_blocks",
    "block_size": "block_size",
    "engine_weights": "weights",
    "engine_reserve": "reserve",
}


def layout_option(verb: Verb) -> Verb:
    """--layout."""
    help_text = "Fix these fields of the layout; what is left is searched or takes its default."
    return click.option("--layout", default="", metavar="k=v,...", help=help_text)(verb)


def set_option(verb: Verb) -> Verb:
    """--set PATH=VALUE, repeatable."""
    help_text = "Any field of model, system, job or layout by its dotted path, with its unit."
    return click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help=help_text)(verb)


def split_settings(settings: tuple[str, ...], nouns: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """`--set` values by noun: {"system": {"scale_up.latency": "1us"}}. Raises IO032 for a malformed or foreign one."""
    found: dict[str, dict[str, str]] = {noun: {} for noun in nouns}
    for path, value in pairs(settings):
        noun, _, rest = path.partition(".")
        if noun not in found:
            raise FileError(32, f"--set {path}: {noun!r} is not one of {', '.join(nouns)}", suggest(noun, nouns))
        if not rest:
            raise FileError(32, f"--set {path}: a whole {noun}", f"name a field of it, as in --set {noun}.name=...")
        found[noun][rest] = value
    return found


def pairs(settings: tuple[str, ...]) -> list[tuple[str, str]]:
    """`PATH=VALUE` texts as pairs. Raises IO032 for one without an equals sign."""
    found: list[tuple[str, str]] = []
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals or not path.strip():
            raise FileError(32, f"--set {setting}: not PATH=VALUE", "write as in --set system.scale_up.latency=1us")
        found.append((path.strip(), value.strip()))
    return found


def changed(noun: T, settings: Mapping[str, str]) -> T:
    """A noun with every setting applied in turn."""
    from meshwright.base.parse import set_path  # noqa: PLC0415 - pydantic is loaded only by verbs that need it

    for path, value in settings.items():
        noun = set_path(noun, path, value)
    return noun


def _packed(verb: Verb, name: str, cls: type, decorators: tuple[Callable[[Verb], Verb], ...]) -> Verb:
    """`verb` with the options of `decorators`, handed over as one value of `cls` under `name`."""
    own = tuple(item.name for item in fields(cls))

    @wraps(verb)
    def packed(**given: Any) -> int:
        value = cls(**{key: given.pop(key) for key in own})
        if isinstance(value, Output):
            _log_to_stderr(verbose=value.verbose)
            from meshwright.cli.show import check_place  # noqa: PLC0415 - --help loads no form

            check_place(value.file)
        return verb(**given, **{name: value})

    wrapped: Verb = packed
    for decorator in reversed(decorators):
        wrapped = decorator(wrapped)
    return wrapped


def _log_to_stderr(*, verbose: bool) -> None:
    """Our own loggers alone, so that other libraries' stay quiet; warnings, and under -v all of what we say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    own = logging.getLogger("meshwright")
    own.handlers[:] = [handler]
    own.setLevel(logging.INFO if verbose else logging.WARNING)
