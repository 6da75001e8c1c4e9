"""The name of IREE's runtime that is not in its interface."""

from __future__ import annotations

from iree.runtime import _binding

__all__ = ["silence_leak_reports"]


def silence_leak_reports() -> None:
    """Keep nanobind from reporting, at exit, each object that a variable of the user still holds.

    Without this, a script with an array in a global variable ends with a page of warnings.
    """
    _binding.disable_leak_checker()
