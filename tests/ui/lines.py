"""Nothing goes in; a command line of every verb, a yes and a no among them, comes out by its name."""

from __future__ import annotations

_SAVES = ("checkpoint", "timeline", "--size", "112GB", "--write", "7GB/s", "--copy", "0.5s")
_PLAN = ("plan", "serve", "Qwen/Qwen3-32B", "--on", "hgx-h100", "--sessions", "4", "--context", "131064")
_EIGHT = (*_PLAN, "--new-tokens", "8", "--on-time", "75%", "--all-reduce", "ring")
_SMALL = ("plan", "serve", "tiny-qwen3", "--on", "hgx-h100", "--sessions", "2", "--context", "1K", "--new-tokens", "8")
_BOXES = ("plan", "serve", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100 x2", "--sessions", "2", "--context", "8K")
_HUGE = ("plan", "serve", "meta-llama/Llama-3.1-405B", "--on", "rtx4090-host", "--sessions", "1", "--context", "1K")
LINES = {
    "inspect": ("inspect", "Qwen/Qwen3-32B"),
    "inspect, mixture in FP8": ("inspect", "Qwen/Qwen3-30B-A3B-FP8", "--batch", "4", "--context", "8K"),
    "fit": ("fit", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100", "--tp", "8", "--context", "8192"),
    "fit, no": ("fit", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100"),
    "plan": _SMALL,
    "plan, deadline": (*_EIGHT, "--deadline", "130ms"),
    "plan, curve and fault": (*_EIGHT, "--deadline", "100ms..170ms", "--fault", "card=0,at=20ms,stall=40ms"),
    "plan, late": (*_EIGHT, "--deadline", "1ms"),
    "plan, too large": (*_HUGE, "--new-tokens", "8"),
    "plan, mixture": (*_BOXES, "--new-tokens", "8", "--flips", "none"),
    "saves": (*_SAVES, "--captures", "20s,40s", "--fail", "50s"),
    "saves, no": (*_SAVES, "--every", "10s", "--count", "6", "--staging", "2", "--when-full", "drop"),
    "list models": ("list", "models"),
    "list systems": ("list", "systems"),
    "list accelerators": ("list", "accelerators"),
    "list links": ("list", "links"),
    "list collectives": ("list", "collectives"),
    "study list": ("study", "list"),
    "study run, rows": ("study", "run", "tp-scaling"),
    "study run, fields": ("study", "run", "decode-phase"),
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
    "study run, number": ("study", "run", "row-bytes"),
}
