"""Object code of compiled programs, loaded into this process."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon._native import ObjectCode
from gnomon.backends.llvm.engine import compile_module
from gnomon.dialects.mlir import context, ir

pytestmark = pytest.mark.skipif(not ObjectCode.is_supported(), reason="another system's format")

# A call of the C library, a constant, a variable and two functions.
TEXT = """
memref.global "private" @table : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 4 : index
  %table = memref.get_global @table : memref<4xf32>
  scf.for %i = %zero to %end step %one {
    %a = memref.load %x[%i] : memref<4xf32>
    %b = math.expm1 %a : f32
    %c = memref.load %table[%i] : memref<4xf32>
    %d = arith.addf %b, %c : f32
    memref.store %d, %y[%i] : memref<4xf32>
  }
  return
}
"""


@pytest.fixture(scope="module")
def content() -> bytes:
    with context():
        content = compile_module(ir.Module.parse(TEXT)).content
    assert content is not None
    return content


def test_symbols_are_in_the_memory(content: bytes) -> None:
    codes = [ObjectCode(content) for _ in range(3)]
    assert len({code.symbol("_mlir_main") for code in codes}) == 3
    assert all(0 < code.nbytes <= 65536 for code in codes)
    with pytest.raises(KeyError, match="no function sin"):
        codes[0].symbol("sin")


def test_other_content_is_refused(content: bytes) -> None:
    other = bytearray(content)
    other[18] = 8  # the processor, in ELF's header
    with pytest.raises(RuntimeError, match="for another processor"):
        ObjectCode(bytes(other))
    with pytest.raises(RuntimeError, match="no object file"):
        ObjectCode(b"something else" * 10)
    missing = content.replace(b"expm1f\0", b"expmmf\0")
    assert missing != content
    with pytest.raises(RuntimeError, match="this process has no expmmf"):
        ObjectCode(missing)


def test_damaged_content_is_refused_or_loaded(content: bytes) -> None:
    """Reads and writes stay within the content and the memory."""
    for length in range(0, len(content), 7):
        with pytest.raises(RuntimeError):
            ObjectCode(content[:length])
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(3000):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        try:
            ObjectCode(bytes(damaged))
        except (RuntimeError, MemoryError):
            refused += 1
    assert 100 < refused < 2900
