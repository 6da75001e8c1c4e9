"""Rounding errors of long sums: reductions, cumulative operations, products and their gradients."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gnomon as gn
from gnomon.tools.accuracy.page import PEER

__all__ = [
    "CASES",
    "LAYOUTS",
    "Case",
    "bound",
    "call_on",
    "exact_of",
    "page_of_sums",
    "roundings",
    "stored",
]

SIZES = (1_000, 100_000, 30_000_000)
# More terms than this are measured in these layouts only.
_MANY, _OF_MANY = 1_000_000, ("vector", "rows")
# A sum of n terms may be off by this many roundings, and log2(n) more.
_CHAIN = 64

_HEADER = """\

## Sums

The error of a sum, a mean, a cumulative sum or a sum of products of n terms is at most {chain} +
log2(n) roundings: eager and compiled, along every axis, whatever the layout. A rounding is half of
a unit in the last place of the sum of the absolute values of the terms, so {chain} roundings of f32
are 4e-6 of it. No sum adds more than a fixed number of terms one after the other; partial sums are
added in the same way.

A cell has the roundings in the largest error of f32, for n terms that are all 0.1, or random ones
in [0, 1) for variances and covariances. Equal terms are the worst case: all roundings have the same
direction. `vector` is an array of n terms; `columns` are added along the last axis of two rows,
`rows` along the first axis of two columns, and `middle` along an axis between two others;
`transposed` are columns read as rows; `part` are both axes of two columns of an array of three.
Only `vector` and `rows` are measured with 30 million terms.

Products are different: each multiplication changes the result by up to a rounding, in any order, so
`prod` and `cumprod` are off by up to n roundings. Updates of one element by `at[].add`,
`segment_sum` and other scatters are added in their order, as by JAX: n updates of an element may
be off by n roundings. BLAS adds the terms of products of two matrices that both have more than 4096
other rows or columns, in its own order. A compiled convolution in which both the kernel and the
result have more than 64 positions adds the products of an element in order.
"""


@dataclass(frozen=True)
class Layout:
    """The position of the terms in memory.

    Attributes:
      shape: the shape of the stored array for n terms.
      axis: the reduced axis or axes of the view.
      view: the operand, a view of the stored array.
    """

    shape: Callable[[int], tuple[int, ...]]
    axis: int | tuple[int, ...]
    view: Callable[[Any], Any] = lambda x: x


LAYOUTS = {
    "vector": Layout(lambda n: (n,), 0),
    "columns": Layout(lambda n: (2, n), 1),
    "rows": Layout(lambda n: (n, 2), 0),
    "middle": Layout(lambda n: (2, n, 2), 1),
    "transposed": Layout(lambda n: (2, n), 0, lambda x: x.T),
    "part": Layout(lambda n: (n // 2, 3), (0, 1), lambda x: x[:, :2]),
}
_ONE_AXIS = ("vector", "columns", "rows", "middle", "transposed")


@dataclass(frozen=True)
class Case:
    """A function whose result is made of long sums.

    Attributes:
      name: the function's name.
      call: ``call(root, x, axis)`` with the functions of a library.
      exact: ``exact(x, axis)`` with an array of f64.
      layouts: the names of layouts.
      spread: whether the terms are random numbers, not equal ones.
    """

    name: str
    call: Callable[[Any, Any, Any], Any]
    exact: Callable[[np.ndarray, Any], Any]
    layouts: Sequence[str] = tuple(LAYOUTS)
    spread: bool = False


def _reduced(name: str, *, spread: bool = False) -> Case:
    function = getattr(np, name)
    return Case(
        f"numpy.{name}",
        lambda root, x, axis: getattr(root.numpy, name)(x, axis=axis),
        lambda x, axis: function(x, axis=axis),
        spread=spread,
    )


def _logsumexp(x: np.ndarray, axis: Any) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis))


def _softmax(x: np.ndarray, axis: Any) -> Any:
    powers = np.exp(x)
    return powers / np.sum(powers, axis=axis, keepdims=True)


def _of_bias(root: Any, x: Any, axis: Any) -> Any:
    shape = [1 if d in np.atleast_1d(axis) else n for d, n in enumerate(x.shape)]
    return root.grad(lambda b: root.numpy.mean((x + b) ** 2))(root.numpy.zeros(shape, x.dtype))


def _of_kernel(root: Any, x: Any, axis: Any) -> Any:
    """The gradient of a convolution of one channel by its kernel of three elements."""
    signal = x.reshape(1, 1, -1)
    kernel = root.numpy.zeros((1, 1, 3), x.dtype)

    def total(w: Any) -> Any:
        return root.lax.conv_general_dilated(signal, w, (1,), "VALID").sum()

    return root.grad(total)(kernel)[0, 0]


def _products(root: Any, x: Any, axis: Any) -> Any:
    ones = root.numpy.ones(x.shape[axis], x.dtype)
    return root.numpy.tensordot(ones, x, ((0,), (axis,)))


_AXIS = ("vector", "columns", "rows", "transposed")

CASES = (
    _reduced("sum"),
    _reduced("mean"),
    _reduced("nanmean"),
    _reduced("average"),
    _reduced("var", spread=True),
    _reduced("std", spread=True),
    Case(
        "numpy.linalg.norm",
        lambda root, x, axis: root.numpy.linalg.norm(x, axis=axis),
        lambda x, axis: np.linalg.norm(x, axis=axis),
        _ONE_AXIS,
    ),
    Case(
        "numpy.trapezoid",
        lambda root, x, axis: root.numpy.trapezoid(x, axis=axis),
        lambda x, axis: np.trapezoid(x, axis=axis),
        _ONE_AXIS,
    ),
    Case(
        "numpy.cov",
        lambda root, x, axis: root.numpy.cov(x, rowvar=axis == 1),
        lambda x, axis: np.cov(x, rowvar=axis == 1),
        ("columns", "rows", "transposed"),
        spread=True,
    ),
    Case(
        "numpy.einsum",
        lambda root, x, axis: root.numpy.einsum("ij->j" if axis == 0 else "ij->i", x),
        lambda x, axis: np.sum(x, axis=axis),
        ("columns", "rows", "transposed"),
    ),
    Case("numpy.tensordot", _products, lambda x, axis: np.sum(x, axis=axis), _ONE_AXIS),
    Case(
        "numpy.matmul",
        lambda root, x, axis: root.numpy.matmul(x.T, x) if axis == 0 else root.numpy.matmul(x, x.T),
        lambda x, axis: x.T @ x if axis == 0 else x @ x.T,
        ("columns", "rows", "transposed"),
    ),
    Case(
        "nn.logsumexp",
        lambda root, x, axis: root.nn.logsumexp(x, axis=axis),
        _logsumexp,
    ),
    Case("nn.softmax", lambda root, x, axis: root.nn.softmax(x, axis=axis), _softmax),
    Case(
        "grad of a broadcast",
        _of_bias,
        lambda x, axis: np.sum(x, axis=axis, keepdims=True) * (2 / x.size),
    ),
    Case(
        "grad of a convolution",
        _of_kernel,
        lambda x, axis: np.array([x[i : len(x) - 2 + i].sum() for i in range(3)]),
        ("vector",),
    ),
    Case(
        "numpy.cumsum",
        lambda root, x, axis: root.numpy.cumsum(x, axis=axis),
        lambda x, axis: np.cumsum(x, axis=axis),
        _ONE_AXIS,
    ),
    Case(
        "lax.cumlogsumexp",
        lambda root, x, axis: root.lax.cumlogsumexp(x, axis=axis),
        lambda x, axis: np.log(np.cumsum(np.exp(x), axis=axis)),
        _ONE_AXIS,
    ),
)


def bound(n: int) -> float:
    """The most roundings in a sum of n terms."""
    return _CHAIN + math.log2(n)


def stored(case: Case, layout: str, n: int, dtype: Any = np.float32) -> np.ndarray:
    """The array whose view in a layout has n terms for each sum."""
    shape = LAYOUTS[layout].shape(n)
    if case.spread:
        return np.random.default_rng(0).random(shape, np.float32).astype(dtype)
    return np.full(shape, 0.1, dtype)


def call_on(case: Case, layout: str, root: Any, x: Any) -> Any:
    """The function of a library on the view of a stored array."""
    return case.call(root, LAYOUTS[layout].view(x), LAYOUTS[layout].axis)


def exact_of(case: Case, layout: str, x: np.ndarray) -> np.ndarray:
    """The exact result, in a wider dtype."""
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    return np.asarray(case.exact(LAYOUTS[layout].view(x.astype(wide)), LAYOUTS[layout].axis))


def roundings(case: Case, exact: np.ndarray, result: Any) -> float:
    """The largest error of a result, in roundings of its dtype."""
    found = np.asarray(result)
    if exact.shape != found.shape:
        raise ValueError(f"{case.name} has the shape {found.shape} instead of {exact.shape}")
    # Products of different random terms may cancel: their scale is that of the largest result.
    scale = np.abs(exact).max() if case.name == "numpy.cov" else np.abs(exact)
    off = np.abs(found - exact) / scale
    return float(off.max() / (np.finfo(found.dtype).eps / 2))


def _ways() -> dict[str, tuple[Any, bool]]:
    ways = {"eager": (gn, False), "cpu": (gn, True)}
    if importlib.util.find_spec(PEER) is not None:
        ways["JAX, compiled"] = (importlib.import_module(PEER), True)
    return ways


def _measured(case: Case, layout: str, n: int) -> Iterable[str]:
    x = stored(case, layout, n)
    exact = exact_of(case, layout, x)
    for way, (root, is_compiled) in _ways().items():

        def call(x: Any, root: Any = root) -> Any:
            return call_on(case, layout, root, x)

        given = root.numpy.asarray(x)
        off = roundings(case, exact, (root.jit(call) if is_compiled else call)(given))
        if way in ("eager", "cpu") and off > bound(n):
            print(f"beyond its bound: {case.name} {layout} {n} {way} {off}", file=sys.stderr)
        yield f"{off:.3g}"


def page_of_sums(sizes: Sequence[int] = SIZES) -> str:
    """The section of the page, with a row for each function and layout."""
    ways = list(_ways())
    heads = [f"{n:,}: {way}" for n in sizes for way in ways]
    lines = [_HEADER.format(chain=_CHAIN)]
    lines.append(f"| function | terms | {' | '.join(heads)} |")
    lines.append("|---" * (2 + len(heads)) + "|")
    for case in CASES:
        for layout in case.layouts:
            cells: list[str] = []
            for n in sizes:
                is_measured = n <= _MANY or layout in _OF_MANY
                cells += _measured(case, layout, n) if is_measured else [""] * len(ways)
            lines.append(f"| `{case.name}` | {layout} | {' | '.join(cells)} |")
            print(f"{case.name} {layout}: {' '.join(cells)}", file=sys.stderr, flush=True)
    return "\n".join(lines) + "\n"
