"""Runs a program's source with gnomon, eager and jitted, and with JAX where that is installed."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes  # noqa: F401  NumPy knows the names of its dtypes once it is imported
import numpy as np

from gnomon.backends.reference import Evaluator
from gnomon.tools.fuzz.program import Array, Program

# The name in a program's source, and the module after the library's own name.
MODULES = {
    "gn": "",
    "gnp": ".numpy",
    "lax": ".lax",
    "nn": ".nn",
    "random": ".random",
    "special": ".scipy.special",
    "stats": ".scipy.stats",
    "slinalg": ".scipy.linalg",
    "signal": ".scipy.signal",
    "sfft": ".scipy.fft",
    "ndimage": ".scipy.ndimage",
    "integrate": ".scipy.integrate",
    "vq": ".scipy.cluster.vq",
    "optimize": ".scipy.optimize",
    "ops": ".ops",
    "image": ".image",
}


@dataclass(frozen=True)
class Library:
    """gnomon, or JAX.

    Attributes:
      name: of the package.
    """

    name: str

    @cached_property
    def namespace(self) -> dict[str, Any]:
        """What a program's source may name."""
        found = {
            name: importlib.import_module(self.name + module) for name, module in MODULES.items()
        }
        return {**found, "numpy": np}

    @property
    def package(self) -> Any:
        """The package itself."""
        return self.namespace["gn"]

    def array(self, value: np.ndarray) -> Any:
        """An array of the library."""
        return self.namespace["gnp"].asarray(value)

    def x64(self, on: bool) -> AbstractContextManager[Any]:
        """The context in which 64-bit types are there, or not."""
        context: AbstractContextManager[Any] = self.package.enable_x64(on)
        return context

    def function(self, program: Program) -> tuple[Callable[..., Any], list[Any]]:
        """A program's function, and its arguments; called under `x64`."""
        scope = dict(self.namespace)
        for i, array in enumerate(program.closed()):
            scope[f"k{i}"] = self.array(value_of(array))
        exec(compile(program.source(), "<fuzz>", "exec"), scope)
        return scope["f"], [self.array(value_of(array)) for _, array in program.arguments]


GNOMON = Library("gnomon")
JAX = Library("jax")


def jax_is_installed() -> bool:
    """Whether JAX can be compared with."""
    return importlib.util.find_spec("jax") is not None


def value_of(array: Array) -> np.ndarray:
    """The value of an array."""
    value: np.ndarray = eval(array.text(), {"numpy": np})
    return value


@dataclass(frozen=True)
class Outcome:
    """What a program gave.

    Attributes:
      values: its results as NumPy arrays; empty where it failed.
      weak: whether each is weakly typed.
      error: what was raised.
    """

    values: tuple[np.ndarray, ...] = ()
    weak: tuple[bool, ...] = ()
    error: BaseException | None = None


def run(library: Library, program: Program, *, jitted: bool) -> Outcome:
    """Run a program; errors are results too."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), library.x64(program.x64):
        warnings.simplefilter("ignore")
        try:
            function, arguments = library.function(program)
            if jitted:
                function = library.package.jit(function)
            leaves = library.package.tree.leaves(function(*arguments))
            # Python numbers become arrays in the same way as under jit.
            results = [
                r if hasattr(r, "dtype") else library.namespace["gnp"].asarray(r) for r in leaves
            ]
            values = tuple(np.array(r) for r in results)
            return Outcome(values, tuple(bool(getattr(r, "weak_type", False)) for r in results))
        except Exception as error:
            return Outcome(error=error)


def evaluator_of(
    program: Program, make: Callable[[Any], Evaluator]
) -> Callable[[], Sequence[np.ndarray]]:
    """The traced program, run by an evaluator that ``make`` makes of it."""
    with warnings.catch_warnings(), GNOMON.x64(program.x64):
        warnings.simplefilter("ignore")
        function, arguments = GNOMON.function(program)
        traced = GNOMON.package.jit(function).trace(*arguments)._traced
    values = [np.asarray(a) for a in [*arguments, *traced.captures]]
    body = make(traced.program).prepare(traced.body)

    def evaluate() -> Sequence[np.ndarray]:
        with np.errstate(all="ignore"):
            return body(*values)

    return evaluate
