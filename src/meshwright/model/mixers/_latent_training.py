"""Latent attention goes in; what training keeps of it, and what its backward holds, come out (see `saving`).

    flash          expanded, as transformers 5.24 runs it (DeepseekV3Attention): kv_b makes keys and values of every
                   head in one tensor, keys are copied beside the shared rotary part, and values stay a view of that
                   tensor, which therefore lives as long; query, key, output, logsumexp
    materialised   the same, with a copy of the values and the square of probabilities
    sparse flash   where a token reads `top_k` rows: absorbed, over the latent row itself; the numbers of these rows are
                   kept, and what folds keys into queries and values out of outputs keeps its inputs

An indexer chooses without gradients, as in transformers 5.24 (DeepseekV32Indexer): it keeps nothing but the choice.
Source of the sparse form: DeepSeek-AI, "DeepSeek-V3.2" (arXiv 2512.02556), section 2.1; that its kernel keeps query,
row, output, logsumexp and numbers of 32 bits: TileLang, examples of sparse MLA, entered from general knowledge, to be
checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.model.mixers.saving import Kept, KeptNorm, KeptScores, Training, core_gradients, held
from meshwright.model.mixers.told import ALL, Span
from meshwright.model.tensors import Dim

if TYPE_CHECKING:
    from meshwright.model.mixers.latent import LatentAttention
    from meshwright.model.mixers.saving import AttentionKernel, Entry, Groups

_CHOICE_BITS: Final = 32
_LEFT_OUT: Final = ("sp: gradients of matrices that make low-rank rows, which ranks of tp add up once a step",)
_SPARSE_LEFT_OUT: Final = (
    "training of an indexer by a loss of its own: it chooses without gradients, and keeps nothing but the choice",
)


def latent_training(mixer: LatentAttention, hidden: int, kernel: AttentionKernel) -> Training:
    """What it keeps beside its input, and its gradients."""
    rows, chosen = _rows(mixer), mixer.top_k is not None
    left_out = (*_LEFT_OUT, *(_SPARSE_LEFT_OUT if chosen else ()))
    if chosen and kernel == "flash":
        kept_rows, gradients = (*rows, *_absorbed(mixer)), _gradients_of_absorbed(mixer, hidden)
        return Training(kept=kept_rows, gradients=gradients, left_out=left_out)
    kept = _heads_of(mixer)
    query, value, both = kept["query"], kept["value"], kept["made"]
    copied = kernel == "materialised"
    own = _kept("keys_and_values", both)
    found: list[Entry] = [*rows, _kept("query", query), _kept("key", query)]
    found.append(_kept("value_copy", value, core=True) if copied else own)
    found.append(KeptScores(heads=mixer.heads, span=ALL if mixer.top_k is None else Span(top=mixer.top_k)))
    found.append(_kept("attention_output", value, operator="self_attn.o_proj"))
    gradients = _gradients(mixer, hidden, kernel)
    return Training(kept=tuple(found), gradients=gradients, core_inputs=(own,) if copied else (), left_out=left_out)


def _rows(mixer: LatentAttention) -> list[Entry]:
    """Norms of the low-rank rows, whose outputs the products that make heads of them keep."""
    found: list[Entry] = []
    if mixer.query_rank is not None:
        found.append(_norm("q_a_layernorm", mixer.query_rank, "q_b_proj"))
    found.append(_norm("kv_a_layernorm", mixer.kv_rank, "kv_b_proj", mixer.kv_rank + mixer.rope_dim))
    return found


def _absorbed(mixer: LatentAttention) -> list[Entry]:
    """Queries as they were made and folded, the row they meet, the choice, and outputs before and after unfolding.

    The queries as they were made stay whole: their rotary part is a view of them.
    """
    kept = _heads_of(mixer)
    row = Dim(role="latent", size=mixer.kv_rank + mixer.rope_dim)
    choice = Dim(role="table_rows", size=_top(mixer))
    return [
        _kept("query", kept["query"], operator="self_attn.kv_b_proj"),
        _kept("latent_query", kept["folded"]),
        _kept("latent_row", row),
        Kept(name="chosen_rows", operator="attention", dims=(choice,), need="index", bits=_CHOICE_BITS),
        KeptScores(heads=mixer.heads),
        _kept("latent_output", kept["latent_output"]),
        _kept("attention_output", kept["value"], operator="self_attn.o_proj"),
    ]


def _gradients(mixer: LatentAttention, hidden: int, kernel: AttentionKernel) -> Groups:
    query, value, both, key = (
        held(name, _heads_of(mixer)[dim])
        for name, dim in (("query", "query"), ("value", "value"), ("made", "made"), ("key", "query"))
    )
    mixed = held("mixed", _heads_of(mixer)["value"])
    return {
        **_gradients_of_rows(mixer, hidden, (query, both)),
        "self_attn.keys": (query, key, value, both),
        **core_gradients(kernel, mixer.heads, mixed, (query, key, value)),
        "self_attn.o_proj": (mixed,),
    }


def _gradients_of_absorbed(mixer: LatentAttention, hidden: int) -> Groups:
    """The gradient of the row is summed over heads in fp32: many queries read it."""
    made = _heads_of(mixer)
    query, folded, mixed = (
        held("query", made["query"]),
        held("latent_query", made["folded"]),
        held("mixed", made["value"]),
    )
    output = held("latent_output", made["latent_output"])
    row = held("latent_row", Dim(role="latent", size=mixer.kv_rank + mixer.rope_dim), bits=32)
    return {
        **_gradients_of_rows(mixer, hidden, (query,)),
        "attention": (output, folded, row),
        "attention.unfolded": (mixed, output),
        "self_attn.o_proj": (mixed,),
    }


def _gradients_of_rows(mixer: LatentAttention, hidden: int, made: tuple[Kept, ...]) -> Groups:
    """made: of what the second products make."""
    latent = held("latent", Dim(role="latent", size=mixer.kv_rank + mixer.rope_dim))
    rank = mixer.query_rank
    low = made[0] if rank is None else held("q_a", Dim(role="latent", size=rank))
    normed = held("normed", Dim(role="hidden", size=hidden))
    return {"self_attn.kv_a_proj_with_mqa": (latent, low, normed), "self_attn.kv_b_proj": (*made, latent)}


def _heads_of(mixer: LatentAttention) -> dict[str, Dim]:
    widths = {
        "query": mixer.nope_dim + mixer.rope_dim,
        "value": mixer.value_dim,
        "made": mixer.nope_dim + mixer.value_dim,
        "folded": mixer.kv_rank + mixer.rope_dim,
        "latent_output": mixer.kv_rank,
    }
    return {name: Dim(role="heads", size=mixer.heads * width, grain=width) for name, width in widths.items()}


def _top(mixer: LatentAttention) -> int:
    assert mixer.top_k is not None
    return mixer.top_k


def _kept(name: str, dim: Dim, *, core: bool = False, operator: str = "attention") -> Kept:
    return Kept(name=name, operator=operator, dims=(dim,), core=core)


def _norm(name: str, size: int, product: str, whole: int | None = None) -> KeptNorm:
    """whole: of the row that holds its input, of which that is a view, unless it is copied into fp32."""
    return KeptNorm(
        name=f"self_attn.{name}",
        dim=Dim(role="latent", size=size),
        reads=f"self_attn.{name}.input",
        keeper=f"self_attn.{product}",
        whole=None if whole is None else Dim(role="latent", size=whole),
    )
