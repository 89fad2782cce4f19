"""A number of processes goes in; real runs of the probe over all of them come out: what waiting is taken from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.layout.layout import Layout
from meshwright.model.arithmetic import arithmetic_of
from meshwright.model.reader import read_config
from meshwright.runtime.loop.trainer import Batch
from meshwright.verify.local.cases import PROBE_SEQUENCE
from meshwright.verify.local.probes import CONFIG
from meshwright.verify.local.runs import RealRun

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAIR: Final = 2
_LAYERS: Final = 4
_MICRO_BATCHES: Final = 2


def probe_runs(processes: int, groups: Sequence[int]) -> tuple[RealRun, ...]:
    """Copies, shards, and tp with stages or shards, where groups of those sizes are measured."""
    rest = processes // _PAIR
    wanted: list[dict[str, Any]] = [
        {"dp_replicate": processes},
        {"dp_shard": processes, "zero": 2},
        {"dp_shard": processes, "zero": 3},
    ]
    if _PAIR in groups and processes == _PAIR:
        wanted += [{"tp": _PAIR}, {"pp": _PAIR}]
    elif processes % _PAIR == 0 and {_PAIR, rest} <= set(groups) and rest <= _LAYERS:
        wanted += [{"tp": _PAIR, "pp": rest}, {"tp": _PAIR, "dp_shard": rest, "zero": 3}]
    return tuple(_run(fields) for fields in wanted if max(fields.values()) in {*groups, 3})


def _run(fields: dict[str, Any]) -> RealRun:
    config = {**CONFIG, "num_hidden_layers": _LAYERS}
    layout = Layout(attention="data_parallel", **fields)
    copies = layout.dp_replicate * layout.dp_shard
    return RealRun(
        model=read_config(config, "probe"),
        arithmetic=arithmetic_of(config),
        layout=layout,
        batch=Batch(global_batch=copies * _MICRO_BATCHES, sequence=PROBE_SEQUENCE),
    )
