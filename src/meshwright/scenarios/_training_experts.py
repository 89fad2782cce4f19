"""How tokens choose experts in a training plan goes in; what that does to the shown layout, checked, comes out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.base.traced import held
from meshwright.job.expert_load import RoutedReads, no_experts
from meshwright.job.routing import checked_reads_of
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.scenarios._experts_options import expert_layers
from meshwright.workload.expert_rows import EVEN, SAID_OF_EVEN, dropped_rows, loads_of

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.base.result import Candidate
    from meshwright.job.train import TrainJob
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.workload.expert_rows import Loads


def checked_rows(model: Model, options: TrainOptions) -> TrainOptions:
    """The options with a routing that can be that of the model's layers. Raises JOB007, JOB123."""
    if options.experts == EVEN:
        return options
    layers = expert_layers(model)
    if not layers:
        asked = "capacity-factor" if options.routing == "even" else "routing"
        raise no_experts(model.name, f"leave --{asked} out")
    if not isinstance(options.routing, RoutedReads):
        return options
    sizes = {layer: (int(held(item.experts)), int(held(item.top_k))) for layer, (_, item) in layers.items()}
    return replace(options, routing=checked_reads_of(options.routing, sizes, "--routing"))


def left_out_of_rows(options: TrainOptions, told: tuple[str, ...]) -> tuple[str, ...]:
    """What is not modelled, without what is said of even rows where the plan has others."""
    return told if options.experts == EVEN else tuple(text for text in told if not text.startswith(SAID_OF_EVEN))


def experts_told(model: Model, job: TrainJob, options: TrainOptions, shown: Candidate) -> dict[str, Any] | None:
    """Rows of the shown layout's experts, expected of one micro-batch; None where they are even and none is dropped.

    tokens, choices: of the ranks that share a copy of the experts.   busiest_over_even, run_over_even: what the busiest
    rank is sent and what it runs, over an even share.   dropped_rows, padding_rows: of a layer.   All but the first two
    are means over the layers with experts.
    """
    loads = loads_of(model, options.experts)
    if not loads.kinds:
        return None
    layout = Layout(**shown.layout)
    layouts = table([layout])
    rows = np.array([layout.micro_batch * int(held(job.sequence)) // layout.cp])
    tokens = int(rows[0]) * layout.ep * layout.etp // layout.tp
    found = [_of_kind(loads, kind, layouts, rows, tokens, dealt=options.routing == "even") for kind in loads.kinds]
    layers = [int(held(model.kind_counts[kind])) for kind in loads.kinds]
    mean = {name: float(np.average([item[name] for item in found], weights=layers)) for name in found[0]}
    choices, first = tokens * next(iter(loads.kinds.values())).top_k, next(iter(loads.kinds))
    return {
        "tokens": tokens,
        "choices": choices,
        "busiest_over_even": mean["sent"],
        "run_over_even": mean["run"],
        "capacity_rows": None if loads.factor is None else int(loads.capacity(first, layouts, rows)[0]),
        "dropped_rows": mean["dropped"],
        "dropped_fraction": mean["dropped"] / choices,
        "padding_rows": mean["padding"],
        "padding_fraction": mean["padding"] / max(1.0, choices - mean["dropped"] + mean["padding"]),
    }


def _of_kind(loads: Loads, kind: int, layouts: Layouts, rows: Ints, tokens: int, *, dealt: bool) -> dict[str, float]:
    """Numbers of a layer, the mean over those of the kind."""
    own = loads.kinds[kind]
    even = np.array([tokens * own.top_k / int(layouts.degree("ep")[0])])
    capacity = None if loads.factor is None else int(loads.capacity(kind, layouts, rows)[0])
    likely = (None,) if dealt else tuple(own.likely)
    lost = [dropped_rows(item, own.experts, own.top_k, tokens, capacity) for item in likely]
    return {
        "sent": float(np.ravel(loads.sent(kind, layouts))[0]),
        "run": float(np.ravel(loads.run(kind, layouts, rows, even))[0] / even[0]),
        "dropped": float(np.mean([item.dropped for item in lost])),
        "padding": float(np.mean([item.padding for item in lost])),
    }
