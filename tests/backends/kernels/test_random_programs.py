"""Random programs with updates in place equal the evaluator and keep their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon._compilation.ahead_of_time import closed_program
from gnomon.backends.kernels.lowering import KernelBackend
from tests.backends.iree import test_random_loops as loops
from tests.backends.iree import test_random_updates as updates
from tests.backends.kernels.emitters import EMITTERS

__all__ = ["results_of"]


def results_of(
    emitter: Callable[[], KernelBackend], function: Callable[..., Any], arguments: Sequence[Any]
) -> list[np.ndarray]:
    """The results of a function whose program must not change its arguments."""
    lowered = gnomon.jit(function).lower(*arguments)
    program = closed_program(lowered.stages.traced.located, lowered._traced.captures)
    backend: Any = emitter()
    flat = [np.array(x) for x in gnomon.tree.leaves(arguments)]
    before = [x.copy() for x in flat]
    results = backend.compile(backend.lower(program))(flat)
    for x, y in zip(flat, before, strict=True):
        np.testing.assert_array_equal(x, y)
    return [result.to_numpy() for result in results]


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_updates_keep_what_others_read(number: int, emitter: Callable[[], KernelBackend]) -> None:
    seeds = range(8 * number, 8 * number + 8)
    dtype = (np.int32, np.float32)[number % 2]
    functions = [updates.program(seed) for seed in seeds]
    arguments = [updates.arguments_of(seed, dtype) for seed in seeds]

    def together(given: Any) -> Any:
        return [f(*each) for f, each in zip(functions, given, strict=True)]

    found = iter(results_of(emitter, together, [arguments]))
    for seed, function, given in zip(seeds, functions, arguments, strict=True):
        for k, wanted in enumerate(function(*map(gnomon.numpy.asarray, given))):
            np.testing.assert_array_equal(
                next(found), np.asarray(wanted), f"result {k} of seed {seed}"
            )


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize(
    "number", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 5))]
)
def test_loops_and_branches_with_updates(
    number: int, emitter: Callable[[], KernelBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "BACKEND", emitter())
    seeds = range(6 * number, 6 * number + 6)
    loops.check_random(seeds, loops.TAKES, loops.GIVES)


@pytest.mark.parametrize("emitter", EMITTERS)
def test_loops_keep_what_they_start_from_and_read(emitter: Callable[[], KernelBackend]) -> None:
    """A value that the body reads is not overwritten by the carry that begins with it."""
    x = np.arange(4, dtype=np.float32).reshape(2, 2)

    def together(x: Any) -> Any:
        start = gnomon.numpy.sin(x)
        eye = gnomon.numpy.eye(2, dtype=np.float32)
        stepped = gnomon.lax.fori_loop(0, 4, lambda i, m: (eye - x[i % 2]) @ m, eye)
        added = gnomon.lax.while_loop(
            lambda c: gnomon.numpy.all(c[1] - start < 5),
            lambda c: (c[1], c[0] + start),
            (start, start * 2),
        )
        return stepped, added

    for found, wanted in zip(
        results_of(emitter, together, [x]),
        gnomon.tree.leaves(together(gnomon.numpy.asarray(x))),
        strict=True,
    ):
        np.testing.assert_allclose(found, np.asarray(wanted), rtol=1e-6)
