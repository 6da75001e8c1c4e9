"""Small systems and factorizations that are written out: values, pivots, singular matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, tree_util
from gnomon.backends.iree.legalize import small_matrices
from gnomon.backends.iree.targets import find_target, incompatibility

RNG = np.random.default_rng(0)
# Without pivots the first would lose all digits, and the second would divide by zero.
DELICATE = np.array(
    [[[1e-9, 1, 2], [1, 1, 0], [3, 2, 1]], [[0, 1, 0], [2, 0, 0], [0, 0, -3]]], "f4"
)
SINGULAR = np.array([[1, 2], [2, 4]], np.float32)


def everything(a: Any) -> Any:
    b = a[..., :, :1] + gnp.arange(1.0, 3.0)
    positive = a @ a.mT + gnp.eye(a.shape[-1])
    half = gnp.linalg.cholesky(positive)
    triangular = [
        lax.linalg.triangular_solve(
            half, b if left else b.mT, left_side=left, lower=True, transpose_a=transpose
        )
        for left in (False, True)
        for transpose in (False, True)
    ]
    return {
        "solve": gnp.linalg.solve(a, b),
        "inverse": gnp.linalg.inv(a),
        "cholesky": half,
        "indefinite": gnp.linalg.cholesky(-positive),
        "triangular": triangular,
        "lu": lax.linalg.lu(a),
        "det": gnp.linalg.det(a),
        "slogdet": tuple(gnp.linalg.slogdet(a)),
    }


def check(function: Any, *arguments: Any) -> None:
    check_results(gn.jit(function)(*arguments), function(*arguments))


def check_results(found: Any, expected: Any) -> None:
    pairs = zip(tree_util.tree_leaves(expected), tree_util.tree_leaves(found), strict=True)
    for wanted, got in pairs:
        np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), 2e-4, 2e-4)


def test_values_and_pivots() -> None:
    """All sizes in one program, with and without a batch; no host call is left."""
    arguments = [RNG.normal(size=s).astype("f4") for s in ((1, 1), (2, 2), (4, 4), (5, 2, 2))]
    arguments.append(DELICATE)
    several = lambda *matrices: [everything(a) for a in matrices]  # noqa: E731
    text = gn.jit(several).lower(*arguments).as_text("legalized")
    assert "host_call" not in text
    check(several, *arguments)


def test_matrices_without_a_solution() -> None:
    unknown = np.array([[1, np.nan], [2, 4]], np.float32)

    def function(a: Any, b: Any) -> Any:
        return [
            (gnp.linalg.det(x), gnp.linalg.slogdet(x), gnp.linalg.cholesky(x), lax.linalg.lu(x)[0])
            for x in (a, 0 * a)
        ], (gnp.linalg.det(b), gnp.linalg.cholesky(b))

    check(function, SINGULAR, unknown)
    solved = np.asarray(gn.jit(gnp.linalg.solve)(SINGULAR, np.ones(2, np.float32)))
    assert not np.isfinite(solved).any()


@pytest.mark.parametrize("rows", [small_matrices.LARGEST, small_matrices.LARGEST + 1])
def test_which_are_written_out(rows: int) -> None:
    """In a loop, larger matrices are written out too."""
    inverse = gnp.linalg.inv
    loop = lambda a: lax.fori_loop(0, 3, lambda _, x: inverse(x) + a, a)  # noqa: E731
    a = np.eye(rows, dtype=np.float32)
    calls = ["host_call" in gn.jit(f).lower(a).as_text("legalized") for f in (inverse, loop)]
    assert calls == [rows > small_matrices.LARGEST, False]


@pytest.mark.slow
def test_targets_without_lapack() -> None:
    """The sizes that LAPACK would have elsewhere are written out; larger ones are refused."""
    limit = small_matrices.LARGEST_WITHOUT_LAPACK
    solve, types = gn.jit(gnp.linalg.solve), gn.ShapeDtypeStruct((300, limit, limit), "f4")
    text = solve.lower(types, types).compile(target="wasm32").as_text("legalized")
    assert "host_call" not in text and "gnomon.solve" not in text
    for f, size in (gnp.linalg.inv, limit + 1), (gnp.linalg.qr, 2):
        lowered = gn.jit(f).lower(gn.ShapeDtypeStruct((size, size), "f4"))
        with pytest.raises(gn.errors.UnsupportedOnTarget, match=r"not supported on.*'wasm32'"):
            lowered.compile(target="wasm32")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_values_without_lapack(target: str) -> None:
    if missing := incompatibility(find_target(target)):
        pytest.skip(missing)
    limit = small_matrices.LARGEST_WITHOUT_LAPACK
    for shape in ((5, 5), (limit, limit), (70, limit, limit)):
        a = RNG.normal(size=shape).astype("f4") + 3 * np.eye(shape[-1], dtype="f4")
        compiled = gn.jit(everything).lower(a).compile(target=target)
        check_results(compiled(a), everything(a))
