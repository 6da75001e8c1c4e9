"""Factorizations beyond the op table: failures and StableHLO forms."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from gnomon.dialects.contract import TypeRuleError
from gnomon.dialects.emit import ops
from gnomon.dialects.mlir import stablehlo
from gnomon.dialects.types import TensorType
from gnomon.passes.lower import lower_to_stablehlo
from gnomon_runtime.linear_algebra import (
    elimination,
    factorizations,
    lapack,
    shifted_qr,
    substitution,
    systems,
)
from tests.ops import rows_linear_algebra
from tests.ops.check import DTYPES, draw_all, program_of
from tests.tolerance import assert_near

POSITIVE = np.array([[4.0, 1.0], [1.0, 3.0]])


def test_a_member_that_fails_is_nan_and_the_others_stand() -> None:
    batch = np.stack([POSITIVE, -POSITIVE, np.full((2, 2), np.nan)])
    factor = ops.cholesky.evaluate(batch)
    assert_near(factor[0], np.linalg.cholesky(POSITIVE), 4)
    lower = np.tri(2, dtype=bool)
    assert np.isnan(factor[1:, lower]).all() and not factor[:, ~lower].any()
    values = {"full_matrices": True, "compute_uv": True}
    s, u, vh = ops.svd.evaluate(batch, **values)
    assert_near(s[0], np.linalg.svd(POSITIVE, compute_uv=False), 8)
    assert all(np.isnan(x[2]).all() for x in (s, u, vh))


def test_singular_systems_give_infinities_and_nan_for_themselves_only() -> None:
    batch = np.stack([POSITIVE, np.ones((2, 2))])
    with np.errstate(all="ignore"):
        x = ops.solve.evaluate(batch, np.ones((2, 2, 1)), transpose_a=False)
    assert_near(x[0], np.linalg.solve(POSITIVE, np.ones((2, 1))), 8)
    assert not np.isfinite(x[1]).any()


@pytest.fixture(params=["lapack", "numpy"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elimination and substitution in both implementations."""
    if request.param == "numpy":
        monkeypatch.setattr(lapack, "_library", lambda **_: None)
    for find in (lapack._getrf, lapack._trsm):
        find.cache_clear()
        request.addfinalizer(find.cache_clear)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("shape", [(90, 70), (3, 5, 4), (70, 100), (2, 0, 3), (0, 3, 3)])
def test_lu_is_a_factorization(shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).normal(size=shape)
    k = min(shape[-2:])
    lu, pivots, permutation = elimination.factor(a)
    lower = np.tril(lu[..., :k], -1) + np.eye(shape[-2], k)
    assert (np.abs(lower) <= 1).all()
    rows = np.take_along_axis(a, permutation[..., None], -2)
    assert_near(lower @ np.triu(lu[..., :k, :]), rows, 16)
    np.testing.assert_array_equal(elimination.permutation_of(pivots, shape[-2]), permutation)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit_diagonal", [True, False])
def test_substitution_reads_one_triangle(dtype: str, lower: bool, unit_diagonal: bool) -> None:
    """This holds for matrices in row-major and column-major order, and for parts of larger ones."""
    rng = np.random.default_rng(0)
    n, triangle = 40, np.tril if lower else np.triu
    matrix = (rng.normal(size=(2, n, n)) / n + 2 * np.eye(n)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        matrix *= np.exp(1j * rng.normal(size=(n, n))).astype(dtype)
    read = triangle(matrix, -1 if lower else 1) + np.eye(n, dtype=dtype)
    read = read if unit_diagonal else triangle(matrix)
    x = rng.normal(size=(2, n, 3)).astype(dtype)
    for given in (matrix, matrix.swapaxes(1, 2).copy().swapaxes(1, 2), np.tile(matrix, (1, 2, 2))):
        part = given[:, :n, :n]
        found = substitution.substitute(part, read @ x, lower=lower, unit_diagonal=unit_diagonal)
        assert found.dtype == dtype
        assert_near(found, x, 64)


def test_where_lapack_is_found_it_is_used() -> None:
    """The functions have the expected names in NumPy's wheels for Linux."""
    if "scipy-openblas" not in str(np.show_config(mode="dicts")) or sys.platform != "linux":
        pytest.skip("NumPy comes with another LAPACK")
    assert lapack.factor_in_place(np.eye(2, dtype=np.float32)[None]) is not None


# Nearly Jordan blocks: the eigenvectors of each are nearly parallel and thus useless.
_DEFECTIVE = np.kron(np.eye(3), np.diag(np.ones(4), 1)) + np.diag(np.linspace(1, 1 + 1e-12, 15))
_TURN = np.linalg.qr(np.random.default_rng(1).normal(size=(15, 15)))[0]


@pytest.mark.parametrize("form", [shifted_qr.schur, shifted_qr._by_steps])
@pytest.mark.parametrize("is_complex", [False, True])
def test_schur_form(form: Any, is_complex: bool) -> None:
    rng = np.random.default_rng(0)
    random = rng.normal(size=(24, 24))
    for a in (random, np.eye(3), np.zeros((2, 2)), _TURN.T @ _DEFECTIVE @ _TURN, np.ones((1, 1))):
        a = a * (1 + 0.5j) if is_complex else a
        t, z = form(a)
        assert_near(z @ t @ z.conj().T, a, 64)
        assert_near(z @ z.conj().T, np.eye(len(a)), 32)
        assert not np.tril(t, -1 if is_complex else -2).any()
        below = np.diagonal(t, -1)
        # Blocks of two rows are not adjacent, and each has two complex eigenvalues.
        assert not (below[1:] * below[:-1]).any()
        assert (np.diagonal(t, 1)[below != 0] * below[below != 0] < 0).all()


def test_nearly_dependent_eigenvectors_are_noticed() -> None:
    assert shifted_qr._from_eigenvectors(_TURN.T @ _DEFECTIVE @ _TURN) is None
    assert shifted_qr._from_eigenvectors(np.random.default_rng(0).normal(size=(24, 24))) is not None


def test_cofactors_of_singular_matrices() -> None:
    a = np.diag([1.0, 2.0, 0.0])
    assert_near(ops.cofactors.evaluate(a), np.diag([0.0, 0.0, 2.0]), 4)
    np.testing.assert_array_equal(ops.cofactors.evaluate(np.diag([3.0, 0, 0])), np.zeros((3, 3)))


@pytest.mark.parametrize("op", sorted({row.op for row in rows_linear_algebra.ROWS}))
def test_the_stablehlo_form_is_a_portable_artifact(op: str) -> None:
    for row in rows_linear_algebra.ROWS:
        if row.op == op:
            dtype = DTYPES[row.dtypes.split()[-1]]
            program = program_of(row, dtype, draw_all(row, dtype))
            lower_to_stablehlo(program)
            assert program.module.operation.verify()
            assert f"@gnomon.{op}" in str(program.module) or f"stablehlo.{op}" in str(
                program.module
            )
            assert stablehlo.serialize_portable_artifact_str(str(program.module), "1.9.0")


@pytest.mark.parametrize(
    ("op", "types", "params", "message"),
    [
        ("cholesky", ["f32 2 3"], {}, "takes square matrices"),
        ("cholesky", ["bf16 2 2"], {}, "takes c128, c64, f32, f64; got bf16"),
        ("lu", ["f32 3"], {}, "matrices of rank 2 or more"),
        ("solve", ["f32 2 2", "f32 3 1"], {"transpose_a": False}, "a system"),
        ("householder_product", ["f32 2 3", "f32 3"], {}, "rows >= columns"),
        ("lu_pivots_to_permutation", ["i32 3"], {"size": 2}, "less than the number of pivots"),
    ],
)
def test_type_rules_name_their_operands(
    op: str, types: list[str], params: dict[str, object], message: str
) -> None:
    given = []
    for text in types:
        name, *shape = text.split()
        given.append(TensorType(tuple(map(int, shape)), DTYPES[name]))
    with pytest.raises(TypeRuleError, match=message):
        getattr(ops, op).infer_types(given, params)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_singular_values_of_infinite_matrices_are_nan(value) -> None:
    """NumPy's own `svd` does not return for a matrix with an infinity."""
    matrices = np.ones((2, 4, 4), np.float32)
    matrices[1, 0, 0] = value
    s, u, vh = factorizations.svd(matrices, full_matrices=True, compute_uv=True)
    (only,) = factorizations.svd(matrices, full_matrices=True, compute_uv=False)
    for found in (only, systems.cofactors(matrices), factorizations.pinv(matrices, np.ones(2))):
        assert np.isfinite(found[0]).all()
        assert np.isnan(found[1]).all()
    assert all(np.isnan(x[1]).all() and np.isfinite(x[0]).all() for x in (s, u, vh))


def test_pivots_outside_of_the_matrix_swap_nothing() -> None:
    pivots = np.array([[1, 4, -1], [9, 2, 2]], np.int32)
    expected = [[1, 0, 2, 3], [0, 2, 1, 3]]
    np.testing.assert_array_equal(elimination.permutation_of(pivots, 4), expected)
    np.testing.assert_array_equal(elimination.permutation_of(pivots[0], 4), expected[0])
