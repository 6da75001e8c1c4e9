"""Arrays with a short last dimension: which are permuted, and that results stay the same."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.iree.legalize.after_lowering import short_dimensions
from tests.backends.iree.joined import Call, check_joined
from tests.tolerance import assert_near

RNG = np.random.default_rng(0)
X = RNG.standard_normal((48, 3)).astype(np.float32)
Y = RNG.standard_normal((40, 3)).astype(np.float32)
LOGGER = short_dimensions.__name__


@pytest.fixture
def reports(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., list[str]]]:
    """What is said about the groups of a program."""

    def reports_of(f: Callable[..., Any], *arguments: Any) -> list[str]:
        caplog.clear()
        gn.jit(f).lower(*arguments).as_text("stablehlo")
        return [r.message for r in caplog.records if r.name == LOGGER]

    with caplog.at_level(logging.DEBUG, LOGGER):
        yield reports_of


def near(units: float) -> Callable[[np.ndarray, np.ndarray], None]:
    """A comparison by units of the largest element."""

    def compare(found: np.ndarray, expected: np.ndarray) -> None:
        scale = float(np.abs(np.asarray(expected, np.float64)).max()) or 1.0
        assert_near(found, expected, units, scale=scale)

    return compare


def forces(x: Any, y: Any) -> Any:
    apart = x[:, None] - y[None]
    return (apart / (1 + (apart * apart).sum(-1, keepdims=True))).sum(1)


def energy(x: Any, y: Any) -> Any:
    apart = x[:, None] - y[None]
    apart = apart - 2 * gnp.round(apart / 2)
    return gnp.log1p((apart * apart).sum(-1)).sum()


def masked(x: Any, y: Any) -> Any:
    """Iotas, comparisons, selections, clamps, conversions, and a literal that is no number."""
    shape = (len(x), len(y), 3)
    apart = gnp.clip(x[:, None] - y[None], -1, 1)
    at = lax.broadcasted_iota(np.int32, shape, 2) + lax.broadcasted_iota(np.int32, shape, 1)
    chosen = gnp.where((at % 3 == 0) | (apart > 0.5), apart, gnp.inf)
    return gnp.isfinite(chosen).astype(np.int8).sum(0), gnp.minimum(chosen, 2).sum(1)


def step(x: Any, y: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, x: x + 0.1 * forces(x, y), x)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "forces": forces,
    "gradient": gn.grad(energy),
    "both gradients": gn.grad(energy, (0, 1)),
    "masks": masked,
    "loop": step,
    "gradient of a scan": gn.grad(
        lambda x, y: lax.scan(lambda x, _: (x + forces(x, y), x.sum()), x, None, 3)[1].sum()
    ),
    "branch": lambda x, y: lax.cond(x[0, 0] > 0, forces, lambda x, y: x, x, y),
    "second derivative": lambda x, y: gn.jvp(gn.grad(energy), (x, y), (x, 0 * y))[1],
    "vmap": lambda x, y: gn.vmap(forces, (None, 0))(x, gnp.stack([y, -y])),
    "extrema": lambda x, y: (abs(x[:, None] * y[None]).max(0), (x[:, None] + y[None]).min((0, 1))),
    "products and bools": lambda x, y: (
        (1 + 0.01 * x[:, None] * y[None]).prod(1),
        (x[:, None] > y[None]).any(0),
        (x[:, None] > y[None]).all((1, 2)),
    ),
}


# The legalization does not look at the dtype, so each other dtype has a third of the programs.
@pytest.mark.sampled(0.34)
@pytest.mark.parametrize(
    ("dtype", "names"),
    [
        (np.float32, list(PROGRAMS)),
        (np.float64, list(PROGRAMS)[::3]),
        (np.float16, list(PROGRAMS)[1::3]),
    ],
)
def test_results_are_those_of_eager_code(dtype: Any, names: list[str], reports: Any) -> None:
    with gn.enable_x64(dtype is np.float64):
        given = X.astype(dtype), Y.astype(dtype)
        for name in names:
            # A scan stores its arrays for the backward pass.
            stored = name == "gradient of a scan"
            put_first = [r for r in reports(PROGRAMS[name], *given) if r.endswith("is put first")]
            assert bool(put_first) is not stored, name
        calls: dict[str, Call] = {name: (PROGRAMS[name], given) for name in names}
        check_joined(calls, near(64))


def test_shapes(reports: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        both = a * b + gnp.sin(a)
        return [both.sum(d) for d in range(a.ndim)], both.sum((0, -1)), both.sum((0, -2))

    calls: dict[str, Call] = {}
    for shape in ((33, 32, 2), (2, 32, 8), (1, 2, 40, 3), (2, 1, 2, 3, 33, 5)):
        a = RNG.standard_normal((*shape[:-2], 1, shape[-1])).astype(np.float32)
        b = RNG.standard_normal(shape[-2:]).astype(np.float32)
        (report,) = reports(f, a, b)
        assert report.endswith(f"arrays of {list(shape)}: {shape[-1]} is put first")
        calls[f"shape {shape}"] = f, (a, b)
    check_joined(calls, near(16))


KEPT: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "distances": (
        lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
        "all reductions are over the last dimension",
    ),
    "a result": (lambda x, y: (a := x[:, None] - y[None], a.sum(1)), "func.return reads it"),
    "sliced": (
        lambda x, y: (a := gnp.sin(x[:, None] - y[None]), a.sum(1), a[::2].sum(1))[1:],
        "stablehlo.slice reads it",
    ),
    "sorted": (
        lambda x, y: (gnp.sort(x[:, None] - y[None], 1) * 2).sum(1),
        "it reads a result of",
    ),
    "an argument": (
        lambda x, y: (
            (gnp.sin(gnp.ones((48, 40, 3), np.float32) * x[0, 0]) + x[:, None]).sum(1)
            + (lax.optimization_barrier(x[:, None] - y[None]) * 2).sum(1)
        ),
        "it reads a result of stablehlo.optimization_barrier",
    ),
}


def test_arrays_that_something_else_sees_are_kept(reports: Any) -> None:
    for name, (f, reason) in KEPT.items():
        assert any(f"kept, for {reason}" in report for report in reports(f, X, Y)), name
    calls: dict[str, Call] = {name: (f, (X, Y)) for name, (f, _) in KEPT.items()}
    check_joined(calls, near(16))


def test_long_and_few(reports: Any) -> None:
    """Only short last dimensions after long enough ones are looked at."""
    next_, long = short_dimensions.SHORTEST_NEXT, short_dimensions.LONGEST
    for columns, length in ((next_ - 1, 3), (next_, 1), (next_, long + 1)):
        a = gnp.ones((4, 1, length))
        b = gnp.ones((columns, length))
        assert not reports(lambda a, b: (a * b + 1).sum(1), a, b)
