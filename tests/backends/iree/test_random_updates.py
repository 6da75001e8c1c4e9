"""Random straight-line programs whose values are updated in place while others read them.

Every step takes any values that there are, so most have several readers, before and after an
update; whole numbers make all results exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax

SHAPE = (6, 4)
STEPS = 14
Step = Callable[[np.random.Generator, Callable[[], Any], Any], Any]


def places(x: Any, n: int) -> Any:
    """Indices of rows that only the device knows, some repeated and some beyond the end."""
    return lax.convert_element_type(x[:n, 0], np.int32) % (SHAPE[0] + 1)


def window(kind: str) -> Step:
    start, op = {"sum": (0, lax.add), "max": (-(2**15), lax.max)}[kind]

    def step(rng: np.random.Generator, pick: Callable[[], Any], i: Any) -> Any:
        x, size = pick(), int(rng.integers(2, 4))
        return lax.reduce_window(x, x.dtype.type(start), op, (size, 1), (1, 1), "SAME") // 4

    return step


def scatter(method: str) -> Step:
    def step(rng: np.random.Generator, pick: Callable[[], Any], i: Any) -> Any:
        x, n = pick(), int(rng.integers(1, 4))
        at = places(pick(), n) if method != "set" else (places(pick(), 1) + np.arange(n)) % 7
        return getattr(x.at[at], method)(pick()[1 : n + 1], mode="drop")

    return step


def update(rng: np.random.Generator, pick: Callable[[], Any], i: Any) -> Any:
    x, piece = pick(), pick()
    rows, columns = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    return lax.dynamic_update_slice(x, piece[-rows:, :columns], (i[0], i[1]))


def one(rng: np.random.Generator, pick: Callable[[], Any], i: Any) -> Any:
    x = pick()
    return x.at[i[int(rng.integers(2))], int(rng.integers(4))].set(x.sum() // 4)


def sort(rng: np.random.Generator, pick: Callable[[], Any], i: Any) -> Any:
    return lax.sort(pick(), dimension=int(rng.integers(2)))


def sums(rng: np.random.Generator, pick: Callable[[], Any], i: Any) -> Any:
    x, axis = pick(), int(rng.integers(2))
    return gnp.broadcast_to(x.sum(axis, keepdims=True, dtype=x.dtype) // 4, SHAPE) - pick()


def running(rng: np.random.Generator, pick: Callable[[], Any], i: Any) -> Any:
    return lax.cumsum(pick(), int(rng.integers(2)), reverse=bool(rng.integers(2))) // 2


def moved(rng: np.random.Generator, pick: Callable[[], Any], i: Any) -> Any:
    x = pick()
    ways = [
        lambda: x[::-1],
        lambda: gnp.roll(x, i[0], 0),
        lambda: x.T.reshape(SHAPE),
        lambda: gnp.concatenate([pick()[:2], x[:4]]),
        lambda: lax.dynamic_slice(gnp.concatenate([x, pick()]), (i[0], 0), SHAPE),
        lambda: x[places(pick(), 6) % 6],
    ]
    return ways[int(rng.integers(len(ways)))]()


def combined(rng: np.random.Generator, pick: Callable[[], Any], i: Any) -> Any:
    x, y = pick(), pick()
    return [x + y, gnp.maximum(x, y - 1), x // 2 - y, gnp.where(x > y, x, 3)][int(rng.integers(4))]


KINDS: list[Step] = [
    *(update, update, one, sort, sums, running, moved, moved, combined, combined),
    *(scatter("add"), scatter("set"), scatter("max")),
    *(window("sum"), window("max")),
]


def program(seed: int, steps: int = STEPS) -> Callable[..., Any]:
    """A function of two arrays and two places; the same steps each time that it is called."""

    def function(x: Any, y: Any, i: Any) -> list[Any]:
        rng = np.random.default_rng(seed)
        values = [x, y]

        def pick() -> Any:
            # Draw recent values more often than others.
            late = rng.integers(2) == 0
            return (
                values[-1 - int(rng.integers(min(3, len(values))))]
                if late
                else values[int(rng.integers(len(values)))]
            )

        for _ in range(steps):
            made = KINDS[int(rng.integers(len(KINDS)))](rng, pick, i)
            values.append(lax.rem(made, made.dtype.type(1 << 10)))
        kept = rng.permutation(len(values))[: 2 + int(rng.integers(4))]
        return [values[k] for k in sorted({*(int(k) for k in kept), len(values) - 1})]

    return function


def arguments_of(seed: int, dtype: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(-9, 10, SHAPE).astype(dtype) for _ in range(2)]
    return [*drawn, rng.integers(0, 6, 2).astype(np.int32)]


def check(seeds: Any, dtype: Any, platform: str) -> None:
    """Compile several programs as one; compare results and arguments with the evaluator."""
    device = gn.devices(platform)[0]
    functions = [program(seed) for seed in seeds]
    arguments = [[gnp.asarray(a) for a in arguments_of(seed, dtype)] for seed in seeds]
    placed = gn.device_put(arguments, device)
    together = gn.jit(lambda given: [f(*a) for f, a in zip(functions, given, strict=True)])
    for _ in range(2):
        results = together(placed)
        for seed, f, given, found in zip(seeds, functions, arguments, results, strict=True):
            for k, (got, wanted) in enumerate(zip(found, f(*given), strict=True)):
                np.testing.assert_array_equal(
                    np.asarray(got), np.asarray(wanted), f"result {k} of seed {seed}"
                )
    for before, after in zip(gn.tree.leaves(arguments), gn.tree.leaves(placed), strict=True):
        np.testing.assert_array_equal(np.asarray(before), np.asarray(after))


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("platform", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
@pytest.mark.parametrize("number", range(6))
def test_updates_keep_what_others_read(number: int, platform: str) -> None:
    check(range(2 * number, 2 * number + 2), (np.int32, np.float32)[number % 2], platform)
