"""Functions that are compiled as one program, and compared with their eager results.

A compilation has a fixed cost of several kernels. Each function has operands of its own, so the
compiler cannot share work among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.backends.errors import CompilationError, ExecutionError

__all__ = ["Call", "all_same", "check_joined", "report"]

# A function, and one or more tuples of arguments of the same types.
Call = tuple[Any, ...]


def all_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Fail unless two arrays are equal, also in their dtypes."""
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def report(problems: Mapping[str, str]) -> None:
    """Fail with all problems, if there are any, each with the name of its case."""
    assert not problems, "\n".join(f"{name}: {problem}" for name, problem in problems.items())


def check_joined(
    calls: Mapping[str, Call], compare: Callable[[np.ndarray, np.ndarray], None] = all_same
) -> None:
    """Compile all functions as one program, and compare the results with those of eager code.

    Args:
      calls: the functions and their arguments, by names for the error message. All have the same
        number of tuples of arguments; the program is called once with the first tuples, once with
        the second ones, and so on.
      compare: raises ``AssertionError`` if a compiled result (the first) is not as it must be.
    """
    functions = {name: function for name, (function, *_) in calls.items()}
    problems: dict[str, str] = {}

    @gn.jit
    def program(arguments: dict[str, list[Any]]) -> dict[str, Any]:
        return {name: functions[name](*given) for name, given in arguments.items()}

    for tuples in zip(*(given for _, *given in calls.values()), strict=True):
        arguments = {
            name: gn.tree.map(_as_array, list(given))
            for name, given in zip(calls, tuples, strict=True)
        }
        try:
            found = program(arguments)
        except (CompilationError, ExecutionError):
            for name, given in arguments.items():
                try:
                    program({name: given})
                except (CompilationError, ExecutionError) as error:
                    problems[name] = f"does not compile: {error}"
            report(problems)
            raise
        for name, given in arguments.items():
            with np.errstate(all="ignore"):
                expected = gn.tree.leaves(functions[name](*given))
            results = gn.tree.leaves(found[name])
            try:
                assert len(results) == len(expected)
                for result, value in zip(results, expected, strict=True):
                    compare(np.asarray(result), np.asarray(value))
            except AssertionError as error:
                problems.setdefault(name, str(error))
    report(problems)


def _as_array(x: Any) -> Any:
    """An array of ours instead of one of NumPy; Python's numbers stay weakly typed."""
    return gnp.asarray(x) if isinstance(x, np.ndarray | np.generic) else x
