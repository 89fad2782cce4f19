"""Nothing goes in; a command line of every verb, a yes and a no among them, comes out by its name.

Lines that read saved answers name them as `Saved`; `arguments` gives every line as it is typed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.ui.program import ROOT, answers_folder, drawn


@dataclass(frozen=True, slots=True)
class Saved:
    """The file with the JSON answer of the line of that name."""

    name: str


def arguments(name: str) -> tuple[str, ...]:
    """A line of `LINES` as it is typed."""
    return typed(LINES[name])


def typed(line: tuple[str | Saved, ...]) -> tuple[str, ...]:
    """A line with its saved answers as files."""
    return tuple(str(saved(item.name)) if isinstance(item, Saved) else item for item in line)


@cache
def saved(name: str) -> Path:
    """A line's answer, asked once a run."""
    file = answers_folder() / f"{re.sub(r'[^a-z]+', '-', name)}.json"
    if not file.is_file():
        found = drawn(*arguments(name), form=("--format", "json", "-q", "-o", str(file)))
        assert found.code in {0, 1}, found.err
    return file


_SAVES = ("checkpoint", "timeline", "--size", "112GB", "--write", "7GB/s", "--copy", "0.5s")
_OFTEN = ("checkpoint", "interval", "--write", "7GB/s", "--restart", "120s", "--devices", "1024")
_PLAN = ("plan", "serve", "Qwen/Qwen3-32B", "--on", "hgx-h100", "--sessions", "4", "--context", "131064")
_EIGHT = (*_PLAN, "--new-tokens", "8", "--on-time", "75%", "--all-reduce", "ring")
_SMALL = ("plan", "serve", "tiny-qwen3", "--on", "hgx-h100", "--sessions", "2", "--context", "1K", "--new-tokens", "8")
_BOXES = ("plan", "serve", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100 x2", "--sessions", "2", "--context", "8K")
_HUGE = ("plan", "serve", "meta-llama/Llama-3.1-405B", "--on", "rtx4090-host", "--sessions", "1", "--context", "1K")
_BATCHES = (*_SMALL[:5], "--sessions", "64", "--context", "1K", "--new-tokens", "64")
_TIMES = ("--forward", "10ms", "--backward", "20ms", "--send", "1ms", "--update", "1ms", "--layers", "36")
_SAVED = ("--saved", "229.7549MiB", "--saved-head", "76.1880MiB", "--forward-message", "1MiB")
_STEP = ("schedule", "--stages", "4", "--micro-batches", "8", *_TIMES, *_SAVED, "--backward-message", "2MiB")
_BUFFERS = ("--set", "buffers=activations 0ms..20ms,gather 15ms..25ms,bucket@1 20ms..", "--set", "resident=18GiB,9GiB")
_TRAIN = ("plan", "train", "Qwen/Qwen3-8B", "--tokens", "100B", "--sequence", "8K", "--global-batch", "384")
_CARDS = (
    *(
        "--deadline",
        "30d",
        "--reserve",
        "5d",
        "--efficiency",
        "40%",
        "--input-wait",
        "0.5s",
        "--usable-memory",
        "22GiB",
    ),
    *("--activation-budget", "10GiB", "--card-mtbf", "337.07d", "--storage-write", "7GB/s"),
    *("--layout", "zero=3,micro_batch=1,tp=1,cp=1,pp=1,dp_replicate=1"),
)
_MIXTURE = (*_TRAIN[:2], "Qwen/Qwen3-235B-A22B", *_TRAIN[3:])
_TIME = ("collective", "time", "all_reduce", "--bytes", "10KiB", "--on", "hgx-h100")
_EXPERTS = ("--layout", "tp=2,dp_replicate=4,ep=4,etp=2,attention=replicated")
_RUN = ("run", "train", "--model", "tiny-qwen3", "--steps", "2", "--global-batch", "2", "--sequence", "8")
_HALF = ("verify", "parity", "--layout", "tp=2", "--steps", "1", "--global-batch", "2", "--numbers", "bf16")
_LOG = str(ROOT / "tests" / "ui" / "data" / "all_reduce-8-h100.txt")
_SLOW_LOG = str(ROOT / "tests" / "ui" / "data" / "all_reduce-16-h100-one-nic.txt")
LINES: dict[str, tuple[str | Saved, ...]] = {
    "inspect": ("inspect", "Qwen/Qwen3-32B"),
    "inspect, training": ("inspect", "Qwen/Qwen3-30B-A3B", "--sequence", "8K"),
    "inspect, mixture in FP8": ("inspect", "Qwen/Qwen3-30B-A3B-FP8", "--batch", "4", "--context", "8K"),
    "fit": ("fit", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100", "--tp", "8", "--context", "8192"),
    "fit, no": ("fit", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100"),
    "fit, computed": ("fit", "Qwen/Qwen3-8B", "--on", "hgx-h100", "--context", "8K", "--workspace", "computed"),
    "fit, engine": ("fit", "Qwen/Qwen3-8B", "--on", "l40s-host", "--context", "8K", "--engine", "vllm"),
    "fit, engine without a rule": ("fit", "Qwen/Qwen3.5-9B", "--on", "hgx-h100", "--engine", "vllm"),
    "fit, engine as its log says": (
        *("fit", "openai/gpt-oss-20b", "--on", "hgx-h100", "--engine", "vllm", "--kv-cache-memory", "5.38GiB"),
        *("--engine-weights", "13GB", "--engine-reserve", "2GiB", "--gpu-memory-utilization", "0.95"),
    ),
    "fit, refused": ("fit", "Qwen/Qwen3-30B-A3B-FP8", "--on", "hgx-h100", "--tp", "4", "--engine", "sglang"),
    "plan": _SMALL,
    "plan, engine": (*_SMALL, "--engine", "tensorrt-llm"),
    "plan, engine's pool": (*_SMALL, "--engine", "vllm", "--kv-blocks", "4000", "--block-size", "32"),
    "plan, context": (*_SMALL, "--cp", "1,2", "--flips", "none"),
    "plan, deadline": (*_EIGHT, "--deadline", "130ms"),
    "plan, curve and fault": (*_EIGHT, "--deadline", "100ms..170ms", "--fault", "card=0,at=20ms,stall=40ms"),
    "plan, late": (*_EIGHT, "--deadline", "1ms"),
    "plan, too large": (*_HUGE, "--new-tokens", "8"),
    "plan, mixture": (*_BOXES, "--new-tokens", "8", "--flips", "none"),
    "plan, computed": (*_SMALL, "--workspace", "computed"),
    "plan, continuous": (*_BATCHES, "--tpot", "30ms", "--ttft", "1s", "--workspace", "computed"),
    "plan, continuous, late": (*_BATCHES, "--tpot", "1us"),
    "plan, continuous, too large": (*_HUGE, "--new-tokens", "8", "--concurrency", "1"),
    "plan, continuous, mixture": (*_BOXES, "--new-tokens", "8", "--flips", "none", "--discipline", "continuous"),
    "plan, continuous, copies": (
        *("plan", "serve", "tiny-qwen3-moe", "--on", "hgx-h100", "--sessions", "16", "--context", "1K"),
        *(
            "--new-tokens",
            "8",
            "--tpot",
            "30ms",
            "--attention",
            "data_parallel",
            "--expert-reads",
            "zipf:1",
            "--dedup",
            "node",
        ),
    ),
    "train": (*_TRAIN, "--on", "rtx4090-host x6", *_CARDS),
    "train, late": (*_TRAIN, "--on", "rtx4090-host x4", *_CARDS),
    "train, systems": (*_TRAIN, "--on", "rtx4090-host x4,rtx4090-host x6", *_CARDS, "--price", "0.5"),
    "train, roofline": (*_TRAIN, "--on", "hgx-h100", "--layout", "tp=2,cp=1,dp_replicate=1", "--straggler-sigma", "1%"),
    "train, engine": (*_TRAIN, "--on", "rtx4090-host x6", *_CARDS, "--engine", "torchtitan"),
    "train, routed": (
        *("plan", "train", "tiny-qwen3-moe", "--on", "hgx-h100", "--tokens", "10M", "--sequence", "1K"),
        *("--global-batch", "64", "--routing", "zipf:0.5", "--capacity-factor", "1.25", "--runs", "0"),
    ),
    "train, too large": (*_MIXTURE, "--on", "hgx-h100", "--layout", "tp=8,cp=1,zero=3"),
    "explain": ("explain", Saved("plan, deadline"), "best.step_time_s"),
    "explain, bytes": ("explain", Saved("plan, continuous"), "best.memory.per_rank_bytes", "--depth", "9"),
    "explain, front": ("explain", Saved("plan, continuous"), "pareto[0].tokens_per_s_per_user"),
    "explain, copies": ("explain", Saved("plan, continuous, copies"), "best.exchange_time_s"),
    "explain, engine": ("explain", Saved("fit, engine"), "memory.engine.kv_tokens"),
    "explain, count": ("explain", Saved("inspect"), "parameters.total"),
    "compare": ("compare", Saved("plan, deadline"), Saved("plan, late")),
    "compare, disciplines": ("compare", Saved("plan"), Saved("plan, continuous")),
    "schedule": _STEP,
    "schedule, limit": (*_STEP, "--memory-limit", "1GB"),
    "schedule, too small a limit": (*_STEP, "--memory-limit", "1MB"),
    "schedule, odd": ("schedule", "--stages", "3", "--micro-batches", "4", "--forward", "1ms", "--backward", "2ms"),
    "collective time": _TIME,
    "collective time, flows on a torus": (
        *_TIME[:2],
        "all_to_all",
        "--bytes",
        "1MiB",
        "--on",
        "torus:3x3",
        "--depth",
        "flows",
    ),
    "collective time, a layout": (*_TIME[:6], "hgx-h100 x2", *_EXPERTS, "--ports", "--algorithm", "ring,tree"),
    "collective time, none": (*_TIME, "--ranks", "6", "--algorithm", "tree,swing"),
    "list schedules": ("list", "schedules"),
    "topology": ("topology", "torus:4x4x2"),
    "topology, load": ("topology", "leaf-spine:2,down=4,up=2", "--load", "all_to_all", "--bytes", "32MiB"),
    "topology, system": (
        *("topology", "hgx-h100 x2", "--load", "all_reduce", "--algorithm", "ring", "--bytes", "10KiB"),
    ),
    "list topologies": ("list", "topologies"),
    "saves": (*_SAVES, "--captures", "20s,40s", "--fail", "50s"),
    "saves, no": (*_SAVES, "--every", "10s", "--count", "6", "--staging", "2", "--when-full", "drop"),
    "interval": (*_OFTEN, "--size", "114670295040B", "--job-mtbf", "7.9h"),
    "interval, model": (
        *(*_OFTEN, "--model", "Qwen/Qwen3-8B", "--card-mtbf", "337d", "--common-mode-mtbf", "60d,90d"),
        *("--spike-interval", "7d", "--mode", "async", "--copy", "2s", "--recovery", "exposed", "--reserve", "5d"),
    ),
    "interval, no": (*_OFTEN, "--size", "112GB", "--job-mtbf", "30s", "--intervals", "16s,60s", "--runs", "0"),
    "explain, interval": ("explain", Saved("interval, model"), "intervals[id=best].retry_overhead_fraction"),
    "experts": ("experts", "Qwen/Qwen3-30B-A3B", "--on", "hgx-h100", "--tokens", "64", "--ep", "8"),
    "experts, capacity": (
        *("experts", "Qwen/Qwen3-30B-A3B", "--on", "hgx-h100 x2", "--tokens", "128", "--ep", "8", "--etp", "2"),
        *(
            "--routing",
            "zipf:1",
            "--replicas",
            "8",
            "--capacity-factor",
            "1.25",
            "--dispatch",
            "fp8",
            "--dedup",
            "node",
        ),
    ),
    "experts, replicated": (
        *("experts", "Qwen/Qwen3-30B-A3B", "--on", "hgx-h100", "--tokens", "1", "--ep", "4", "--etp", "2"),
        *("--attention", "replicated", "--combine", "fp32"),
    ),
    "explain, experts": ("explain", Saved("experts"), "layers[0].weight_bytes"),
    "rack": ("rack", "--on", "dgx-h100", "--power", "120kW", "--devices", "64,72", "--distance", "30m"),
    "rack, no": (
        "rack",
        "--on",
        "hgx-b200",
        "--power",
        "60kW",
        "--grouped",
        "4",
        "--cooling",
        "liquid",
        "--boxes",
        "5",
    ),
    "rack, priced": (
        *("rack", "--on", "rtx4090-host", "--power", "1MW", "--set", "system.node_power=6kW", "--fixed", "20kW"),
        *("--switch-power", "1kW", "--box-price", "30000", "--switch-price", "20000", "--air-limit", "5kW"),
    ),
    "pool": ("pool", "--demand", "100GB,60GB,40GB,40GB", "--node", "80GB"),
    "pool, read": (
        *("pool", "--demand", "100GB,70GB,40GB,70GB", "--node", "80GB,90GB,60GB,90GB", "--link", "connectx-7"),
        *("--window", "128", "--periods", "60s,1s,50ms"),
    ),
    "pool, no": ("pool", "--demand", "100GB,60GB", "--node", "70GB", "--path", "50GB/s"),
    "collective check": ("collective", "check", _LOG, "--on", "hgx-h100"),
    "collective check, no": ("collective", "check", _SLOW_LOG, "--on", "hgx-h100 x2"),
    "calibrate": ("calibrate", "local", "--quick", "--nproc", "2"),  # measured once, see conftest
    "run": (*_RUN, "--layout", "tp=2", "--peak-flops", "1e12"),
    "run, no": (*_RUN, "--lr", "1e30", "--clip", "1e30", "--steps", "3"),
    "parity": ("verify", "parity", "--layout", "tp=2,sp=true", "--steps", "1", "--global-batch", "2"),
    "parity, no": (*_HALF, "--allowed", "0"),
    "list models": ("list", "models"),
    "list systems": ("list", "systems"),
    "list accelerators": ("list", "accelerators"),
    "list links": ("list", "links"),
    "list collectives": ("list", "collectives"),
    "list engines": ("list", "engines"),
    "study list": ("study", "list"),
    "study run, rows": ("study", "run", "tp-scaling"),
    "study run, fields": ("study", "run", "decode-phase"),
    "study run, fields and rows": ("study", "run", "stragglers", "--set", "devices=8"),
    "study run, tables": ("study", "run", "scale"),
    "study run, steps": (
        "study",
        "run",
        "supernode-choice",
        "--step",
        "fault",
        "--step",
        "scaling",
        "--step",
        "throughput",
    ),
    "study run, table": ("study", "run", "memory-peak", "--set", "sizes.bucket=1GiB", *_BUFFERS),
    "study run, number": ("study", "run", "row-bytes"),
}
