"""A model's name goes in (a path, or an id of the catalog, the local hub cache or, when asked, the hub); a `Model` out.

The order is fixed and never a guess: a path; the catalog in the package; the local hub cache; the hub, only with the
extra `hub` and only when asked. No remote code is ever run: only `config.json` is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from meshwright.base.errors import ModelError, nearest
from meshwright.base.parse import build, read_json, read_text, read_toml
from meshwright.base.registry import Registry
from meshwright.base.result import Source
from meshwright.model.arithmetic import Arithmetic, arithmetic_of
from meshwright.model.config import Fields, shown
from meshwright.model.description import read_description
from meshwright.model.formats import PLAIN, find_plain
from meshwright.model.model import Apart, Model, sharing
from meshwright.model.quantization import KV_FIELDS, SECTIONS
from meshwright.model.what_if import check_weights, with_formats

FAMILIES: Final = Registry(kind="families", package="meshwright.model", folder="families", error=ModelError, number=2)
CATALOG: Final = Registry(
    kind="models", package="meshwright.model", folder="data", suffix=".toml", error=ModelError, number=1
)
_ID: Final = re.compile(r"[\w.-]+(/[\w.-]+)?")
_LONGEST_NAME: Final = 4096
_DTYPES: Final = ("dtype", "torch_dtype")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A config (or a model described by its own fields) that was found, its name, and its source when it is known."""

    config: Mapping[str, Any]
    name: str
    source: Source | None = None
    described: bool = False


def read_model(
    name: str,
    *,
    weights: str | None = None,
    kv: str | None = None,
    cache: Path | None = None,
    download: bool = False,
) -> Model:
    """The model called `name`: a config.json, a folder with one, a TOML (a catalog entry or a model), or an id.

    weights, kv: as in `read_config`.   cache: a folder laid out as `huggingface_hub` does, searched when given.
    Raises MOD001 when the id is nowhere, MOD004 for a file of another kind, IO010..IO015 for one that cannot be read,
    and the codes of `read_config` and of `checked_model`.
    """
    found = _locate(name, cache, download=download)
    if found.described:
        return sharing(with_formats(read_description(found.config, found.name), weights, kv))
    return sharing(replace(read_config(found.config, found.name, weights=weights, kv=kv), source=found.source))


def read_arithmetic(name: str, *, cache: Path | None = None, download: bool = False) -> Arithmetic:
    """What the model called `name` computes with beside its shapes. Raises as `config_of`, and as `arithmetic_of`."""
    return arithmetic_of(config_of(name, cache=cache, download=download))


def config_of(name: str, *, cache: Path | None = None, download: bool = False) -> Mapping[str, Any]:
    """The config that `read_model` reads; of one with a `text_config`, that.

    Raises the codes of `read_model` for a name, MOD004 for a model without a config.
    """
    found = _locate(name, cache, download=download)
    if found.described:
        raise ModelError(4, f"{name} describes shapes alone", "give a config.json, or an id, to run it")
    inner = found.config.get("text_config")
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else found.config


def read_config(config: Mapping[str, Any], name: str, *, weights: str | None = None, kv: str | None = None) -> Model:
    """A `Model` from the fields of a `config.json`.

    weights: bf16, fp16 or fp32, to load the model in that format, KV cache included, instead of the stated ones; or a
    what-if format (fp8, int8, int4, mxfp4, nvfp4) for its matrices.   kv: a format of the cache instead of the stated.
    A config with a `text_config` is read as the text decoder inside; what stands beside it is named in `apart` and
    `notes`. Raises MOD002 (unknown `model_type`), MOD003 (none), MOD005..MOD013 (fields), MOD020..MOD023 (formats).
    """
    known = FAMILIES.names()
    inner = config.get("text_config")
    if inner is None or config.get("model_type") in known:
        return _read_decoder(config, name, known, weights, kv)
    if not isinstance(inner, dict):
        raise ModelError(6, f"text_config is {shown(inner)}", "give an object")
    text = _text_config(config, cast("dict[str, Any]", inner), known)
    return _name_the_rest(config, text, _read_decoder(text, name, known, weights, kv))


def _read_decoder(
    config: Mapping[str, Any], name: str, known: tuple[str, ...], weights: str | None, kv: str | None
) -> Model:
    family = config.get("model_type")
    if not isinstance(family, str):
        cause = "the config has no model_type" if family is None else f"model_type is {shown(family)}"
        raise ModelError(3, cause, f"add one of: {', '.join(known)}")
    family = family if family in known else family.replace("-", "_")  # a family is a file, its name an identifier
    if family not in known:
        cause = f"model_type {shown(family)} has no family file here (known: {', '.join(known)})"
        fix = "a file model/families/NAME.py, or an entry point `families.NAME` of group `meshwright`, makes it known"
        raise ModelError(2, cause, fix)
    chosen, note = _choose_weights(_choose_kv(config, kv), weights)
    fields = Fields(data=chosen, family=family, origin=f"transformers class default of {family}")
    model = cast("Model", FAMILIES.module(family).read(fields, name))
    model = replace(model, notes=(*model.notes, note)) if note else model
    return with_formats(model, None if weights in PLAIN else weights, kv)


def _choose_kv(config: Mapping[str, Any], kv: str | None) -> Mapping[str, Any]:
    """The config as if its quantization said nothing of the cache, when `kv` does."""
    if kv is None:
        return config
    stated = {key: cast("dict[str, Any]", config[key]) for key in SECTIONS if isinstance(config.get(key), dict)}
    return {**config, **{key: {**section, **dict.fromkeys(KV_FIELDS)} for key, section in stated.items()}}


def _choose_weights(config: Mapping[str, Any], weights: str | None) -> tuple[Mapping[str, Any], str]:
    """The config as if it were stored plain, in `weights` where that is plain, and a note when it says otherwise."""
    if weights is None:
        return config, ""
    check_weights(weights)
    settings = [cast("dict[str, object]", config[key]) for key in SECTIONS if isinstance(config.get(key), dict)]
    said = [config[key] for key in _DTYPES if config.get(key) is not None]
    stated: object = settings[0].get("quant_method") if settings else (*said, "bfloat16")[0]
    dtypes = dict.fromkeys(_DTYPES, weights) if weights in PLAIN else {}
    same = isinstance(stated, str) and weights in PLAIN and find_plain(stated) == PLAIN[weights]
    chosen = {**config, **dtypes, **dict.fromkeys(SECTIONS)}
    return chosen, "" if same else f"--weights {weights}: the config says {shown(stated)}"


def _text_config(config: Mapping[str, Any], inner: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """The fields of the text decoder: its own, then what may be said outside for it."""
    family = inner.get("model_type")
    if isinstance(family, str) and family not in known:
        family = family.removesuffix("_text")
    found = {**inner, "model_type": family}
    said_dtype = any(inner.get(key) is not None for key in _DTYPES)
    for key in ("tie_word_embeddings", *SECTIONS, *(() if said_dtype else _DTYPES)):
        if inner.get(key) is None and config.get(key) is not None:
            found[key] = config[key]
    return found


def _name_the_rest(config: Mapping[str, Any], text: Mapping[str, Any], model: Model) -> Model:
    """`model` with what its config holds beside the text decoder; a head that both tie differently gets a note."""
    apart, notes = list(model.apart), list(model.notes)
    if config.get("vision_config") is not None:
        apart.append(_vision(config, model.family))
    beside = [key for key, value in config.items() if key.endswith("_config") and isinstance(value, dict)]
    others = sorted(set(beside) - {"text_config", "vision_config", "generation_config", *SECTIONS})
    notes += [f"{key}: this part is neither counted nor placed" for key in others]
    outer = config.get("tie_word_embeddings")
    if outer is not None and outer != text.get("tie_word_embeddings"):
        notes.append(f"tie_word_embeddings is {shown(outer)} outside text_config: what text_config says is used")
    return replace(model, apart=tuple(apart), notes=tuple(notes))


def _vision(config: Mapping[str, Any], family: str) -> Apart:
    """The vision tower beside a text decoder, counted where the decoder's family knows its shapes."""
    count: Callable[[Fields], int] | None = getattr(FAMILIES.module(family), "vision_parameters", None)
    if count is None:
        note = "the vision tower is neither counted nor placed: only the text decoder is planned"
        return Apart(name="vision", parameters=None, note=note)
    tower = Fields(data=config, family=family, origin=f"transformers class default of {family}").section(
        "vision_config"
    )
    return Apart(name="vision", parameters=count(cast("Fields", tower)), note="the vision tower is not placed")


def _locate(name: str, cache: Path | None, *, download: bool) -> _Found:
    if not name or "\0" in name or len(name) > _LONGEST_NAME:
        raise ModelError(1, f"{shown(name)} is not the name of a model", "give a config.json or a hub id")
    path = Path(name)
    if _is_path(name, path):
        return _read_path(path)
    key = name.replace("/", "--")
    if key in CATALOG.names():
        return _read_entry(CATALOG.text(key), key, key=key, name=name)
    snapshot = _cached(name, cache)
    if snapshot is not None:
        return _read_file(snapshot, name)
    if download:
        return _read_file(_download(name, cache), name)
    close = nearest(name, [item.replace("--", "/") for item in CATALOG.names()])
    near = f"did you mean {', '.join(close)}? " if close else ""
    cause = f"{name!r} is no path, not in the catalog and not in the local hub cache"
    raise ModelError(1, cause, f"{near}give a config.json, or --download with the extra `hub`")


def _is_path(name: str, path: Path) -> bool:
    """Something that exists, or that can only be meant as a path."""
    try:
        exists = path.exists()
    except PermissionError:
        return True
    except OSError:  # a name that no file can have
        exists = False
    return exists or name.endswith((".json", ".toml")) or name.startswith((".", "/", "~"))


def _read_path(path: Path) -> _Found:
    if _answers(path.is_dir):
        path /= "config.json"
    label = path.parent.name if path.name == "config.json" else ""
    return _read_file(path, label or path.stem)


def _read_file(file: Path, name: str) -> _Found:
    if _answers(file.exists) and not _answers(file.is_file):  # a pipe or a device may never end
        raise ModelError(4, f"{file} is not a regular file", "give the config.json of a model")
    text = read_text(file)
    if file.suffix == ".toml":
        return _read_entry(text, str(file), key=file.stem, name=name)
    data = read_json(text, str(file))
    if not isinstance(data, dict):
        raise ModelError(4, f"{file} holds no JSON object", "give the config.json of a model")
    return _Found(config=cast("dict[str, Any]", data), name=name)


def _read_entry(text: str, place: str, *, key: str, name: str) -> _Found:
    """A catalog entry (a table `source` with title, place and date, and a table `config`), or a model's own fields."""
    entry = read_toml(text, place)
    source, config = entry.get("source"), entry.get("config")
    if "groups" in entry and "config" not in entry:
        told = {"source": {"key": key, **cast("dict[str, Any]", source)}} if isinstance(source, dict) else {}
        return _Found(config={**entry, **told}, name=name, described=True)
    if not isinstance(source, dict) or not isinstance(config, dict):
        fix = "give it a table [source] and a table [config], or the fields of a model, [[groups]] among them"
        raise ModelError(4, f"{place} is neither a catalog entry nor a model", fix)
    stated = {"key": key, **cast("dict[str, Any]", source)}
    return _Found(config=cast("dict[str, Any]", config), name=name, source=build(Source, stated, f"{place}: source"))


def _answers(question: Callable[[], bool]) -> bool:
    """The answer of a file system that may refuse to give one; `read_text` then says why."""
    try:
        return question()
    except OSError:
        return False


def _cached(name: str, cache: Path | None) -> Path | None:
    """The config of a hub id in a local cache: that of the branch `main`, or of the only snapshot there is."""
    if cache is None or _ID.fullmatch(name) is None:
        return None
    folder = cache / f"models--{name.replace('/', '--')}"
    if not _answers(folder.is_dir):
        return None
    pointer = folder / "refs" / "main"
    if _answers(pointer.is_file):
        found = folder / "snapshots" / read_text(pointer).strip() / "config.json"
        return found if _answers(found.is_file) else None
    snapshots = sorted(folder.glob("snapshots/*/config.json"))
    if len(snapshots) > 1:
        cause = f"{name}: the local hub cache has {len(snapshots)} snapshots and no branch main"
        raise ModelError(1, cause, f"give the path of one, as {snapshots[0]}")
    return snapshots[0] if snapshots else None


def _download(name: str, cache: Path | None) -> Path:
    if find_spec("huggingface_hub") is None:
        raise ModelError(1, f"--download {name}: huggingface_hub is not installed", "pip install 'meshwright[hub]'")
    hub: Any = import_module("huggingface_hub")
    try:
        return Path(cast("str", hub.hf_hub_download(repo_id=name, filename="config.json", cache_dir=cache)))
    except Exception as problem:  # the hub's errors are many; each means that the id cannot be had
        raise ModelError(1, f"--download {name}: {problem}", "check the id and the network") from problem
