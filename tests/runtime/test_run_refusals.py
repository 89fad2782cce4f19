"""What a real run can not do is a coded error with the nearest thing that runs, before any process starts."""

from __future__ import annotations

import json

import pytest

from meshwright.base.errors import RunError
from meshwright.model.reader import read_config
from meshwright.runtime.job import launcher_of
from tests.ui.program import meshwright

_RUN = ("run", "train", "--steps", "1", "--global-batch", "4", "--sequence", "8")
_TINY = (*_RUN, "--model", "tiny-qwen3")
_BAD = {
    "ranks": ((*_TINY, "--layout", "tp=2", "--nproc", "4"), "RUN003", "--layout dp_shard=2"),
    "model": ((*_RUN, "--model", "tiny-qwen3-moe"), "RUN004", "tiny-qwen3"),
    "family": ((*_RUN, "--model", "google/gemma-2-9b"), "RUN004", "llama, qwen2, qwen3"),
    "quantized": ((*_RUN, "--model", "openai/gpt-oss-20b"), "RUN004", "llama, qwen2, qwen3"),
    "cp": ((*_TINY, "--layout", "cp=2"), "RUN005", "leave cp at 1"),
    "replicas": ((*_TINY, "--layout", "replicas=2"), "RUN005", "leave replicas at 1"),
    "offload": ((*_TINY, "--layout", "offload=optimizer"), "RUN005", "leave offload at none"),
    "ep": ((*_TINY, "--layout", "ep=2"), "RUN005", "leave ep at 1"),
    "attention": ((*_TINY, "--layout", "attention=replicated"), "RUN005", "attention=data_parallel"),
    "zero": ((*_TINY, "--layout", "zero=1"), "RUN005", "zero=0"),
    "zero of copies": ((*_TINY, "--layout", "zero=1,dp_replicate=2"), "RUN005", "dp_shard=2,dp_replicate=1"),
    "rule": ((*_TINY, "--layout", "tp=3"), "LAY003", "tp=2"),
    "stages": ((*_TINY, "--layout", "pp=8"), "LAY010", "pp=4"),
    "empty": ((*_TINY, "--layout", "pp=4", "--schedule", "zero_bubble_v"), "RUN006", "pp=2"),
    "pieces": ((*_TINY, "--layout", "pp=2,virtual_stages=2"), "RUN006", "virtual_stages=1"),
    "micro-batches": ((*_TINY, "--layout", "dp_shard=3"), "RUN007", "--global-batch 3"),
    "schedule": ((*_TINY, "--layout", "pp=3", "--schedule", "interleaved"), "SCH001", "--micro-batches 3"),
    "no schedule": ((*_TINY, "--schedule", "gone"), "SCH003", ""),
    "two schedules": ((*_TINY, "--schedule", "fill_drain", "--layout", "schedule=interleaved"), "RUN012", "once"),
    "sequence": ((*_TINY, "--layout", "tp=4,sp=true", "--sequence", "10"), "RUN008", "--sequence 8"),
    "recipe": ((*_TINY, "--recipe", "bf16-adamw"), "RUN009", "fp32-adamw, fsdp2-adamw"),
    "no recipe": ((*_TINY, "--recipe", "gone"), "JOB040", ""),
    "steps": ((*_TINY, "--steps", "0"), "RUN012", "--steps from 1"),
    "lr": ((*_TINY, "--lr", "nan"), "RUN012", "--lr from 0"),
    "timeout": ((*_TINY, "--timeout", "0s"), "RUN012", "--timeout from 0.1"),
    "unit": ((*_TINY, "--timeout", "60"), "IO002", "60"),
}


@pytest.mark.parametrize("name", _BAD)
def test_bad_input_is_a_coded_error_with_a_fix(name, monkeypatch):
    line, code, fix = _BAD[name]
    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", None)  # nothing may start
    found = meshwright(*line)
    assert (found.code, found.out) == (2, "")
    message, told = found.err.splitlines()[-2:]
    assert message.startswith(f"error[{code}]: ")
    assert told.startswith("fix: ")
    assert fix in told


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("meshwright.cli.commands.run_train.find_spec", lambda _: None)
    found = meshwright(*_TINY)
    assert (found.code, found.out) == (2, "")
    assert found.err == (
        "error[RUN001]: a run needs the extra torch, and it is not installed\nfix: pip install 'meshwright[torch]'\n"
    )


def test_cuda_that_is_not_there_is_a_coded_error(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = meshwright(*_TINY, "--devices", "cuda")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(
        "error[RUN002]: --devices cuda, and torch finds no CUDA device here\nfix: --devices cpu"
    )


def test_a_launcher_that_started_another_number_of_processes_is_refused_once(monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    found = meshwright(*_TINY, "--layout", "tp=2", "--format", "json")
    assert (found.code, found.out) == (2, ""), "rank 0 alone writes on stdout"
    assert "error[RUN003]" in found.err
    monkeypatch.setenv("RANK", "0")
    found = meshwright(*_TINY, "--layout", "tp=2", "--format", "json")
    assert json.loads(found.out)["error"]["code"] == "RUN003"
    monkeypatch.setenv("WORLD_SIZE", "many")
    assert "error[RUN003]: WORLD_SIZE is 'many'" in meshwright(*_TINY).err


def test_a_rank_beyond_the_last_is_refused():
    said = {"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    with pytest.raises(RunError, match="RUN003"):
        launcher_of(said)
    assert launcher_of({**said, "RANK": "1"}).rank == 1


_LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96, "max_position_embeddings": 64,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"attention_bias": True}, "a bias on o_proj"),
        ({"mlp_bias": True}, "a bias in mlp"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}, "weights in fp8"),
        (
            {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0},
            "a window of attention",
        ),
    ],
)
def test_what_the_modules_do_not_compute_is_refused(change, cause):
    from meshwright.runtime.checks import check_class

    check_class(read_config(_LLAMA, "plain"))
    with pytest.raises(RunError) as caught:
        check_class(read_config(_LLAMA | change, "changed"))
    assert caught.value.code == "RUN004"
    assert cause in caught.value.cause


def test_a_rank_without_token_numbers_is_refused():
    from meshwright.layout.layout import Layout
    from meshwright.runtime.checks import check_sizes
    from meshwright.runtime.job import RunJob

    model = read_config(_LLAMA | {"vocab_size": 9}, "few tokens")
    check_sizes(model, Layout(tp=3), RunJob())
    with pytest.raises(RunError) as caught:
        check_sizes(model, Layout(tp=4), RunJob())  # three a rank: the fourth has none
    assert caught.value.code == "RUN008"
