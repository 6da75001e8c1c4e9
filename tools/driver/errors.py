"""The errors of the driver, and its exit statuses."""

from __future__ import annotations

__all__ = ["ComparisonError", "DriverError", "Status", "UsageError"]


class Status:
    """The exit statuses."""

    SUCCESS = 0
    FAILED = 1  # a program or a file is wrong, or the compiler rejects it
    USAGE = 2  # the command line is wrong; argparse's status too
    DIFFERENT = 3  # results differ from those expected, or two programs differ
    UNAVAILABLE = 4  # a device, a compiler or a package is missing
    INTERRUPTED = 130  # Ctrl-C: the status that shells report for SIGINT


class DriverError(Exception):
    """An error that the driver prints without a traceback.

    Attributes:
      status: the exit status.
    """

    status = Status.FAILED


class UsageError(DriverError):
    """The command line does not fit the program."""

    status = Status.USAGE


class ComparisonError(DriverError):
    """Results or programs differ."""

    status = Status.DIFFERENT
