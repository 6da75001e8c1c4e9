"""Runs a program's source with gnomon, eagerly and jitted, and with JAX if that is installed."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes  # noqa: F401  NumPy knows the names of its dtypes once it is imported
import numpy as np

from gnomon.backends.reference import Evaluator
from gnomon.tools.fuzz.program import Array, Program

# The names that a program's source uses, and their modules, relative to the library's package.
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
      name: the name of the package.
    """

    name: str

    @cached_property
    def namespace(self) -> dict[str, Any]:
        """The modules that a program's source may use."""
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
        """The context that enables or disables 64-bit types."""
        context: AbstractContextManager[Any] = self.package.enable_x64(on)
        return context

    def function(self, program: Program) -> tuple[Callable[..., Any], list[Any]]:
        """A program's function, and its arguments; called under `x64`."""
        scope = dict(self.namespace)
        for i, array in enumerate(program.closed()):
            scope[f"k{i}"] = self.array(value_of(array))
        exec(compile(program.source(), "<fuzz>", "exec"), scope)
        return scope["f"], [self.array(value_of(array)) for _, array in program.arguments]

    def outcome(self, results: Any) -> Outcome:
        """A program's results; Python numbers become arrays, as they do under jit."""
        asarray = self.namespace["gnp"].asarray
        leaves = self.package.tree.leaves(results)
        arrays = [leaf if hasattr(leaf, "dtype") else asarray(leaf) for leaf in leaves]
        return Outcome(
            tuple(np.array(array) for array in arrays),
            tuple(bool(getattr(array, "weak_type", False)) for array in arrays),
        )


GNOMON = Library("gnomon")
JAX = Library("jax")


def jax_is_installed() -> bool:
    """Whether results can be compared with JAX's."""
    return importlib.util.find_spec("jax") is not None


def value_of(array: Array) -> np.ndarray:
    """The value of an array."""
    value: np.ndarray = eval(array.text(), {"numpy": np})
    return value


@dataclass(frozen=True)
class Outcome:
    """The results of a program, or its error.

    Attributes:
      values: the results as NumPy arrays; empty if the program failed.
      weak: whether each result is weakly typed.
      error: the exception, if the program failed.
    """

    values: tuple[np.ndarray, ...] = ()
    weak: tuple[bool, ...] = ()
    error: BaseException | None = None


class OracleError(Exception):
    """An error of another process; its message begins with the name of the original type."""


def message(error: BaseException) -> str:
    """The type of an error, and the first line of its message that describes it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, OracleError):
        return lines[0]
    relevant = [line for line in lines if "error:" in line] or lines or [""]
    return f"{type(error).__name__}: {relevant[0][:300]}"


def run(library: Library, program: Program, *, jitted: bool) -> Outcome:
    """Run a program; an exception becomes the outcome's error."""
    if jitted:
        return run_batch(library, [program])[0]
    with _running(library, program):
        try:
            function, arguments = library.function(program)
            return library.outcome(function(*arguments))
        except Exception as error:
            return Outcome(error=error)


def run_batch(library: Library, programs: Sequence[Program]) -> list[Outcome]:
    """Run programs with the same `x64` and target as one jitted function; the outcome of each.

    A program that cannot be traced fails alone; an error of the compiler is the error of all.
    """
    failed: dict[int, BaseException] = {}
    with _running(library, programs[0]):
        made = [library.function(program) for program in programs]

        def whole(*given: list[Any]) -> list[Any]:
            results: list[Any] = []
            for i, (function, _) in enumerate(made):
                results.append(())
                try:
                    results[i] = function(*given[i])
                except Exception as error:
                    failed[i] = error
            return results

        arguments = [given for _, given in made]
        try:
            jitted = library.package.jit(whole)
            if programs[0].target and library is GNOMON:
                jitted = jitted.lower(*arguments).compile(target=programs[0].target)
            outcomes = [library.outcome(results) for results in jitted(*arguments)]
        except Exception as error:
            outcomes = [Outcome(error=error) for _ in programs]
    return [Outcome(error=failed[i]) if i in failed else o for i, o in enumerate(outcomes)]


@contextmanager
def _running(library: Library, program: Program) -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"), library.x64(program.x64):
        warnings.simplefilter("ignore")
        yield


def evaluator_of(
    program: Program, make: Callable[[Any], Evaluator]
) -> Callable[[], Sequence[np.ndarray]]:
    """A function that evaluates the traced program with the evaluator that ``make`` returns."""
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
