"""The kept table of measured exchanges goes in; rows with their family and link come out, or the reason to drop them.

A family is read off what the source says of how the exchange was done and timed; nothing is read off the times.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple

from tests.measured.ask import DATA

MIB: Final = 2**20
DROPPED: Final = {
    "no_time": "the source states a bandwidth and no time",
    "gpu_unstated": "the source does not name the GPU",
    "nic_unstated": "ranks on two boxes, and the source does not name the NIC, nor how many there are",
    "one_payload": "dispatch and combine of experts, one payload that was computed, not stated: no size varies, and it "
    "is no all_to_all of equal blocks",
    "rounded": "time derived from a bandwidth printed with two digits, which the source calls unreliable below 1 MiB",
    "copy": "the same time of the same exchange twice in one source",
    "too_few": "a group of fewer than three rows, from which no line can be told",
}
OPERATIONS: Final = {"alltoall": "all_to_all", "p2p_sendrecv": "send_recv"}
ACCELERATORS: Final = {
    "A100-SXM-80GB": "a100-80gb-sxm",
    "A100-PCIe/SXM pairwise": "a100-pcie",
    "H100-SXM-80GB": "h100-sxm",
    "H100-NVL pairwise": "h100-nvl",
    "H200-SXM": "h200-sxm",
    "B200-SXM": "b200-sxm",
    "B300-SXM": "b300-sxm",
    "GB200": "gb200",
    "L40S": "l40s",
    "RTX PRO 6000 Blackwell Server": "rtx-pro-6000-server",
    "MI300X": "mi300x",
}
LINKS: Final = {
    "NVLink3/NVSwitch": "nvlink3",
    "NVLink4/NVSwitch": "nvlink4",
    "NVLink5/NVSwitch": "nvlink5",
    "NVLink5": "nvlink5",
    "NVLink5 NVL72": "nvlink5",
    "Infinity Fabric": "infinity-fabric-mi300x",
    "PCIe4 x16 (no NVLink)": "pcie-gen4-x16",
    "PCIe5 x16 (no NVLink)": "pcie-gen5-x16",
}
BRIDGES: Final = {
    "NVLink3 bridge pairs (4-GPU node)": ("nvlink3-bridge", "pcie-gen4-x16"),
    "NVLink4 bridge pairs (4-GPU node)": ("nvlink4-bridge", "pcie-gen5-x16"),
}
"""Boxes of bridged pairs: two ranks have the bridge, more of them PCIe between the pairs."""
SWITCH_FROM: Final = {"h100-sxm": 5, "h200-sxm": 5, "b200-sxm": 6, "b300-sxm": 6}
"""Ranks from which NCCL, left to choose, reduces in the switch: rows stas-h200-nvls, stas-b200-nvls say so."""
SWITCH_BYTES: Final = 2 * MIB
"""And from which size: the note of rows stas-h200x8."""

TRTLLM_BYTES: Final = 8_000_000
"""What TensorRT-LLM's own kernels hold from three ranks on; a larger message goes to NCCL. Source: TensorRT-LLM,
customAllReduceUtils.h (getMaxRequiredWorkspaceSize); not opened: entered from general knowledge, to be checked."""


class Key(NamedTuple):
    """What a fit belongs to."""

    accelerator: str
    link: str
    operation: str
    family: str
    boxes: int

    @property
    def name(self) -> str:
        """Of its file."""
        boxes = "" if self.boxes == 1 else f"-{self.boxes}-boxes"
        return f"{self.accelerator}-{self.link}-{self.operation}-{self.family}{boxes}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured exchange. dropped: a code of DROPPED, or nothing."""

    id: str
    source: str
    key: Key
    ranks: int
    size: int
    seconds: float
    dropped: str = ""


@cache
def rows() -> tuple[Row, ...]:
    """Every row of the table, in its order."""
    with (DATA / "collectives.csv").open(encoding="utf-8", newline="") as lines:
        found = [_row(line) for line in csv.DictReader(lines)]
    seen: set[tuple[object, ...]] = set()
    for at, row in enumerate(found):
        same = (row.key, row.source, row.ranks, row.size, row.seconds)
        if not row.dropped and same in seen:
            found[at] = replace(row, dropped="copy")
        seen.add(same)
    kept = Counter(row.key for row in found if not row.dropped)
    return tuple(replace(row, dropped="too_few") if not row.dropped and kept[row.key] < 3 else row for row in found)


def groups() -> dict[Key, list[Row]]:
    """Kept rows by what a fit belongs to, in the order of names."""
    found: dict[Key, list[Row]] = {}
    for row in rows():
        if not row.dropped:
            found.setdefault(row.key, []).append(row)
    return dict(sorted(found.items()))


def _row(line: Mapping[str, str]) -> Row:
    size = int(float(line["bytes"] or 0))
    key = Key(
        accelerator=ACCELERATORS.get(line["gpu"], line["gpu"]),
        link=_link(line),
        operation=OPERATIONS.get(line["op"], line["op"]),
        family="",
        boxes=int(line["n_nodes"]),
    )
    return Row(
        id=line["id"],
        source=line["source"],
        key=key._replace(family=family(line, key, size)),
        ranks=int(line["n_ranks"]),
        size=size,
        seconds=float(line["time_us"] or 0) * 1e-6,
        dropped=_dropped(line, size),
    )


def _link(line: Mapping[str, str]) -> str:
    if line["inter_link_gbps_per_gpu"] and line["n_nodes"] != "1":
        return "unstated" if line["inter_link_gbps_per_gpu"] == "unstated" else "efa-400gbit"
    if line["intra_link"] in BRIDGES:
        return BRIDGES[line["intra_link"]][line["n_ranks"] != "2"]
    link = LINKS.get(line["intra_link"], line["intra_link"])
    far = (
        line["gpu"] == "L40S" and line["n_ranks"] == "8"
    )  # eight of them stand on two sockets, as the table's notes say
    return f"{link}-across-sockets" if far else link


def family(line: Mapping[str, str], key: Key, size: int) -> str:
    """Of a row, from its algorithm and notes."""
    how, ranks = line["algo"], int(line["n_ranks"])
    if "SHOT" in how:
        return "one_shot" if "ONESHOT" in how else "two_shot"
    if "symmetric" in how:
        return "symmetric"
    if engine := re.match(r"(vllm|trtllm) ", how):
        meshed = "PCIe" not in line["intra_link"] or ranks == 2  # without a mesh of peers both hand over to NCCL
        if meshed and (engine[1] == "vllm" or ranks == 2 or size <= TRTLLM_BYTES):
            return f"custom_{engine[1]}"
    torch = "cuda graph" in how.lower() or "torch" in line["notes"] or "time and algbw derived" in line["notes"]
    chosen = how != "Ring" and "NVLS_ENABLE=0" not in how and ranks >= SWITCH_FROM.get(key.accelerator, ranks + 1)
    free = key.operation == "all_reduce" and key.boxes == 1 and size >= SWITCH_BYTES
    if free and (how == "NVLS" or chosen):
        return "in_switch_framework" if torch else "in_switch"
    if "single process" in line["notes"]:
        return "nccl_one_process"
    return "framework" if torch else "nccl"


def _dropped(line: Mapping[str, str], size: int) -> str:
    if not line["time_us"]:
        return "no_time"
    if line["gpu"] not in ACCELERATORS and not line["op"].startswith("moe"):
        return "gpu_unstated"
    if line["inter_link_gbps_per_gpu"] == "unstated":
        return "nic_unstated"
    if line["op"].startswith("moe"):
        return "one_payload"
    return "rounded" if "2-digit rounding" in line["notes"] and size < MIB else ""
