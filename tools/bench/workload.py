"""Workloads: a name, a description, and a setup for each framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gnomon.tools.bench.frameworks import Framework


@dataclass(frozen=True)
class Case:
    """A workload that is set up in one framework.

    Attributes:
      run: does the work once and returns its result; this call is timed. It includes waiting for
        the result only if the workload's description says so.
      check: returns the arrays that must agree between frameworks; ``run`` by default.
      keeps_time: whether ``run`` returns seconds that it has measured itself.
    """

    run: Callable[[], Any]
    check: Callable[[], Any] | None = None
    keeps_time: bool = False


Setup = Callable[[Framework], Case]


@dataclass(frozen=True, eq=False)
class Workload:
    """A named workload.

    Attributes:
      name: ``family/name``.
      doc: a one-line description of the timed work.
      setups: setups by the name of the framework; other frameworks do not have the workload.
      tolerance: the tolerance of results, in units of the dtype's epsilon relative to the largest
        element.
    """

    name: str
    doc: str
    setups: Mapping[str, Setup]
    tolerance: float = 256.0

    @property
    def family(self) -> str:
        """The part of the name before the slash."""
        return self.name.split("/", 1)[0]


def like_jax(setup: Setup) -> dict[str, Setup]:
    """One setup for the two frameworks that share JAX's API."""
    return {"gnomon": setup, "jax": setup}


__all__ = ["Case", "Framework", "Setup", "Workload", "like_jax"]
