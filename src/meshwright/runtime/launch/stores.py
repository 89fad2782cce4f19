"""Where the ranks of a run find each other: a host and a port go in, torch's key-value store comes out.

The classes are public by torch's documentation and not by its types, so that they are named in this file alone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, TypeAlias

import torch.distributed as dist

Store: TypeAlias = Any
"""What `init_process_group` takes as `store`."""
_TCP: Final[Any] = dist.TCPStore  # pyright: ignore[reportPrivateImportUsage] - see above
_PREFIX: Final[Any] = dist.PrefixStore  # pyright: ignore[reportPrivateImportUsage] - see above


def served(host: str, port: int, timeout_s: float) -> Store:
    """The store, kept by this process; port 0 takes a free one, which is `store.port`."""
    return _TCP(host, port, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=timeout_s))


def reached(host: str, port: int, timeout_s: float) -> Store:
    """The store that another process keeps."""
    return _TCP(host, port, is_master=False, timeout=timedelta(seconds=timeout_s))


def under_prefix(name: str, store: Store) -> Store:
    """The same store, its keys apart from all others."""
    return _PREFIX(name, store)
