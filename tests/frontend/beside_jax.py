"""Run one program with gnomon and with JAX, and compare results or kinds of errors."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

import gnomon
from tests.backends.iree.joined import report
from tests.frontend.oracle import Pair, kind, outcome, outcomes_in_one_program
from tests.tolerance import assert_each_near

Program = Callable[[Any], Any]

_ROOMS = ("image", "lax", "nn", "numpy", "random", "scipy", "tree_util", "custom_batching")
_DEEP = ("scipy.optimize", "scipy.special", "scipy.stats", "experimental.checkify")


def _namespace(library: Any) -> SimpleNamespace:
    rooms = {name: importlib.import_module(f"{library.__name__}.{name}") for name in _ROOMS}
    rooms |= {
        name.split(".")[1]: importlib.import_module(f"{library.__name__}.{name}") for name in _DEEP
    }
    return SimpleNamespace(api=library, np=rooms.pop("numpy"), **rooms)


OURS, THEIRS = _namespace(gnomon), _namespace(jax)


def check_program(program: Program, ulps: float = 8.0, scale: float = 1.0) -> None:
    """Run a program with both libraries, and compare results or kinds of errors.

    Arrays must agree in shape, dtype and weak type, and in values to ``ulps`` units at the size of
    each value, or at ``scale`` if that is larger; everything else must be equal.
    """
    _check_outcome(program, outcome(program, (THEIRS,), {}), ulps, scale)


def check_programs(programs: Mapping[str, Program]) -> None:
    """`check_program` for programs that JAX compiles as one where it can; it folds constants."""
    calls: list[Any] = [(program, (THEIRS,), {}) for program in programs.values()]
    problems = {}
    for (name, program), pair in zip(programs.items(), outcomes_in_one_program(calls), strict=True):
        try:
            expected = outcome(program, (THEIRS,), {}) if pair[1] else pair
            _check_outcome(program, expected, 8.0, 1.0)
        except Exception as error:
            problems[name] = f"{type(error).__name__}: {error}"
    report(problems)


def _check_outcome(program: Program, expected: Pair, ulps: float, scale: float) -> None:
    result, their_error = expected
    found, our_error = outcome(program, (OURS,), {})
    if their_error is not None:
        assert our_error is not None, f"got {found!r} where JAX raises {their_error!r}"
        assert kind(our_error) is kind(their_error), f"{our_error!r} instead of {their_error!r}"
        assert str(our_error), "an error without a message"
        return
    if our_error is not None:
        raise our_error
    _check_same(found, result, ulps, scale)


def _check_same(found: Any, expected: Any, ulps: float, scale: float) -> None:
    if isinstance(expected, (jax.Array, np.ndarray, np.generic)):
        described = [(x.shape, x.dtype, getattr(x, "weak_type", None)) for x in (found, expected)]
        assert described[0] == described[1], f"{described[0]} instead of {described[1]}"
        if expected.dtype.kind in "fc":
            assert_each_near(np.asarray(found), np.asarray(expected), ulps, scale)
        else:
            np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        _check_same(list(found.values()), list(expected.values()), ulps, scale)
    elif isinstance(expected, Sequence) and not isinstance(expected, str):
        assert isinstance(found, type(expected)) and len(found) == len(expected), (
            f"{found!r} instead of {expected!r}"
        )
        for a, b in zip(found, expected, strict=True):
            _check_same(a, b, ulps, scale)
    else:
        assert found == expected or (found != found and expected != expected), (
            f"{found!r} instead of {expected!r}"
        )
