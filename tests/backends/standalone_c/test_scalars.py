"""Programs in C at the edges of the dtypes, and StableHLO that no op of the dialect becomes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gnomon.dialects.body import Body
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.types import is_complex, is_floating
from gnomon.passes.raise_stablehlo import raise_stablehlo
from tests.backends.standalone_c.compiled import CompiledC
from tests.ops.check import DTYPES, run, types_of
from tests.ops.test_elementwise_edges import edges
from tests.tolerance import assert_each_near

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

_OF_BITS = "and or xor not shift_left shift_right_logical shift_right_arithmetic"
_ORDERED = "lt le gt ge max min clamp"
_GROUPS = {
    "bool": f"and or xor not eq ne add mul select {_ORDERED}",
    "integers": f"add sub mul div rem neg sign square eq ne select {_OF_BITS} {_ORDERED} "
    "population_count clz mulhi",
    "floats": f"add sub mul div rem neg sign abs floor ceil square sqrt cbrt eq ne is_finite "
    f"nextafter atan2 pow select {_ORDERED}",
    "complex numbers": "add sub mul neg conj real imag abs sign square eq ne exp log sqrt tan tanh "
    "sinh cosh asin atanh logistic max select",
}
_PARTS = (0.0, -0.0, 1.0, -2.5, 50.0, 3e38, np.inf, -np.inf, np.nan)


def _group(dtype: np.dtype) -> str:
    if is_complex(dtype):
        return "complex numbers"
    return "floats" if is_floating(dtype) else "bool" if dtype == np.bool_ else "integers"


def _operands(op: str, dtype: np.dtype) -> list[np.ndarray]:
    values = edges(dtype) if dtype != np.bool_ else np.array([False, True])
    if is_complex(dtype):
        values = np.array([complex(a, b) for a in _PARTS for b in _PARTS], dtype)
    count = len(REGISTRY[f"gnomon.{op}"].operands)
    if count == 3:
        values = values[:: max(len(values) // 12, 1)]
    elif count == 2 and is_complex(dtype):
        # Whether two products that overflow cancel depends on the way in which they are added.
        values = values[np.abs(values.real) < 1e38][::4]
    grids = [grid.reshape(-1) for grid in np.meshgrid(*[values] * count)]
    if op == "select":
        grids[0] = np.arange(grids[0].size) % 2 == 0
    return grids


@pytest.mark.parametrize(
    "names",
    [
        "bool i32 u8 f16 c64",
        *(
            pytest.param(names, marks=pytest.mark.slow)
            for names in ("i8 i16 i64", "u16 u32 u64", "bf16 f32", "f64 c128")
        ),
    ],
)
def test_edges(names: str) -> None:
    dtypes = [DTYPES[name] for name in names.split()]
    cases = [(op, _operands(op, d)) for d in dtypes for op in _GROUPS[_group(d)].split()]
    flat = [operand for _, operands in cases for operand in operands]

    def emit(*values: Any) -> list[Any]:
        results: list[Any] = []
        rest = list(values)
        for op, operands in cases:
            taken, rest = rest[: len(operands)], rest[len(operands) :]
            results += REGISTRY[f"gnomon.{op}"].build(taken, {}, ())
        return results

    program = Program()
    program.add("main", Body.build(types_of(flat), emit), public=True)
    with np.errstate(all="ignore"):
        expected = run(program, "main", flat)
    backend = CompiledC()
    results = backend.compile(backend.lower(program))(flat)
    for (op, operands), result, wanted in zip(cases, results, expected, strict=True):
        found = result.to_numpy()
        assert found.dtype == wanted.dtype
        name = f"{op} of {operands[-1].dtype}"
        if not (is_floating(wanted.dtype) or is_complex(wanted.dtype)):
            np.testing.assert_array_equal(found, wanted, name)
            continue
        if is_complex(wanted.dtype):
            # An infinite part next to nan has an arbitrary sign.
            lost = np.isinf(wanted) & np.isnan(wanted)
            found, wanted = (np.where(lost, _nan_or_size(z), z) for z in (found, wanted))
        for part in ("real", "imag") if is_complex(wanted.dtype) else ("real",):
            _assert_near(getattr(found, part), getattr(wanted, part), np.abs(wanted), name)


def _nan_or_size(z: np.ndarray) -> np.ndarray:
    parts = np.abs(np.stack([z.real, z.imag], -1))
    return np.ascontiguousarray(parts).view(z.dtype)[..., 0]


def _assert_near(found: np.ndarray, wanted: np.ndarray, size: np.ndarray, name: str) -> None:
    """A part of a number may be off by a few units of the number."""
    known = np.isfinite(wanted)
    # NumPy does not know that nans of other libraries' dtypes are equal here.
    infinite, expected = (x[~known].astype(np.float64) for x in (found, wanted))
    np.testing.assert_array_equal(infinite, expected, name)
    scale = np.where(np.isfinite(size), size, np.abs(wanted))[known].astype(np.float64)
    assert_each_near(found[known], wanted[known], 16, scale)


def _run(text: str, *arrays: Any) -> Sequence[np.ndarray]:
    backend = CompiledC()
    artifact = backend.lower(raise_stablehlo(ir.Module.parse(text, context())))
    return [r.to_numpy() for r in backend.compile(artifact)([np.asarray(a) for a in arrays])]


def test_bits_of_bools() -> None:
    # Bools are bytes in memory; as bits of other numbers, the first is the lowest.
    bits = np.random.default_rng(0).integers(0, 2, (2, 0, 16)).astype(np.bool_)
    bits = np.concatenate([bits, np.eye(3, 16, 2, dtype=np.bool_)[None].repeat(2, 0)], 1)
    numbers = np.array([5, -3, 2**31 - 1], np.int32)
    found = _run(
        """func.func public @main(%a: tensor<2x3x16xi1>, %b: tensor<3xi32>, %c: tensor<0x8xi1>)
            -> (tensor<2x3xi16>, tensor<3x32xi1>, tensor<0xui8>) {
          %0 = stablehlo.bitcast_convert %a : (tensor<2x3x16xi1>) -> tensor<2x3xi16>
          %1 = stablehlo.bitcast_convert %b : (tensor<3xi32>) -> tensor<3x32xi1>
          %2 = stablehlo.bitcast_convert %c : (tensor<0x8xi1>) -> tensor<0xui8>
          return %0, %1, %2 : tensor<2x3xi16>, tensor<3x32xi1>, tensor<0xui8>
        }""",
        bits,
        numbers,
        np.zeros((0, 8), np.bool_),
    )
    packed = np.packbits(bits, -1, bitorder="little").view(np.int16)[..., 0]
    unpacked = np.unpackbits(numbers.view(np.uint8), bitorder="little").reshape(3, 32)
    np.testing.assert_array_equal(found[0], packed)
    np.testing.assert_array_equal(found[1], unpacked.astype(np.bool_))
    assert found[2].shape == (0,)


def test_complex_constants() -> None:
    found = _run(
        """func.func public @main() -> (tensor<2xcomplex<f64>>, tensor<2xcomplex<f32>>,
                                        tensor<complex<f32>>) {
          %0 = stablehlo.constant dense<[(1.0, 2.5e-300), (0x7FF0000000000000, -4.0)]>
             : tensor<2xcomplex<f64>>
          %1 = stablehlo.constant dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>
          %2 = stablehlo.constant dense<(0.1, 0x7FC00000)> : tensor<complex<f32>>
          return %0, %1, %2
             : tensor<2xcomplex<f64>>, tensor<2xcomplex<f32>>, tensor<complex<f32>>
        }"""
    )
    np.testing.assert_array_equal(found[0], [complex(1, 2.5e-300), complex(np.inf, -4)])
    np.testing.assert_array_equal(found[1], np.full(2, 1 + 2j, np.complex64))
    np.testing.assert_array_equal(found[2], np.complex64(complex(np.float32(0.1), np.nan)))
