"""A random generator goes in; a command line that someone mistyped comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from pathlib import Path

    Line = list[tuple[str, ...]]

# A line is its verb and then its pieces: ("MODEL",) or ("--option", "value") or ("--flag",).
_LINES: tuple[Line, ...] = (
    [("inspect",), ("Qwen/Qwen3-32B",)],
    [("inspect",), ("tiny-qwen3-moe",), ("--batch", "32"), ("--context", "32K"), ("--set", "model.hidden=128")],
    [("inspect",), ("Qwen/Qwen3-30B-A3B-FP8",), ("--weights", "bf16"), ("--set", "model.max_positions=4096")],
    [("fit",), ("Qwen/Qwen3-32B",), ("--on", "hgx-h100"), ("--tp", "4"), ("--context", "8K"), ("--sessions", "4")],
    [("fit",), ("Qwen/Qwen3-235B-A22B",), ("--on", "hgx-h100 x2"), ("--tp", "8"), ("--ep", "8"), ("--pp", "2")],
    [("fit",), ("tiny-qwen3",), ("--on", "SYSTEM.toml"), ("--tp", "2"), ("--workspace", "1GiB"), ("--context", "1K")],
    [
        ("plan", "serve"), ("tiny-qwen3",), ("--on", "hgx-h100"), ("--sessions", "4"), ("--context", "4K"),
        ("--new-tokens", "8"), ("--deadline", "130ms"), ("--on-time", "75%"), ("--all-reduce", "ring"),
    ],
    [
        ("plan", "serve"), ("Qwen/Qwen3-8B",), ("--on", "l40s-host"), ("--sessions", "2"), ("--context", "1000"),
        ("--new-tokens", "100"), ("--layout", "tp=2,pp=1"), ("--set", "system.scale_up.latency=1us"),
    ],
    [
        ("plan", "serve"), ("Qwen/Qwen3-30B-A3B",), ("--on", "SYSTEM.toml"), ("--sessions", "3"), ("--context", "2K"),
        ("--new-tokens", "64"), ("--weight-reads", "even"), ("--objective", "latency"), ("--workspace", "512MiB"),
    ],
    [
        ("plan", "serve"), ("tiny-qwen3-moe",), ("--on", "hgx-h100"), ("--sessions", "40"), ("--context", "1K"),
        ("--new-tokens", "64"), ("--tpot", "30ms"), ("--ttft", "1s"), ("--concurrency", "8"),
        ("--discipline", "continuous"), ("--expert-reads", "full"), ("--prefill", "between-steps"),
    ],
    [
        ("plan", "serve"), ("tiny-qwen3-moe",), ("--on", "hgx-h100"), ("--sessions", "9"), ("--context", "1K"),
        ("--new-tokens", "64"), ("--tpot", "30ms"), ("--attention", "any"), ("--expert-reads", "zipf:1.2"),
        ("--dedup", "node"), ("--dispatch", "fp8"), ("--layout", "dp_replicate=4,tp=1"),
    ],
    [
        ("plan", "serve"), ("tiny-qwen3",), ("--on", "SYSTEM.toml"), ("--sessions", "2"), ("--context", "1K"),
        ("--new-tokens", "8"), ("--cp", "1,2"), ("--cp-split", "striped"), ("--cp-exchange", "all-gather"),
    ],
    [
        ("fit",), ("Qwen/Qwen3-8B",), ("--on", "hgx-h100"), ("--workspace", "computed"), ("--max-batched-tokens", "2K"),
        ("--reserve", "comm_channels=8,sampled_rows=64"), ("--shards", "even"), ("--context", "4K"),
    ],
    [
        ("fit",), ("tiny-qwen3",), ("--on", "SYSTEM.toml"), ("--engine", "vllm"), ("--gpu-memory-utilization", "0.8"),
        ("--engine-reserve", "1GiB"), ("--block-size", "32"), ("--kv-blocks", "900"), ("--engine-weights", "2GB"),
        ("--kv-cache-memory", "4GiB"),
    ],
    [
        ("experts",), ("tiny-qwen3-moe",), ("--on", "SYSTEM.toml"), ("--tokens", "32"), ("--ep", "2"), ("--etp", "2"),
        ("--routing", "zipf:1.2"), ("--replicas", "2"), ("--capacity-factor", "1.25"), ("--dispatch", "fp8"),
        ("--attention", "replicated"), ("--placement", "round_robin"), ("--dedup", "node"), ("--tp", "2"),
    ],
    [
        ("rack",), ("--on", "dgx-h100"), ("--power", "150kW"), ("--fixed", "5kW"), ("--grouped", "4"),
        ("--devices", "64,72"), ("--switch-power", "1kW"), ("--air-limit", "40kW"), ("--distance", "30m"),
        ("--radix", "64"),
    ],
    [
        ("pool",), ("--demand", "100GB,60GB,40GB,40GB"), ("--node", "80GB"), ("--window", "128"), ("--item", "256B"),
        ("--latency", "7.52us"), ("--path", "50GB/s"), ("--periods", "60s,1s"), ("--reads", "10"), ("--data", "20GB"),
    ],
    [
        ("plan", "train"), ("tiny-qwen3",), ("--on", "SYSTEM.toml"), ("--tokens", "1B"), ("--sequence", "1K"),
        ("--global-batch", "8"), ("--deadline", "30d"), ("--reserve", "5d"), ("--efficiency", "40%"),
        ("--layout", "tp=1,pp=1"), ("--activation-budget", "1GiB"), ("--straggler-sigma", "1%"),
        ("--engine", "megatron-core"),
    ],
    [
        ("plan", "train"), ("tiny-qwen3-moe",), ("--on", "hgx-h100,hgx-h200"), ("--tokens", "2M"), ("--sequence", "2K"),
        ("--global-batch", "4"), ("--prep-workers", "4"), ("--prep-rate", "2"), ("--price", "2.5"), ("--keep", "3"),
        ("--objective", "cost"), ("--layout", "tp=1,cp=1"), ("--job-mtbf", "7.9h"), ("--storage-write", "7GB/s"),
        ("--restart", "120s"), ("--routing", "zipf:0.5"), ("--capacity-factor", "1.25"),
    ],
    [
        ("checkpoint", "interval"), ("--size", "112GB"), ("--write", "7GB/s"), ("--devices", "64"), ("--runs", "20"),
        ("--card-mtbf", "337d"), ("--restart", "120s"), ("--intervals", "300s,900s"), ("--copy", "1s"),
    ],
    [
        ("run", "train"), ("--model", "tiny-qwen3"), ("--layout", "tp=2"), ("--nproc", "3"), ("--steps", "1"),
        ("--global-batch", "2"), ("--sequence", "8"), ("--schedule", "one_f_one_b"), ("--timeout", "30s"),
        ("--lr", "1e-3"), ("--peak-flops", "1e12"), ("--recipe", "fp32-adamw"),
    ],  # three processes for two ranks: none starts unless a slip mends that
    [("list",), ("systems",)],
    [("study", "list")],
    [("study", "run"), ("decode-phase",), ("--set", "tp=4"), ("--set", "context=1K")],
    [("study", "run"), ("tp-scaling",), ("--set", "system.scale_up.latency=2us")],
)  # fmt: skip
_VALUES = (
    "", " ", "0", "-1", "1", "3", "7", "64", "1e3", "1e60", "1e61", "1e-60", "-0", "+5", "0x10", "1_000", "٣", "½",
    "∞", "nan", "inf", "-inf", "NaNms", "9" * 30, "9" * 150, "1" + "0" * 25, "1e400", "2147483648",
    "9223372036854775808", "130", "130 ms", "130ms", "130 MS", "0ms", "-130ms", "130m", "1e30s", "8K", "8k", "8KiB",
    "8M", "1.5K", "1.3K", "128K tokens", "2GiB", "2GB", "2 gib", "2Gbit", "2.5B", "1e40GiB", "0B", "75%", "0.75",
    "101%", "-5%", "%", "true", "null", "[]", "{}", '{"a": 1}', "[1,2]", "bf16", "fp8", "cost", "hgx-h100",
    "Qwen/Qwen3-32B", "tp=2", "a,b,,c", ",", "=", "a" * 5000, "../../etc/passwd", "/", ".", "~", "model.toml",
    "x\x00y", "\ud800", "💥", "--help", "-", "--", "strict", "auto", "measured", "ring", "tree", "fifo", "json",
    "human", "1e15", "1,000", "4 4",
)  # fmt: skip
_SYSTEMS = (
    "hgx-h200", "hgx-a100", "rtx4090-host", "hgx-b200", "hgx-h100 x3", "SYSTEM.toml", "SYSTEM.toml", "hgx-h100 x0",
    "hgx-h100x0", "hgx-h100 x999999999", "hgx-h100 x1", "hgx-h100x2", "hgx-h100 x 2", "hgx-h100 X2",
    "hgx-h100,hgx-h200", "hgx-h100,", ",", "", "x2", "hgx-h100 x2 x2", "hgx-h100 x-1", "hgx-h100 x1.5", "hgx-h10",
    "HGX-H100", "rtx4090-host x2", "l40s-host x4", "mi300x-8", "hgx-b200", "gone.toml", ".toml", "/", "hgx-h100\n",
    "h100-sxm", "hgx-h100 x٣", "hgx-h100 x" + "9" * 5000, "dgx-h100 x3",
)  # fmt: skip
_LAYOUTS = (
    "", ",", "tp", "tp=", "=4", "tp=0", "tp=-4", "tp=4", "tp=3", "tp=1e3", "tp=4.0", "tp=four", "tp=4,tp=8",
    "tp=4;pp=2", "tp = 4 , pp = 2", "tp=99999999999999999999", "pp=1000000", "ep=2", "etp=2", "tp=4,ep=2,etp=2",
    "ep=8,etp=1,tp=8", "cp=2", "dp_shard=2", "zero=3", "sp=true", "sp=maybe", "schedule=1f1b", "schedule=null",
    "attention=replicated", "attention=none", "recompute=full", "micro_batch=2", "replicas=2", "replicas=1000000",
    "replicas=8,tp=8", "TP=4", "world_size=8", "id=3", "tp=2,pp=3,replicas=1", "virtual_stages=2", "tp=8,pp=1",
    "tp=1000000,pp=1000000",
)  # fmt: skip
_PATHS = (
    "model", "model.", "model.hidden", "model.vocab", "model.tied", "model.groups", "model.groups.0.count",
    "model.name", "model.family", "model.norm", "model.max_positions", "model.rope", "model.rope.factor",
    "model.weights", "model.weights.bits", "model.weights.block", "model.weights.compute",
    "model.weights.scale_bytes", "model.kv.bits", "model.plain.bits", "model.plain", "model.apart",
    "model.defaulted", "model.source", "model.source.title", "model.notes", "model.layers", "system", "system.id",
    "system.name", "system.accelerator", "system.accelerator.memory", "system.accelerator.id",
    "system.accelerator.memory_bandwidth", "system.accelerator.peak", "system.accelerator.peak.bf16",
    "system.accelerator.peak.fp4", "system.accelerator.power", "system.nodes", "system.devices_per_node",
    "system.scale_up", "system.scale_up.bandwidth", "system.scale_up.latency", "system.scale_up.ports",
    "system.scale_up.port_bandwidth", "system.scale_up.facts", "system.scale_out", "system.scale_out.bandwidth",
    "system.scale_out.latency", "system.nics_per_node", "system.peer_to_peer", "system.node_power", "system.host",
    "system.host.cpus", "system.note", "system.facts", "job", "job.sessions", "job.context", "job.new_tokens",
    "job.deadline", "job.on_time", "job.discipline", "job.gone", "layout", "layout.tp", "layout.pp", "layout.ep",
    "layout.etp", "layout.cp", "layout.dp_shard", "layout.dp_replicate", "layout.replicas", "layout.zero",
    "layout.sp", "layout.schedule", "layout.attention", "layout.micro_batch", "layout.offload",
    "layout.virtual_stages", "run.x", "", ".", "..", "Model.hidden", "tp", "context", "degrees", "all_reduce",
    "system.scale_up.latency", "model.hidden", "rows", "weight_reads",
)  # fmt: skip
_PATH_VALUES = (
    "4", "1us", "1TB/s", "1GB/s", "80GB", "1PFLOP/s", "0", "-3", "2", "64", "true", "null", "fp32", "1e30", "1e59B",
    "1e59B/s", "1e-59s", "1e59s", "1e59FLOP/s", "0B/s", "0FLOP/s", "0s", "128,128", "[1,2]", '{"bf16": "1TFLOP/s"}',
    "{}", "[]", '"text"', "9" * 25,
)  # fmt: skip
_STUDIES = (
    "both-ways", "boundary-bytes", "cached-bytes", "collective-crossover", "collective-time", "compute-time",
    "concurrent-requests", "decode-phase", "exchanges-per-step", "expert-call", "kv-placement", "layer-bytes",
    "message-growth", "one-way", "port-bandwidth", "prefill-phase", "read-time", "replica-throughput", "row-bytes",
    "split-feed-forward", "throughput-ratio", "tp-scaling", "world-size", "gone", "", "../study", "Decode-Phase",
)  # fmt: skip
_INPUTS = (
    "one_way_bytes_per_s", "rows", "hidden", "element_bytes", "stage_ranks", "model", "tokens", "small", "large",
    "ranks", "latency_s", "bandwidth_bytes_per_s", "algorithm", "message_bytes", "work_flops", "rate_flops_per_s",
    "cards", "cards_per_instance", "system", "tp", "context", "weight_reads", "intermediate", "experts", "top_k",
    "more_rows", "ports", "port_bandwidth_bytes_per_s", "read_bytes", "rate_bytes_per_s", "speed_up", "rate",
    "degrees", "all_reduce", "memory_bandwidth_bytes_per_s", "both_ways_bytes_per_s",
)  # fmt: skip
_MODELS = (
    "Qwen/Qwen3-32B", "qwen/qwen3-32b", "Qwen/Qwen3-3B", "", " ", "/", ".", "..", "~", "~/x", "gone.json", "a/b/c",
    "a" * 5000, "tiny-qwen3", "tiny-qwen3-moe", "Qwen--Qwen3-32B", "mistralai/Mixtral-8x7B-v0.1",
    "meta-llama/Llama-2-7b-hf", "x\x00y", "\ud800", "config.json", "-", "http://localhost/x",
    "Qwen/Qwen3-30B-A3B-FP8",
)  # fmt: skip
# Values that an option takes, or nearly.
_SUITED = {
    "MODEL": _MODELS,
    "KIND": ("models", "systems", "accelerators", "links", "collectives", "Models", "engines", ""),
    "NAME": _STUDIES,
    "--on": _SYSTEMS,
    "--layout": _LAYOUTS,
    "--sessions": ("1", "2", "7", "64", "1000", "10000", "10001", "0"),
    "--context": ("0", "1", "1K", "1.5K", "128K", "131072", "2147483648", "2147483649", "1e15"),
    "--new-tokens": ("1", "0", "8K", "2147483648", "1e3", "1.5"),
    "--deadline": ("1ns", "1 us", "50ms", "2.5 s", "1h", "1e30s", "0s", "5e-50s"),
    "--on-time": ("0%", "1%", "33.3%", "0.5", "1", "100.1%"),
    "--tp": ("1", "2", "3", "4", "8", "16", "12", "64", "1000000", "1000001"),
    "--pp": ("1", "2", "3", "5", "8", "64", "65"),
    "--ep": ("1", "2", "4", "8", "3", "128"),
    "--all-reduce": ("auto", "measured", "ring", "tree", "nccl"),
    "--weight-reads": ("strict", "even", "odd"),
    "--workspace": ("0B", "1GB", "80GB", "1e18B", "1e19B", "1.5B", "2 GiB", "computed"),
    "--max-batched-tokens": ("0", "1", "8K", "1048576", "1048577"),
    "--reserve": (
        "",
        "comm_channels=0",
        "comm_buffer=1",
        "comm_buffer=1TiB",
        "sampled_rows=x",
        "gone=1",
        "page_tokens",
    ),
    "--shards": ("strict", "even", "odd"),
    "--engine": ("vllm", "sglang", "torchtitan", "vLLM", "gone"),
    "--gpu-memory-utilization": ("0", "0.9", "1", "90%", "1.1", "1e-30"),
    "--engine-reserve": ("0B", "80GB", "1e18B", "2"),
    "--engine-weights": ("0B", "80GB", "1e18B", "2"),
    "--kv-cache-memory": ("0B", "1B", "80GB", "1e18B", "2"),
    "--kv-blocks": ("0", "1", "378", "1000000000000", "1e3"),
    "--block-size": ("0", "1", "16", "1048576", "1048577"),
    "--objective": ("cost", "latency", "speed"),
    "--tpot": ("1ns", "30ms", "1e30s", "0s", "5e-50s"),
    "--ttft": ("1us", "2 s", "1h", "0s"),
    "--concurrency": ("1", "8", "40", "41", "0", "10000"),
    "--discipline": ("fifo", "continuous", "static"),
    "--expert-reads": (
        "expected",
        "full",
        "2",
        "3.5",
        "1",
        "inf",
        "gone.json",
        "uniform",
        "even",
        "zipf:0.5",
        "zipf:x",
        "counts:4x2,4x1",
        "gone.parquet",
    ),
    "--attention": ("replicated", "data_parallel", "any", "pool"),
    "--dedup": ("none", "rank", "node", "box"),
    "--dispatch": ("plain", "fp8", "bf16", "fp4"),
    "--routing": ("even", "uniform", "zipf:0.5", "zipf:1e9", "counts:8x1", "counts:9x1", "gone.parquet"),
    "--capacity-factor": ("1", "1.25", "0", "-1", "1e300", "nan"),
    "--prefill": ("cached", "between-steps", "between_steps"),
    "--cp": ("1", "2", "1,2,4", "0", "1000001", "1,,2", "2,2"),
    "--cp-split": ("zigzag", "contiguous", "striped", "even"),
    "--cp-exchange": ("ring", "all-gather", "ulysses", "all_gather"),
    "--weights": ("bf16", "fp16", "fp32", "fp8", "int4", "nvfp4", "q8_0", "q4_k_m"),
    "--kv": ("bf16", "fp8", "int8", "int4"),
    "--batch": ("1", "0", "64", "10000"),
    "--card-mtbf": ("0s", "1ns", "20s", "1h", "1e12s", "1e13s"),
    "--restart": ("0s", "1e-30s", "10h", "1e30s"),
    "--intervals": ("1s", "16s", "300s,300s", "1d", ",", "1e12s", "0s"),
    "--runs": ("0", "1", "1000000"),
    "--devices": ("0", "1", "100000", "99999999"),
}
_WORDS = (
    "inspect", "fit", "plan", "serve", "list", "study", "run", "models", "Plan", "train", "--version", "-h", "", "x",
)  # fmt: skip
_OPTIONS = (
    "--tp", "--pp", "--ep", "--on", "--sessions", "--context", "--new-tokens", "--deadline", "--on-time",
    "--tpot", "--ttft", "--concurrency", "--expert-reads", "--prefill", "--cp", "--cp-split", "--cp-exchange",
    "--discipline", "--all-reduce", "--weight-reads", "--workspace", "--reserve", "--shards",
    "--engine", "--objective", "--basis", "--layout", "--set",
    "--weights", "--kv", "--seed", "--batch", "--format", "-o", "--gone", "--TP", "---", "-x", "--set=", "--tp=2",
    "--context=4K", "-q",
)  # fmt: skip
_BOX = "name='x'\naccelerator='h100-sxm'\nnodes=1\ndevices_per_node=8\nscale_up='nvlink4'\n"
_LINK = _BOX.replace("scale_up='nvlink4'", "[scale_up]\nname='l'\nbandwidth='450 GB/s'\nlatency='1us'")
_CHIP = _BOX.replace("accelerator='h100-sxm'\n", "") + (
    "[accelerator]\nname='a'\nmemory='80 GB'\nmemory_bandwidth='3 TB/s'\n[accelerator.peak]\nbf16='1 PFLOP/s'\n"
)
# Systems of a user's own: the first few are right, then one fault in each.
_TOMLS = (
    _BOX,
    _LINK,
    _CHIP,
    _BOX.replace("nodes=1", "nodes=2") + "scale_out='connectx-7'\nnics_per_node=1\n",
    *(
        whole.replace(old, new)
        for whole, old, new in (
            (_BOX, "nodes=1", "nodes=2"),
            (_BOX, "nodes=1", "nodes=0"),
            (_BOX, "nodes=1", "nodes='many'"),
            (_BOX, "nodes=1\n", ""),
            (_BOX, "=8", "=-8"),
            (_BOX, "=8", "=8.5"),
            (_BOX, "=8", "=10000000"),
            (_BOX, "=8", "={value=8, source='gone'}"),
            (_BOX, "=8", "={value=8, basis='rumour'}"),
            (_BOX, "='x'", "=3"),
            (_BOX, "='x'", "=nan"),
            (_BOX, "h100-sxm", "gone"),
            (_BOX, "'h100-sxm'", "['h100-sxm']"),
            (_BOX, "'h100-sxm'", "inf"),
            (_BOX, "nvlink4", "gone"),
            (_BOX, "'nvlink4'", "[]"),
            (_BOX, "nvlink4'", "nvlink4'\nextra=1"),
            (_BOX, "nvlink4'", "nvlink4'\nsources=3"),
            (_BOX, "nvlink4'", "nvlink4'\nnode_power=1979-05-27"),
            (_BOX, "nvlink4'", "nvlink4'\nscale_out='connectx-7'"),
            (_LINK, "450 GB/s", "0 GB/s"),
            (_LINK, "450 GB/s", "450 GB"),
            (_LINK, "'450 GB/s'", "450"),
            (_LINK, "'450 GB/s'", "{value='900 GB/s', direction='both ways'}"),
            (_LINK, "'1us'", "1"),
            (_LINK, "'1us'", "'1us'\nports=-3\nport_bandwidth='25 GB/s'"),
            (_CHIP, "bf16='1 PFLOP/s'\n", ""),
            (_CHIP, "'1 PFLOP/s'", "1e15"),
            (_CHIP, "1 PFLOP/s", "1e59 FLOP/s"),
            (_CHIP, "80 GB", "1e50 B"),
            (_CHIP, "3 TB/s'", "3 TB/s'\npower='700 B'"),
        )
    ),
    "",
    "= 3",
    "\x00",
    "a = " + "[" * 500,
)


def mutated(dice: random.Random, folder: Path) -> list[str]:
    """A line after one or two slips; files that it names lie in `folder`."""
    line = [tuple(piece) for piece in dice.choice(_LINES)]
    for _ in range(dice.choice((1, 1, 1, 2))):
        line = [piece for piece in dice.choice(_SLIPS)(line, dice) if piece]
    line = [(*piece[:-1], _written(dice, folder)) if piece[-1] == "SYSTEM.toml" else piece for piece in line]
    if dice.random() < 0.08:
        line.append(("-o", dice.choice(_outputs(folder))))
    return [word for piece in line for word in piece]


def _written(dice: random.Random, folder: Path) -> str:
    file = folder / "SYSTEM.toml"
    file.write_text(dice.choice(_TOMLS), encoding="utf-8")
    return str(file)


def _outputs(folder: Path) -> tuple[str, ...]:
    bad = (str(folder), "", "/", f"{folder}/no/such/file", f"{folder}/\x00", f"{folder}/{'a' * 300}")
    return (*bad, str(folder / "answer"))


def _misspell(line: Line, dice: random.Random) -> Line:
    """Another value for an option or an argument, at times split from what it should be by a unit only."""
    places = [index for index, piece in enumerate(line) if index and len(piece) < 3]
    if not places:
        return line
    index = dice.choice(places)
    argument = {"list": "KIND", "study": "NAME"}.get(line[0][0], "MODEL")
    option = line[index][0] if len(line[index]) == 2 else argument
    value = dice.choice(_SUITED.get(option, _VALUES) if dice.random() < 0.75 else _VALUES)
    if option == "--set":
        value = f"{line[index][1].partition('=')[0]}={value}"
    return [*line[:index], (*line[index][:-1], value), *line[index + 1 :]]


def _set(line: Line, dice: random.Random) -> Line:
    """A field set otherwise: mostly one of a noun that the verb has."""
    if not _takes(line, ("inspect", "fit", "plan"), dice):
        return _misspell(line, dice)
    value = dice.choice(_PATH_VALUES if dice.random() < 0.7 else _VALUES)
    nouns = {"inspect": ("model.",), "fit": ("model.", "system.", "layout.")}.get(line[0][0] if line else "", ("",))
    fitting = [path for path in _PATHS if path.startswith(nouns)] if dice.random() < 0.85 else _PATHS
    path = dice.choice(fitting)
    return [*line, ("--set", f"{path}={value}" if dice.random() < 0.95 else path)]


def _study(line: Line, dice: random.Random) -> Line:
    """A study with inputs of its own, of another study, or of none."""
    sets = [f"{dice.choice(_INPUTS)}={dice.choice((*_PATH_VALUES, *_VALUES))}" for _ in range(dice.randrange(3))]
    return [("study", "run"), (dice.choice(_STUDIES),), *(("--set", text) for text in sets)]


def _study_input(line: Line, dice: random.Random) -> Line:
    """A study with one of its own inputs set otherwise."""
    from meshwright.sweep.study import read_study

    name = dice.choice(_STUDIES[:-4])
    key = dice.choice(sorted(read_study(name).inputs))
    return [("study", "run"), (name,), ("--set", f"{key}={dice.choice((*_PATH_VALUES, *_VALUES))}")]


def _layout(line: Line, dice: random.Random) -> Line:
    if not _takes(line, ("fit", "plan"), dice):
        return _misspell(line, dice)
    return [*line, ("--layout", dice.choice(_LAYOUTS))]


def _takes(line: Line, verbs: tuple[str, ...], dice: random.Random) -> bool:
    """Whether the verb is one of `verbs`; every so often it does not matter."""
    return bool(line) and (line[0][0] in verbs or dice.random() < 0.05)


def _leave_out(line: Line, dice: random.Random) -> Line:
    index = dice.randrange(len(line))
    return line[:index] + line[index + 1 :]


def _repeat(line: Line, dice: random.Random) -> Line:
    return [*line, dice.choice(line)]


def _add(line: Line, dice: random.Random) -> Line:
    return [*line, (dice.choice(_OPTIONS), dice.choice(_VALUES)) if dice.random() < 0.7 else (dice.choice(_OPTIONS),)]


def _cut(line: Line, dice: random.Random) -> Line:
    """An option without its value."""
    index = dice.randrange(len(line))
    return [*line[:index], line[index][:-1], *line[index + 1 :]]


def _other_verb(line: Line, dice: random.Random) -> Line:
    return [(dice.choice(_WORDS),), *line[1:]] if dice.random() < 0.5 else [*dice.choice(_LINES)[:1], *line[1:]]


def _shuffle(line: Line, dice: random.Random) -> Line:
    return [*line[:1], *dice.sample(line[1:], len(line) - 1)]


_SLIPS = (
    *(_misspell,) * 14, *(_set,) * 8, *(_study_input,) * 4, _study, *(_layout,) * 4, _leave_out, _repeat, _add, _cut,
    _other_verb, _shuffle,
)  # fmt: skip
