"""Functions that LLVM compiles in this process."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from gnomon.backends.llvm.engine import Code, call_function, compile_module, entry_of
from gnomon.dialects.mlir import context, ir

TEXT = """
func.func @main(%x: memref<8xf32>, %y: memref<8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 8 : index
  scf.for %i = %zero to %end step %one {
    %a = memref.load %x[%i] : memref<8xf32>
    %b = math.expm1 %a : f32
    memref.store %b, %y[%i] : memref<8xf32>
  }
  return
}
"""


def _compiled() -> Code:
    with context():
        return compile_module(ir.Module.parse(TEXT)).code


def test_a_function_is_called_by_its_address() -> None:
    """Small results of expm1 keep their digits: MLIR alone would compute exp(x) - 1."""
    program = _compiled()
    x = np.array([0, 1e-7, -1e-7, 1e-3, 1, -1, 10, -10], np.float32)
    y = np.empty_like(x)
    call_function(entry_of(program, "main"), [x.ctypes.data, y.ctypes.data])
    np.testing.assert_allclose(y, np.expm1(x.astype(np.float64)), rtol=3e-7)


def test_a_missing_function_is_named() -> None:
    with pytest.raises(KeyError, match="no function _mlir_other"):
        entry_of(_compiled(), "other")


def test_what_is_not_used_is_freed() -> None:
    def mappings() -> int:
        with open("/proc/self/maps") as lines:
            return sum(1 for _ in lines)

    kept = [_compiled() for _ in range(2)]
    del kept
    gc.collect()
    before = mappings()
    for _ in range(20):
        _compiled()
    gc.collect()
    assert mappings() <= before + 5
