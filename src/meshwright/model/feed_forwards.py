"""Feed-forward layers: the half of a block that works on each token alone. Shapes go in; weights come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from meshwright.model.tensors import Dim, Part, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """gate, up and down projections (SwiGLU and its kin); without `gated` only up and down."""

    intermediate: int
    gated: bool = True
    bias: bool = False

    def weights(self, hidden: int, name: str = "mlp", part: Part = "feed_forward") -> tuple[Tensor, ...]:
        """[out, in] matrices as Hugging Face stores them, then their biases [out]."""
        width = Dim(role="intermediate", size=self.intermediate)
        shapes = _projections(width, Dim(role="hidden", size=hidden), gated=self.gated)
        found = [
            Tensor(name=f"{name}.{key}.weight", part=part, dims=dims, quantized=True) for key, dims in shapes.items()
        ]
        if self.bias:
            found += [Tensor(name=f"{name}.{key}.bias", part=part, dims=dims[:1]) for key, dims in shapes.items()]
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of `experts`, of which each token visits `top_k`; `shared` works on every token beside them.

    shared_gate: a learned weight of the shared expert's output, counted with the router.   bias: on the matrices of
    the experts.   router_bias: on the router.   router_fp32: its matrix is kept in fp32, whatever the formats.
    latent: columns that the routed experts work in, None for the model's width; another one brings a matrix into that
    space and one out of it, which every token passes once.   latent_bias: on these two.
    """

    experts: int
    top_k: int
    intermediate: int
    gated: bool = True
    shared: Dense | None = None
    shared_gate: bool = False
    bias: bool = False
    router_bias: bool = False
    router_fp32: bool = False
    latent: int | None = None
    latent_bias: bool = False

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """Router [experts, in], expert matrices [experts, out, in], and the shared expert with its gate [1, in].

        A bias has the shape of its matrix without the last dim.
        """
        plain = Dim(role="hidden", size=hidden)
        count = Dim(role="experts", size=self.experts)
        width = Dim(role="expert_intermediate", size=self.intermediate)
        routes = Dim(role="routes", size=self.experts)
        inner = plain if self.latent is None else Dim(role="hidden", size=self.latent)
        shapes = _projections(width, inner, gated=self.gated)
        dims = (routes, plain)
        found = [
            Tensor(
                name="mlp.gate.weight",
                part="router",
                dims=dims,
                quantized=not self.router_fp32,
                fp32=self.router_fp32,
            )
        ]
        found += [
            Tensor(name=f"mlp.experts.{key}.weight", part="experts", dims=(count, *dims), quantized=True)
            for key, dims in shapes.items()
        ]
        if self.router_bias:
            found.append(Tensor(name="mlp.gate.bias", part="router", dims=(routes,)))
        if self.bias:
            found += [
                Tensor(name=f"mlp.experts.{key}.bias", part="experts", dims=(count, dims[0]))
                for key, dims in shapes.items()
            ]
        found += self._latent_weights(plain, inner)
        if self.shared is not None:
            found += self.shared.weights(hidden, "mlp.shared_expert", "experts")
        if self.shared_gate:
            gate_dims = (Dim(role="routes", size=1), plain)
            found.append(Tensor(name="mlp.shared_expert_gate.weight", part="router", dims=gate_dims, quantized=True))
        return tuple(found)

    def _latent_weights(self, plain: Dim, inner: Dim) -> list[Tensor]:
        """[latent, in] and [in, latent], kept whole on every rank; none where the experts work in the model's width."""
        if self.latent is None:
            return []
        shapes = {"fc1_latent_proj": (inner, plain), "fc2_latent_proj": (plain, inner)}
        found = [
            Tensor(name=f"mlp.{key}.weight", part="experts", dims=dims, quantized=True) for key, dims in shapes.items()
        ]
        if self.latent_bias:
            found += [Tensor(name=f"mlp.{key}.bias", part="experts", dims=dims[:1]) for key, dims in shapes.items()]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NoFeedForward:
    """A block without a feed-forward: no weights, no norm of its own."""

    no_feed_forward: Literal[True] = True

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """None."""
        del hidden
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """One matrix of the model's width in a feed-forward's place, held whole on every rank.

    linear_bias: whether it has a bias. Source: the configs of Puzzle models (`replace_with_linear`; arXiv 2411.19146,
    section 2).
    """

    linear_bias: bool

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """[hidden, hidden], and its bias."""
        plain = Dim(role="hidden", size=hidden)
        found = (Tensor(name="mlp.linear_mlp.weight", part="feed_forward", dims=(plain, plain), quantized=True),)
        return (
            (*found, Tensor(name="mlp.linear_mlp.bias", part="feed_forward", dims=(plain,)))
            if self.linear_bias
            else found
        )


FeedForward: TypeAlias = Dense | Experts | NoFeedForward | Linear


def _projections(width: Dim, plain: Dim, *, gated: bool) -> dict[str, tuple[Dim, Dim]]:
    gate = {"gate_proj": (width, plain)} if gated else {}
    return {**gate, "up_proj": (width, plain), "down_proj": (plain, width)}
