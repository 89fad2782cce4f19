"""Meshwright decides how large models run on accelerators: which layout, whether it fits, when it ends, what it costs.

The public surface is `__all__`; names load on first use, so that importing the package loads neither numpy nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from meshwright._version import __version__

if TYPE_CHECKING:
    from meshwright.base.errors import MeshwrightError, UserError
    from meshwright.base.result import Candidate, Result, as_json
    from meshwright.job.serve import ServeJob
    from meshwright.layout.layout import Layout
    from meshwright.model.model import Model
    from meshwright.model.reader import read_config, read_model
    from meshwright.scenarios.compare import compare, read_answer
    from meshwright.scenarios.explain import ExplainOptions, explain
    from meshwright.scenarios.fit import FitOptions, fit
    from meshwright.scenarios.inspect import InspectOptions, inspect
    from meshwright.scenarios.serving import ServeOptions, plan_serve
    from meshwright.system.system import System, read_system

_HOMES: Final = {
    "Candidate": "base.result",
    "ExplainOptions": "scenarios.explain",
    "FitOptions": "scenarios.fit",
    "InspectOptions": "scenarios.inspect",
    "Layout": "layout.layout",
    "MeshwrightError": "base.errors",
    "Model": "model.model",
    "Result": "base.result",
    "ServeJob": "job.serve",
    "ServeOptions": "scenarios.serving",
    "System": "system.system",
    "UserError": "base.errors",
    "as_json": "base.result",
    "compare": "scenarios.compare",
    "explain": "scenarios.explain",
    "fit": "scenarios.fit",
    "inspect": "scenarios.inspect",
    "plan_serve": "scenarios.serving",
    "read_answer": "scenarios.compare",
    "read_config": "model.reader",
    "read_model": "model.reader",
    "read_system": "system.system",
}

__all__ = [
    "Candidate",
    "ExplainOptions",
    "FitOptions",
    "InspectOptions",
    "Layout",
    "MeshwrightError",
    "Model",
    "Result",
    "ServeJob",
    "ServeOptions",
    "System",
    "UserError",
    "__version__",
    "as_json",
    "compare",
    "explain",
    "fit",
    "inspect",
    "plan_serve",
    "read_answer",
    "read_config",
    "read_model",
    "read_system",
]


def __getattr__(name: str) -> Any:
    """A public name, loaded from its room."""
    if name not in _HOMES:
        raise AttributeError(f"module 'meshwright' has no attribute {name!r}")
    return getattr(import_module(f"meshwright.{_HOMES[name]}"), name)
