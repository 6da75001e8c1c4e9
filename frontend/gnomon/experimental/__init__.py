"""What may still change: `io_callback`, `checkify`."""

from gnomon._callbacks import io_callback

__all__ = ["io_callback"]
