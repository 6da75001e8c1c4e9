"""May still change: callbacks with effects, checks, and tools for several devices or processes."""

from gnomon._api.callbacks import io_callback
from gnomon.experimental import (
    checkify,
    layout,
    mesh_utils,
    multihost_utils,
    shard_map,
    topologies,
)

__all__ = [
    "checkify",
    "io_callback",
    "layout",
    "mesh_utils",
    "multihost_utils",
    "shard_map",
    "topologies",
]
