"""Loops that count become scans, with the rows that they read and write."""

from __future__ import annotations

import numpy as np

from tests.dialects.raising.evaluate import evaluate, raised

LOOP = """
func.func private @row(%x: tensor<3x2xf32>, %i: tensor<i32>) -> tensor<1x2xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 2]
      : (tensor<3x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
  return %r : tensor<1x2xf32>
}}
func.func @main(%x: tensor<3x2xf32>, %w: tensor<1x2xf32>)
    -> (tensor<i32>, tensor<1x2xf32>, tensor<3x2xf32>) {{
  %start = stablehlo.constant dense<{start}> : tensor<i32>
  %empty = stablehlo.constant dense<-1.0> : tensor<3x2xf32>
  %c = stablehlo.constant dense<1.0> : tensor<1x2xf32>
  %0:4 = stablehlo.while(%a = %x, %i = %start, %s = %c, %ys = %empty)
      : tensor<3x2xf32>, tensor<i32>, tensor<1x2xf32>, tensor<3x2xf32>
    cond {{
      %limit = stablehlo.constant dense<{limit}> : tensor<i32>
      %t = stablehlo.compare LT, %i, %limit, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    }} do {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %step = stablehlo.constant dense<{step}> : tensor<i32>
      %r = func.call @row(%a, %i) : (tensor<3x2xf32>, tensor<i32>) -> tensor<1x2xf32>
      %p = stablehlo.multiply %r, %w : tensor<1x2xf32>
      %n = stablehlo.add %s, %p : tensor<1x2xf32>
      %u = stablehlo.dynamic_update_slice %ys, %s, %i, %zero
          : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<3x2xf32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %a, %j, %n, %u
          : tensor<3x2xf32>, tensor<i32>, tensor<1x2xf32>, tensor<3x2xf32>
    }}
  return %0#1, %0#2, %0#3 : tensor<i32>, tensor<1x2xf32>, tensor<3x2xf32>
}}
"""


def expected(start: int, limit: int, step: int, x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    total, rows = np.ones((1, 2), np.float32), np.full((3, 2), -1, np.float32)
    i = start
    while i < limit:
        row = min(max(i, 0), 2)  # starts are clamped
        rows[row] = total
        total = total + x[row : row + 1] * w
        i += step
    return [np.asarray(i, np.int32), total, rows]


def test_counted_loops_are_scans() -> None:
    """Rows are inputs and outputs if the counter passes all of them; other loops keep arrays."""
    x, w = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([[2, 3]], np.float32)
    for start, limit, step, form in (
        (0, 3, 1, "(tensor<1x2xf32>, tensor<i32>, tensor<1x2xf32>, tensor<3x2xf32>)"),
        (1, 3, 1, "carry = 3"),
        (0, 5, 1, "carry = 3"),
        (3, 3, 1, "length = 0"),
        (0, 3, 2, "gnomon.while"),
    ):
        text = LOOP.format(start=start, limit=limit, step=step)
        program = str(raised(text).module)
        assert ("gnomon.scan" in program) == (step == 1)
        assert form in program.replace("tuple<", "(").replace(">>", ">)"), program
        results = evaluate(text, x, w)
        for actual, wanted in zip(results, expected(start, limit, step, x, w), strict=True):
            np.testing.assert_array_equal(actual, wanted)
