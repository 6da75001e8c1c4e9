"""What a workload is: a name, what it does, and how it is made ready in each framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gnomon.tools.bench.frameworks import Framework


@dataclass(frozen=True)
class Case:
    """A workload made ready in one framework.

    Attributes:
      run: does the work once and returns its result; the time of this call is the measurement.
        Where the workload says that it waits, it waits in here.
      check: the arrays that must agree between frameworks; ``run`` by default.
      keeps_time: ``run`` returns the seconds that it measured by itself.
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
      doc: what is timed, in one line.
      setups: by the name of the framework; a framework that is not here has no form of it.
      tolerance: how far results may be apart, in units of the dtype's epsilon relative to the
        largest element.
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
