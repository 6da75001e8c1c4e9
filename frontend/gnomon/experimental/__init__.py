"""Functions that may still change: `io_callback` and `checkify`."""

from gnomon._api.callbacks import io_callback
from gnomon.experimental import checkify

__all__ = ["checkify", "io_callback"]
