"""Calls of libraries for linear algebra, by the names that JAX uses on each platform."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.passes.raise_stablehlo import RaiseError
from tests.dialects.raising.evaluate import evaluate, raised

PROGRAM = """
func.func @main(%a: tensor<3x3xf64>, %b: tensor<4x3xf64>, %d: tensor<3xf64>, %y: tensor<3x1xf64>)
    -> (tensor<3x3xf64>, tensor<3x3xf64>, tensor<i32>, tensor<3xi32>, tensor<4xf64>,
        tensor<4x3xf64>, tensor<3x1xf64>, tensor<3x3xf64>, tensor<3xf64>) {
  %0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}}
      : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<i32>)
  %1:2 = stablehlo.custom_call @cusolver_potrf_ffi(%a) {mhlo.backend_config = {lower = false}}
      : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<i32>)
  %2:3 = stablehlo.custom_call @hipsolver_getrf_ffi(%a) {mhlo.backend_config = {}}
      : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xi32>, tensor<i32>)
  %3:5 = stablehlo.custom_call @cusolver_gesvdj_ffi(%b)
      {mhlo.backend_config = {compute_uv = true, full_matrices = false}}
      : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<4x3xf64>, tensor<3x3xf64>,
                              tensor<i32>)
  %s = stablehlo.broadcast_in_dim %3#1, dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
  %us = stablehlo.multiply %3#2, %s : tensor<4x3xf64>
  %product = stablehlo.dot_general %us, %3#3, contracting_dims = [1] x [1]
      : (tensor<4x3xf64>, tensor<3x3xf64>) -> tensor<4x3xf64>
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %norms = stablehlo.reduce(%product init: %z) applies stablehlo.add across dimensions = [1]
      : (tensor<4x3xf64>, tensor<f64>) -> tensor<4xf64>
  %4 = stablehlo.custom_call @cusparse_gtsv2_ffi(%d, %d, %d, %y) {mhlo.backend_config = {}}
      : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x1xf64>) -> tensor<3x1xf64>
  %5 = stablehlo.custom_call @Eigh(%a) {backend_config = "1,1,15,0.000010"}
      : (tensor<3x3xf64>) -> tuple<tensor<3x3xf64>, tensor<3xf64>>
  %6 = stablehlo.get_tuple_element %5[0]
      : (tuple<tensor<3x3xf64>, tensor<3xf64>>) -> tensor<3x3xf64>
  %7 = stablehlo.get_tuple_element %5[1]
      : (tuple<tensor<3x3xf64>, tensor<3xf64>>) -> tensor<3xf64>
  return %0#0, %1#0, %1#1, %2#1, %norms, %product, %4, %6, %7 : tensor<3x3xf64>, tensor<3x3xf64>,
      tensor<i32>, tensor<3xi32>, tensor<4xf64>, tensor<4x3xf64>, tensor<3x1xf64>,
      tensor<3x3xf64>, tensor<3xf64>
}
"""


def test_factorizations() -> None:
    """The factors multiply to the matrix; pivots count from one; the status is zero."""
    drawn = np.random.default_rng(0)
    b, y = drawn.normal(size=(4, 3)), drawn.normal(size=(3, 1))
    a = b.T @ b + np.eye(3)
    d = np.array([1.0, 2.0, 3.0])
    results = evaluate(PROGRAM, a, b, d, y)
    lower, upper, status, pivots, _, product, solved, vectors, values = results
    np.testing.assert_allclose(np.tril(lower), np.linalg.cholesky(a))
    np.testing.assert_allclose(np.triu(upper), np.linalg.cholesky(a).T)
    assert status == 0
    assert all(1 <= p <= 3 for p in pivots)
    np.testing.assert_allclose(product, b)
    matrix = np.diag(d) + np.diag(d[1:], -1) + np.diag(d[:-1], 1)
    np.testing.assert_allclose(matrix @ solved, y)
    np.testing.assert_allclose(a @ vectors, vectors * values)


def test_results_that_are_not_computed_are_refused_if_they_are_used() -> None:
    """Eigenvalues of a Schur form, which JAX does not use."""
    text = """func.func @main(%x: tensor<3x3xf32>) -> tensor<3xf32> {{
      %0:6 = stablehlo.custom_call @lapack_sgees_ffi(%x)
          {{mhlo.backend_config = {{mode = 86 : ui8, sort = 78 : ui8}}}}
          : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3xf32>, tensor<3xf32>,
                                  tensor<i32>, tensor<i32>)
      %1 = stablehlo.slice %0#0 [0:1, 0:3] : (tensor<3x3xf32>) -> tensor<1x3xf32>
      %2 = stablehlo.reshape %1 : (tensor<1x3xf32>) -> tensor<3xf32>
      return {result} : tensor<3xf32>
    }}"""
    assert "gnomon.schur" in str(raised(text.format(result="%2")).module)
    with pytest.raises(RaiseError, match="does not compute its result 2"):
        raised(text.format(result="%0#2"))
