"""Which zero stages a search tries: those that share state, and without zero no shards that would share nothing."""

from __future__ import annotations

import pytest

from meshwright.job.train import TrainJob
from meshwright.model.reader import read_model
from meshwright.scenarios._training_space import chunks, training_space
from meshwright.system.system import read_system
from meshwright.workload.context_split import ContextPlan


@pytest.mark.parametrize(
    ("mesh", "stages"),
    [
        ({"dp_shard": 1, "cp": 1, "dp_replicate": 16}, {0}),
        ({"dp_shard": 1, "cp": 2, "dp_replicate": 8}, {0, 1, 2, 3}),
        ({"dp_shard": 8, "cp": 2, "dp_replicate": 1}, {1, 2, 3}),
        ({"dp_shard": 16, "cp": 1, "dp_replicate": 1}, {1, 2, 3}),
    ],
)
def test_zero_is_tried_where_dp_shard_or_cp_shares_state(mesh, stages):
    model, job = read_model("Qwen/Qwen3-8B"), TrainJob(tokens=10**6, sequence=1024, global_batch=16)
    rows = training_space(model, read_system("hgx-h100 x2"), job, {}, ContextPlan())
    found = set()
    for layouts in chunks(rows, model):
        for layout in layouts.rows():
            if all(getattr(layout, axis) == degree for axis, degree in mesh.items()):
                found.add(layout.zero)
    assert found == stages
