"""A small config goes in; the bytes that `transformers` keeps from forward to backward in training come out."""

from __future__ import annotations

import warnings
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, masking_utils
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from tests.oracle.transformers_models import config_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from transformers import PreTrainedModel

DTYPES: Final = {"fp32": torch.float32, "bf16": torch.bfloat16}


def kept_bytes(
    config: Mapping[str, Any], *, dtype: str, attention: str, recompute: str, samples: int, positions: int, fake: bool
) -> int:
    """Bytes of the storages that autograd keeps in a training forward pass with its loss, each once.

    Parameters, buffers and token numbers are left out. fake: tensors without contents; what a real run reads from
    contents (no padding, no packed sequences, so no mask where a kernel is causal by itself) is then told.
    """
    with FakeTensorMode() if fake else nullcontext(), no_packing() if fake else nullcontext():
        model = small_model(config, dtype=dtype, attention=attention)
        made_again(model, recompute)
        tokens = torch.randint(0, config["vocab_size"], (samples, positions))
        given = {storage(item) for item in (*model.parameters(), *model.buffers(), tokens)}
        found: dict[int, int] = {}
        held: list[torch.Tensor] = []

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            held.append(tensor)  # a storage that is freed may come again under the same address
            place = storage(tensor)
            if place not in given and place not in found:
                found[place] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            model(input_ids=tokens, labels=tokens, use_cache=False)
    return sum(found.values())


def small_model(config: Mapping[str, Any], *, dtype: str, attention: str) -> PreTrainedModel:
    """The model of a config, to be trained."""
    made = AutoModelForCausalLM.from_config(config_of(config), attn_implementation=attention, dtype=DTYPES[dtype])
    return made.train()


def made_again(model: Any, recompute: str) -> None:
    """`none`, or torch's checkpoint of whole blocks (`full`, `every_N`), or of eager attention (`attention`)."""
    if recompute == "none":
        return
    if recompute == "attention":
        name = f"{recompute}_of_{model.config.model_type}"
        whole = import_module(type(model).__module__).eager_attention_forward
        ALL_ATTENTION_FUNCTIONS.register(name, partial(checkpoint, whole, use_reentrant=False))
        ALL_MASK_ATTENTION_FUNCTIONS.register(name, ALL_MASK_ATTENTION_FUNCTIONS["eager"])
        model.set_attn_implementation(name)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    step = int(recompute.removeprefix("every_")) if recompute != "full" else 1
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    for number, layer in enumerate(layers, start=1):
        layer.gradient_checkpointing = number % step == 0


def storage(tensor: torch.Tensor) -> int:
    """What tells storages apart, as long as both live."""
    return tensor.untyped_storage()._cdata


@contextmanager
def no_packing() -> Iterator[None]:
    """Tell what a real run would find in the contents: one sequence a row, and that no graph is traced."""
    names = ("is_tracing", "find_packed_sequence_indices")
    before = {name: getattr(masking_utils, name) for name in names}
    masking_utils.is_tracing = lambda *_args, **_kwargs: False
    masking_utils.find_packed_sequence_indices = lambda *_args, **_kwargs: None
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(masking_utils, name, function)
