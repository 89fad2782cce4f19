"""What the fork server imports once, so that a rank starts in milliseconds. It runs nothing."""

from __future__ import annotations

import torch
import torch._dynamo
import torch.distributed._composable.replicate_with_fsdp
import torch.distributed._functional_collectives
import torch.distributed.fsdp
import torch.utils.checkpoint

import meshwright.verify.parity

torch.set_num_threads(1)
LOADED = (meshwright.verify.parity, torch)
