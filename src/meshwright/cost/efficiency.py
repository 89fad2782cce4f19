"""A basis goes in; the reached share of each rate comes out: the one seam of datasheet and calibrated predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.result import Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Shares of the peak that matrix products, memory reads and links reach.

    Under `datasheet` all are 1 and every time is a lower bound; a calibration brings its own shares and their spread.
    """

    basis: Basis
    matrix: float = 1.0
    memory: float = 1.0
    link: float = 1.0


DATASHEET: Final = Efficiency(basis=Basis.DATASHEET)
