"""Fields of a layout that the user fixed go in; nothing comes out, or the error of two that contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.errors import LayoutError
from meshwright.workload.recomputing import read_recompute
from meshwright.workload.slots import Shape, read_schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.model.model import Model

_IN_CHUNKS: Final = "interleaved"
_LEAST_CHUNKS: Final = 2


def check_fixed(model: Model, fixed: Mapping[str, Any]) -> None:
    """Nothing, where some layout may have all of these fields.

    Raises LAY030 (recompute), SCH003 (schedule) for names that are not known, and LAY037 for a
    schedule, stages and virtual stages that do not go together.
    """
    read_recompute(fixed.get("recompute", "none"))
    name, stages, pieces = (fixed.get(key) for key in ("schedule", "pp", "virtual_stages"))
    if pieces is not None and pieces > 1 and name != _IN_CHUNKS:
        cause = f"virtual_stages={pieces}: schedule={name or 'one_f_one_b'} has its own number of them"
        raise LayoutError(37, cause, f"--layout schedule={_IN_CHUNKS},virtual_stages={pieces}")
    if name is not None:
        _check_schedule(model, name, stages, pieces)


def _check_schedule(model: Model, name: str, stages: int | None, pieces: int | None) -> None:
    """Whether the stages that the user fixed have a layer for each virtual stage of the schedule."""
    program = read_schedule(name)
    if stages is None:
        return
    if stages == 1:
        raise LayoutError(37, f"schedule={name}: pp=1 has no stages to schedule", "leave schedule out, or pp")
    own = pieces or (_LEAST_CHUNKS if name == _IN_CHUNKS else 1)
    shape = Shape(stages=stages, micro_batches=2 * stages, virtual_stages=own)
    if program.refusal(shape) is not None:  # of micro-batches or of odd stages: judged with the layout's own number
        return
    needed = program.placement(shape).shape[1]
    if needed > model.layers:
        nearest = max(1, model.layers * stages // needed)
        cause = f"schedule={name}: pp={stages} has {needed} virtual stages, more than {model.layers} layers"
        raise LayoutError(37, cause, f"give pp={nearest} or less" if own == 1 else "give fewer of pp or virtual_stages")
