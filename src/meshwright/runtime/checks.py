"""A model, a layout and a job go in; what a real run can not do of them is a coded error before a process starts.

Every check names the nearest thing that runs. Nothing here needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.base.errors import LayoutError, RunError
from meshwright.job.recipe import RECIPES, read_recipe
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.layout import Layout, fields_of
from meshwright.layout.layouts import table
from meshwright.layout.ownership import index_ranges
from meshwright.layout.rules import first_broken
from meshwright.model.feed_forwards import Dense
from meshwright.model.mixers import Attention
from meshwright.model.model import Ends, first_weights
from meshwright.runtime.job import checked_job, checked_options
from meshwright.workload.slots import Shape, checked_shape

if TYPE_CHECKING:
    from meshwright.job.recipe import Recipe
    from meshwright.model.model import Model
    from meshwright.runtime.job import Launcher, RunJob, RunOptions

FAMILIES: Final = ("llama", "qwen2", "qwen3")
_NOT_YET: Final = ("replicas", "cp", "ep", "etp", "offload")
_MOST_RANKS: Final = 4096


def check(model: Model, layout: Layout, job: RunJob, options: RunOptions, under: Launcher | None) -> Shape:
    """All that can be said before torch is loaded; the shape of the pipeline.

    Raises RUN003 (processes), RUN004 (model), RUN005 and the rules' codes (layout), RUN006 and SCH codes (schedule),
    RUN007 and RUN008 (sizes), RUN009 (recipe), RUN012 (numbers out of range).
    """
    checked_job(job)
    checked_options(options)
    check_class(model)
    recipe_of(job.recipe)
    check_layout(model, layout)
    check_processes(layout, options, under)
    shape = shape_of(layout, job)
    check_schedule(model, layout, shape)
    check_sizes(model, layout, job)
    return shape


def check_class(model: Model) -> None:
    """Raises RUN004 for a model that has no class here: only dense decoders of `FAMILIES` do."""
    for holds, cause in _foreign(model):
        if holds:
            families = ", ".join(FAMILIES)
            fix = f"a run knows dense models of {families}, as tiny-qwen3"
            raise RunError(4, f"{model.name}: {cause}, and no class here computes that", fix)


def _foreign(model: Model) -> tuple[tuple[bool, str], ...]:
    """What a model has that the modules of a run do not."""
    kinds = model.kinds
    mixers = [block.mixer for block in kinds if isinstance(block.mixer, Attention)]
    quantized = model.weights.name if model.weights != model.plain else ""
    return (
        (model.family not in FAMILIES, f"family {model.family}"),
        (any(not isinstance(block.feed_forward, Dense) for block in kinds), "experts"),
        (bool(quantized), f"weights in {quantized}"),
        (model.norm != "rms", f"norm {model.norm}"),
        (model.position_kind != "rotary", f"positions {model.position_kind}"),
        (model.ends != Ends(), "ends that other decoders have"),
        (len(kinds) > 1, "layers of several kinds"),
        (any(not isinstance(block.mixer, Attention) for block in kinds), "another mixer than attention"),
        (any(item.window is not None for item in mixers), "a window of attention"),
        (any(item.out_bias for item in mixers), "a bias on o_proj"),
        (any(item.output_gate or item.sinks for item in mixers), "gates or sinks in attention"),
        (any(item.qk_norm == "full" for item in mixers), "a norm over all heads"),
        (any(isinstance(item.feed_forward, Dense) and item.feed_forward.bias for item in kinds), "a bias in mlp"),
        (
            any(isinstance(item.feed_forward, Dense) and not item.feed_forward.gated for item in kinds),
            "a feed-forward without a gate",
        ),
    )


def check_layout(model: Model, layout: Layout) -> None:
    """Raises RUN005 for what no run does yet, and the code of the first rule that the layout breaks (LAY003...)."""
    plain = fields_of(Layout())
    for name in _NOT_YET:
        value = getattr(layout, name)
        if value != plain[name]:
            raise RunError(5, f"{name}={value}: a run does not do that yet", f"leave {name} at {plain[name]}")
    if layout.attention != "data_parallel":
        cause = "attention=replicated: copies of a training run see other samples"
        raise RunError(5, cause, "--layout attention=data_parallel, or leave it out")
    if layout.zero and layout.dp_shard == 1:
        cause = f"zero={layout.zero} with dp_shard=1: there is nobody to share state with"
        fix = f"dp_shard={layout.dp_replicate},dp_replicate=1" if layout.dp_replicate > 1 else "zero=0, or dp_shard=2"
        raise RunError(5, cause, f"--layout {fix}")
    if layout.world_size > _MOST_RANKS:
        raise RunError(5, f"{layout.world_size} ranks", f"give a layout of at most {_MOST_RANKS}")
    broken = first_broken(model, table([layout]), layout.world_size)[0]
    if broken is not None:
        fix = f"--layout {broken.nearest}" if broken.nearest else "choose another layout"
        raise LayoutError(int(broken.code[-3:]), broken.reason, fix)


def check_processes(layout: Layout, options: RunOptions, under: Launcher | None) -> None:
    """Raises RUN003 where the ranks of a layout are not the processes asked for, or those that a launcher started."""
    stated = (("--nproc", options.nproc), ("WORLD_SIZE of the launcher", None if under is None else under.ranks))
    for what, processes in stated:
        if processes is None or processes == layout.world_size:
            continue
        cause = f"--layout {layout.id} has {layout.world_size} ranks, and {what} is {processes}"
        fix = f"give {layout.world_size} processes"
        if processes % (layout.pp * layout.tp) == 0 and layout.dp_replicate == 1:
            fix += f", or --layout dp_shard={processes // (layout.pp * layout.tp)}"
        raise RunError(3, cause, fix)


def shape_of(layout: Layout, job: RunJob) -> Shape:
    """Of the pipeline of one copy. Raises RUN007 where samples do not come in equal micro-batches."""
    copies = layout.dp_replicate * layout.dp_shard
    size = copies * layout.micro_batch
    if job.global_batch % size:
        nearest = max(1, round(job.global_batch / size)) * size
        cause = f"--global-batch {job.global_batch}: no multiple of {copies} copies x micro_batch={layout.micro_batch}"
        raise RunError(7, cause, f"--global-batch {nearest}")
    return Shape(stages=layout.pp, micro_batches=job.global_batch // size, virtual_stages=layout.virtual_stages)


def check_schedule(model: Model, layout: Layout, shape: Shape) -> None:
    """Raises SCH001, SCH003, SCH004 where the schedule does not take the shape, RUN006 where a stage is left empty."""
    name = layout.schedule or ""
    program = checked_shape(name, shape)
    pieces = int(program.placement(shape).shape[1])
    if layout.virtual_stages not in {1, pieces // layout.pp}:
        own = pieces // layout.pp
        cause = f"virtual_stages={layout.virtual_stages}: {name} gives a rank {own} of one direction"
        raise RunError(6, cause, f"--layout virtual_stages={own}")
    if pieces > model.layers:
        cause = f"{name} cuts {model.layers} layers into {pieces} virtual stages, and one would be empty"
        least = max(1, model.layers // max(1, pieces // layout.pp))
        raise RunError(6, cause, f"--layout pp={least}")


def check_sizes(model: Model, layout: Layout, job: RunJob) -> None:
    """Raises RUN008 where tp can not cut positions (sp), or leaves a rank without token numbers."""
    if layout.sp and job.sequence % layout.tp:
        nearest = max(1, round(job.sequence / layout.tp)) * layout.tp
        cause = f"--sequence {job.sequence} is no multiple of tp={layout.tp}, which cuts positions under sp"
        raise RunError(8, cause, f"--sequence {nearest}")
    table_of_tokens = first_weights(model)[0]
    shares = [index_ranges(table_of_tokens, layout, rank, "gathered", PIPELINE_OUTSIDE)[0] for rank in range(layout.tp)]
    if not all(shares):
        cause = f"tp={layout.tp} leaves a rank without any of {model.vocab} token numbers"
        raise RunError(8, cause, f"--layout tp={max(1, layout.tp // 2)}")


def recipe_of(name: str) -> Recipe:
    """The recipe, if a run can keep what it says. Raises JOB040 (unknown), RUN009 (not run)."""
    return check_recipe(read_recipe(name), name)


def check_recipe(recipe: Recipe, name: str) -> Recipe:
    """The recipe itself. Raises RUN009 for one that a run does not keep."""
    if not runs(recipe):
        known = ", ".join(item for item in RECIPES.names() if runs(read_recipe(item)))
        cause = f"recipe {name}: a run keeps and sums in fp32 and updates with adamw"
        raise RunError(9, cause, f"give one of {known}")
    return recipe


def runs(recipe: Recipe) -> bool:
    """Whether a run keeps what a recipe says: shards in fp32, products in fp32 or bf16, AdamW on the shards."""
    kept = (recipe.parameters, recipe.gradients, recipe.master) == ("fp32", "fp32", "none")
    return kept and recipe.compute in {"fp32", "bf16"} and recipe.optimizer == "adamw" and recipe.lora_rank == 0
