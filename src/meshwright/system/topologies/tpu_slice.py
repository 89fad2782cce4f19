"""A slice of TPU blocks of 4x4x4, joined by optical switches: `tpu-slice:8x8x8,port=50GB/s`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import SystemSpecError
from meshwright.base.units import Seconds
from meshwright.system.topologies import torus
from meshwright.system.wiring import Wires

if TYPE_CHECKING:
    from meshwright.system.graph import Fabric

TITLE: Final = "a torus of 4x4x4 blocks that optical switches join"
EXAMPLE: Final = "tpu-slice:8x8x8,port=50GB/s"
HEAD: Final = "extents"
_HOP: Final = Seconds(200e-9)
_BLOCK: Final = 4
_DIMENSIONS: Final = 3
_WITHIN: Final = frozenset({(1, 2, 2), (2, 2, 2), (2, 2, 4), (2, 4, 4)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """extents: multiples of 4, of whole blocks; or a part of one block: 2x2x1, 2x2x2, 2x2x4, 2x4x4 in any order.

    most: chips of the pod that the slice is cut from.
    """

    extents: str = "4x4x4"
    lines: int = 0
    most: int = 4096
    latency: Seconds = _HOP


def build(spec: Spec) -> Fabric:
    """A torus; a part of a block is joined electrically alone, and so has no wraparound. Twisted tori are not built.

    Raises SYS026 (a shape that is no slice), and the codes of a torus. Source: N. Jouppi et al., TPU v4: An Optically
    Reconfigurable Supercomputer for Machine Learning with Hardware Support for Embeddings, ISCA 2023; chapter
    "Supernodes", section 6.5.4.
    """
    extents = torus.extents_of(spec.extents)
    whole = len(extents) == _DIMENSIONS and all(extent % _BLOCK == 0 for extent in extents)
    if not whole and tuple(sorted(extents)) not in _WITHIN:
        cause = f"{spec.extents} is no slice of 4x4x4 blocks"
        raise SystemSpecError(
            26, cause, "give multiples of 4, as in 4x8x8, or a part of a block: 2x2x1, 2x2x2, 2x2x4, 2x4x4"
        )
    if prod(extents) > spec.most:
        raise SystemSpecError(26, f"{spec.extents} has {prod(extents)} chips", f"the pod has {spec.most}; see `most`")
    names = ("extents", "lines", "port", "ports", "latency", "forward")
    built = torus.build(torus.Spec(**{name: getattr(spec, name) for name in names}, open="" if whole else "xyz"))
    return replace(built, title=f"TPU slice {spec.extents}")
