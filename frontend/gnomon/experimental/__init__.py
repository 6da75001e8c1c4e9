"""Functions that may still change: `io_callback`, `checkify` and `topologies`."""

from gnomon._api.callbacks import io_callback
from gnomon.experimental import checkify, topologies

__all__ = ["checkify", "io_callback", "topologies"]
