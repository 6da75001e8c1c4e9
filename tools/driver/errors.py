"""The errors of the driver, and its exit statuses."""

from __future__ import annotations

__all__ = ["ComparisonError", "DriverError", "Status", "UsageError"]


class Status:
    """The exit statuses."""

    SUCCESS = 0
    FAILED = 1  # a program or a file is wrong, or the compiler refuses it
    USAGE = 2  # the command line is wrong; argparse's status too
    DIFFERENT = 3  # results are not those expected, or two programs differ
    UNAVAILABLE = 4  # a device, a compiler or a package is not here
    INTERRUPTED = 130  # by Ctrl-C, as shells count it


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
