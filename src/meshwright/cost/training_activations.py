"""STUB replaced by the merge."""
from dataclasses import dataclass
import numpy as np
from typing import Any
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActivationColumns:
    saved: Any
    rebuilt: Any
    head: Any
    embedding: Any
    head_transient: Any
def activation_columns(model, layouts, *, sequence, kernel, loss):
    rows=layouts.degree("micro_batch")*sequence//layouts.degree("cp")//layouts.degree("tp")
    full=layouts.columns["recompute"]=="full"
    s=np.stack([np.where(full,rows*model.hidden*2,rows*model.hidden*34)]*len(model.kinds),axis=1)
    z=np.zeros(len(layouts),dtype=np.int64)
    return ActivationColumns(saved=s,rebuilt=s,head=rows*model.vocab*6,embedding=z,head_transient=rows*model.vocab*4)
def repeated(model,recompute):
    from meshwright.workload.operators import operators
    return {o.name:1.0 for o in operators(model) if o.kind is not None} if recompute=="full" else {}
