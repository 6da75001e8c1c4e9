"""Values through a compiled program: every dtype, shape and layout."""

from __future__ import annotations

import string
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gnomon.backends.iree.buffer import Buffer
from tests.backends.iree.programs import MLIR_TYPES, Spec, dtype_named, executable, spec

MODELS = ("sync", "async")


def sample(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int = 0) -> np.ndarray[Any, Any]:
    """Arbitrary bits of a dtype, except that a bool is 0 or 1."""
    generator = np.random.default_rng(seed)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(np.bool_)
    count = int(np.prod(shape)) * dtype.itemsize
    return generator.integers(0, 256, count, np.uint8).view(dtype).reshape(shape)


def same_bits(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    assert actual.tobytes() == expected.tobytes(), actual.dtype


MOVE = """
  %t{n} = stablehlo.transpose %{x}, dims = [1, 0] : ({matrix}) -> {transposed}
  %e{n} = stablehlo.slice %{x} [0:0, 0:5] : ({matrix}) -> {empty}
  %p{n} = stablehlo.slice %{y} [1:2] : ({vector}) -> {one}
  %s{n} = stablehlo.reshape %p{n} : ({one}) -> {scalar}
"""
SHAPES = {
    "matrix": (3, 5), "transposed": (5, 3), "empty": (0, 5), "vector": (4,), "one": (1,),
    "scalar": (),
}  # fmt: skip


def test_every_dtype_moves_bit_for_bit() -> None:
    """All of them in one program."""
    dtypes = [dtype_named(name) for name in sorted(MLIR_TYPES)]
    body, inputs, outputs, values = "", [], [], []
    for n, dtype in enumerate(dtypes):
        of = {name: spec(shape, dtype) for name, shape in SHAPES.items()}
        x, y = string.ascii_letters[2 * n : 2 * n + 2]
        body += MOVE.format(n=n, x=x, y=y, **{name: one.mlir for name, one in of.items()})
        inputs += [of["matrix"], of["vector"]]
        outputs += [of["transposed"], of["empty"], of["scalar"]]
        values += [sample((3, 5), dtype), sample((4,), dtype, 1)]
    names = ", ".join(f"%{kind}{n}" for n in range(len(dtypes)) for kind in "tes")
    body += f"  return {names} : {', '.join(one.mlir for one in outputs)}"
    run = executable(body, tuple(inputs), tuple(outputs))
    for args in (values, [Buffer.from_numpy(value) for value in values]):
        results = run(args)
        for n in range(len(dtypes)):
            matrix, vector = values[2 * n : 2 * n + 2]
            transposed, empty, scalar = results[3 * n : 3 * n + 3]
            same_bits(transposed.to_numpy(), matrix.T.copy())
            same_bits(empty.to_numpy(), matrix[:0])
            same_bits(scalar.to_numpy(), vector[1].reshape(()))
        # Results are arguments again.
        again = list(values)
        again[::2] = [Buffer.from_numpy(result.to_numpy().T) for result in results[::3]]
        assert [result.shape for result in run(again)[::3]] == [(5, 3)] * len(dtypes)


ADD = "  %0 = stablehlo.add %a, %a : {0}\n  return %0 : {0}"


@pytest.mark.parametrize("model", MODELS)
def test_shapes(model: str) -> None:
    shapes = [(), (0,), (3, 0, 2), (1,), (2, 3, 4)]
    specs = tuple(spec(shape, np.float32) for shape in shapes)
    body = "".join(
        f"  %{n} = stablehlo.add %{x}, %{x} : {one.mlir}\n"
        for n, (x, one) in enumerate(zip(string.ascii_letters, specs, strict=False))
    )
    results = ", ".join(f"%{n}" for n in range(len(shapes)))
    body += f"  return {results} : {', '.join(one.mlir for one in specs)}"
    run = executable(body, specs, specs, model)
    values = [np.arange(np.prod(shape), dtype=np.float32).reshape(shape) for shape in shapes]
    for args in (values, [Buffer.from_numpy(value) for value in values]):
        for value, result in zip(values, run(args), strict=True):
            same_bits(result.to_numpy(), np.asarray(value + value))
            assert not result.to_numpy().flags.writeable


LARGE = spec((300, 100), np.float32)


def layouts() -> dict[str, np.ndarray[Any, Any]]:
    base = np.arange(30000, dtype=np.float32).reshape(300, 100)
    backing = np.zeros(30000 * 4 + 64, np.uint8)
    start = -backing.ctypes.data % 64
    arrays = {"fortran": np.asfortranarray(base), "strided": np.repeat(base, 2, 1)[:, ::2]}
    for offset in (16, 4, 1):
        raw = np.zeros(30000 * 4 + 128, np.uint8)
        begin = -raw.ctypes.data % 64 + offset
        array = raw[begin : begin + 120000].view(np.float32).reshape(300, 100)
        array[...] = base
        arrays[f"offset {offset}"] = array
    read_only = base.copy()
    read_only.flags.writeable = False
    arrays["read-only"] = read_only
    arrays["reversed"] = base[::-1].copy()[::-1]
    arrays["broadcast"] = np.broadcast_to(base[0], (300, 100))
    arrays["big-endian"] = base.astype(">f4")
    assert start >= 0
    return arrays


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("layout", sorted(layouts()))
def test_layouts(layout: str, model: str) -> None:
    array = layouts()[layout]
    run = executable(ADD.format(LARGE.mlir), (LARGE,), (LARGE,), model)
    expected = (array + array).astype(np.float32)
    native = array.astype(np.float32) if layout == "big-endian" else array
    np.testing.assert_array_equal(run([native])[0].to_numpy(), expected)
    np.testing.assert_array_equal(run([Buffer.from_numpy(array)])[0].to_numpy(), expected)


def test_numpy_memory_is_used_in_place() -> None:
    array = np.ones((300, 100), np.float32)
    assert array.ctypes.data % 16 == 0
    buffer = Buffer.from_numpy(array)
    assert np.shares_memory(buffer.to_numpy(), array)
    run = executable(ADD.format(LARGE.mlir), (LARGE,), (LARGE,))
    run([buffer])
    array[0, 0] = 5
    assert run([buffer])[0].to_numpy()[0, 0] == 10


def test_results_are_read_without_a_copy() -> None:
    run = executable(ADD.format(LARGE.mlir), (LARGE,), (LARGE,))
    (result,) = run([np.ones((300, 100), np.float32)])
    assert result.to_numpy() is result.to_numpy()
    kept = result.to_numpy()
    del result
    np.testing.assert_array_equal(kept, 2)


MATH = "  %0 = stablehlo.{op} %a : {t}\n  return %0 : {t}"


@pytest.mark.parametrize("model", MODELS)
def test_views_of_a_result_keep_its_memory(model: str) -> None:
    kind = spec((50, 50), np.float32)
    run = executable(ADD.format(kind.mlir), (kind,), (kind,), model)
    matrix = np.arange(2500, dtype=np.float32).reshape(50, 50)
    views: list[tuple[Any, Any]] = []
    for take in (np.ndarray.view, np.transpose, np.ravel, lambda a: a[3:, ::2], lambda a: a[None]):
        views.append((take(run([matrix])[0].to_numpy()), take(matrix)))
        # The result is gone; these would take its memory if the view did not hold it.
        taken = [np.full((50, 50), -1, np.float32) for _ in range(20)]
        del taken
    for view, expected in views:
        np.testing.assert_array_equal(view, 2 * expected)


@pytest.mark.parametrize(
    ("op", "function"), [("sine", np.sin), ("tanh", np.tanh), ("exponential", np.exp)]
)
def test_float64_is_computed_in_float64(op: str, function: Any) -> None:
    one = spec((5,), np.float64)
    run = executable(MATH.format(op=op, t=one.mlir), (one,), (one,))
    value = np.linspace(-1, 1, 5)
    expected = function(value)
    error = np.abs(run([value])[0].to_numpy() - expected)
    assert np.all(error <= 4 * np.spacing(np.abs(expected)))


def test_int64_is_computed_in_int64() -> None:
    one = spec((2,), np.int64)
    run = executable(ADD.format(one.mlir), (one,), (one,))
    value = np.array([2**40 + 1, -(2**61)])
    same_bits(run([value])[0].to_numpy(), value + value)


def test_float32_to_bfloat16_rounds_to_nearest() -> None:
    body = "  %0 = stablehlo.convert %a : ({0}) -> {1}\n  return %0 : {1}"
    source, result = spec((4,), np.float32), spec((4,), ml_dtypes.bfloat16)
    run = executable(body.format(source.mlir, result.mlir), (source,), (result,))
    value = np.array([1.00390625, -3.0, 1e-3, 1e30], np.float32)
    same_bits(run([value])[0].to_numpy(), value.astype(ml_dtypes.bfloat16))


def test_no_arguments_and_several_results() -> None:
    one: Spec = spec((2,), np.float32)
    body = f"""
      %0 = stablehlo.constant dense<[1.0, 2.0]> : {one.mlir}
      %1 = stablehlo.add %0, %0 : {one.mlir}
      return %0, %1 : {one.mlir}, {one.mlir}
    """
    for model in MODELS:
        first, second = executable(body, (), (one, one), model)([])
        np.testing.assert_array_equal(first.to_numpy(), [1, 2])
        np.testing.assert_array_equal(second.to_numpy(), [2, 4])


@pytest.mark.parametrize("dtype", [object, "U3", "datetime64[s]", ml_dtypes.float4_e2m1fn])
def test_unsupported_dtypes_are_named(dtype: Any) -> None:
    with pytest.raises(TypeError, match=r"cannot be passed to a compiled program.*float32"):
        Buffer.from_numpy(np.zeros(3, dtype))
