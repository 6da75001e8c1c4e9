"""The option ``logging_level``: the level of gnomon's loggers, and their output."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO

__all__ = ["LEVELS", "set_logging_level"]

LEVELS = ("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


if TYPE_CHECKING:
    _Base = logging.StreamHandler[TextIO]
else:
    # It has no parameters at run time before Python 3.11.
    _Base = logging.StreamHandler


class _StandardError(_Base):
    """A handler that writes to the standard error that is current when a message is logged."""

    def __init__(self) -> None:
        super().__init__()
        style = "{levelname}:{asctime}:{name}:{lineno}: {message}"
        self.setFormatter(logging.Formatter(style, style="{"))

    def emit(self, record: logging.LogRecord) -> None:
        self.setStream(sys.stderr)
        super().emit(record)


_handler = _StandardError()


def set_logging_level(level: str | None) -> None:
    """Set the level of all loggers of gnomon, and write their messages to standard error.

    Args:
      level: one of `LEVELS`; ``None`` and ``"NOTSET"`` leave both to the program's own logging.
    """
    logger = logging.getLogger("gnomon")
    logger.setLevel(level or "NOTSET")
    if level in (None, "NOTSET"):
        logger.removeHandler(_handler)
    else:
        logger.addHandler(_handler)
