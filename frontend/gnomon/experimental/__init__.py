"""May still change: `io_callback`, `checkify`, `multihost_utils` and `topologies`."""

from gnomon._api.callbacks import io_callback
from gnomon.experimental import checkify, multihost_utils, topologies

__all__ = ["checkify", "io_callback", "multihost_utils", "topologies"]
