"""Random dimension numbers and result dtypes for dot_general, against JAX."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gnomon.numpy as gnp
from gnomon import enable_x64, jit
from gnomon.backends.reference import Evaluator
from gnomon.dialects import functions
from gnomon.dialects.body import Body
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program, emit_call
from gnomon.dialects.types import TensorType
from tests.tolerance import assert_near

jax = pytest.importorskip("jax")

# Operand dtype, result dtype.
DTYPES = [
    ("f8", "f8"),
    ("c16", "c16"),
    ("f4", "f4"),
    (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
    (ml_dtypes.bfloat16, "f4"),
    ("f2", "f4"),
    ("f4", "f8"),
    ("c8", "c16"),
]


def draw(seed: int) -> tuple[np.random.Generator, tuple[Any, Any], dict[str, Any]]:
    """Operands and parameters of one case."""
    rng = np.random.default_rng(seed)
    operand, result = DTYPES[seed % len(DTYPES)]
    counts = [int(n) for n in rng.integers(0, 3, 4)]
    smallest = 0 if seed % 5 == 4 else 1
    batch, contracted, lhs_free, rhs_free = (
        [int(n) for n in rng.integers(smallest, 4, count)] for count in counts
    )
    shapes, numbers = [], []
    for free in (lhs_free, rhs_free):
        sizes = [*batch, *contracted, *free]
        places = [int(p) for p in rng.permutation(len(sizes))]
        shape = [0] * len(sizes)
        for place, size in zip(places, sizes, strict=True):
            shape[place] = size
        shapes.append(tuple(shape))
        end = len(batch) + len(contracted)
        numbers.append((tuple(places[: len(batch)]), tuple(places[len(batch) : end])))
    params = {
        "lhs_batch": numbers[0][0],
        "rhs_batch": numbers[1][0],
        "lhs_contracting": numbers[0][1],
        "rhs_contracting": numbers[1][1],
        "dtype": np.dtype(result),
        "precision": "highest",
    }
    arrays = tuple(_data(rng, shape, np.dtype(operand)) for shape in shapes)
    return rng, (arrays[0], arrays[1]), params


def _data(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    values = rng.normal(size=shape)
    if dtype.kind == "c":
        values = values + 1j * rng.normal(size=shape)
    return np.asarray(values).astype(dtype)


def by_jax(params: dict[str, Any]) -> Any:
    numbers = (
        (params["lhs_contracting"], params["rhs_contracting"]),
        (params["lhs_batch"], params["rhs_batch"]),
    )
    return lambda x, y: jax.lax.dot_general(
        x, y, numbers, precision=params["precision"], preferred_element_type=params["dtype"]
    )


def apply(op: Any, arrays: list[np.ndarray], operands: Any, params: Any, **how: Any) -> Any:
    """A transformation of dot_general, evaluated."""
    program = Program()
    types = [TensorType(a.shape, a.dtype) for a in operands]
    program.add("f", Body.build(types, lambda x, y: [ops.dot_general(x, y, **params)]))
    main_types = [TensorType(a.shape, a.dtype) for a in arrays]
    main = Body.build(main_types, lambda *xs: emit_call(program, op, "f", list(xs), **how))
    name = program.add("main", main)
    assert program.module.operation.verify()
    return Evaluator(program)(name, *arrays)


def assert_same(actual: np.ndarray, expected: Any) -> None:
    expected = np.asarray(expected)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    assert_near(actual, expected, 8, scale=1.0)


@pytest.mark.sampled(0.34)
@pytest.mark.parametrize("seed", range(24))
def test_derivatives_are_jax(seed: int) -> None:
    with jax.enable_x64(True):
        rng, operands, params = draw(seed)
        function = by_jax(params)
        tangents = [_data(rng, x.shape, x.dtype) for x in operands]
        out, out_tangent = jax.jvp(function, operands, tuple(tangents))
        actual = apply(functions.jvp, [*operands, *tangents], operands, params, wrt=(0, 1))
        assert_same(actual[0], out)
        assert_same(actual[1], out_tangent)
        cotangent = _data(rng, out.shape, out.dtype)
        _, pullback = jax.vjp(function, *operands)
        actual = apply(
            functions.vjp, [*operands, cotangent], operands, params, wrt=(0, 1), outputs=(0,)
        )
        for found, expected in zip(actual[1:], pullback(cotangent), strict=True):
            assert_same(found, expected)


@pytest.mark.sampled(0.8)
@pytest.mark.parametrize("seed", range(24))
def test_batching_is_jax(seed: int) -> None:
    with jax.enable_x64(True):
        rng, operands, params = draw(100 + seed)
        mapped = [(True, True), (True, False), (False, True)][seed % 3]
        axes = tuple(
            int(rng.integers(0, x.ndim + 1)) if m else -1
            for x, m in zip(operands, mapped, strict=True)
        )
        arrays = [
            x if axis < 0 else _data(rng, (*x.shape[:axis], 2, *x.shape[axis:]), x.dtype)
            for x, axis in zip(operands, axes, strict=True)
        ]
        in_axes = tuple(None if axis < 0 else axis for axis in axes)
        expected = jax.vmap(by_jax(params), in_axes)(*arrays)
        (actual,) = apply(
            functions.vmap,
            arrays,
            operands,
            params,
            in_axes=axes,
            out_axes=(0,),
            axis_size=2,
            axis_name="",
        )
        assert_same(actual, expected)


@pytest.mark.sampled(0.68)
@pytest.mark.parametrize("equation", ["i,i->", "bi,bi->b", "ij,jk->ik"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_infinite_complex_products_are_not_nan(equation: str, dtype: type) -> None:
    """A sum of products that are not nan is infinite, not nan."""
    left, _, right = equation.partition("->")[0].partition(",")
    with enable_x64(True):
        a = np.full([2] * len(left), 0.5, dtype)
        a[..., 0] = -np.inf
        a.imag = 0
        b = np.full([2] * len(right), -1.8 - 0.6j, dtype)
        eager = np.asarray(gnp.einsum(equation, a, b))
        assert (eager == complex(np.inf, np.inf)).all()
        np.testing.assert_array_equal(jit(lambda a, b: gnp.einsum(equation, a, b))(a, b), eager)


@pytest.mark.parametrize("equation", ["xy,y->x", "y,yz->z", "y,y->", "xy,yz->xz"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (4, 1, 1), (1, 1, 4), (3, 1, 5), (5, 3, 1), (1, 4, 4)]
)
def test_no_product_with_zero_is_omitted(
    equation: str, dtype: type, sizes: tuple[int, int, int]
) -> None:
    """NumPy's and BLAS's routines for the smallest operands may omit them."""
    left, _, right = equation.partition("->")[0].partition(",")
    size = dict(zip("xyz", sizes, strict=True))
    with enable_x64(True):
        for undefined in (np.nan, np.inf):
            a = np.full([size[c] for c in left], undefined, dtype)
            b = np.zeros([size[c] for c in right], dtype)
            for operands in ((a, b), (np.zeros_like(a), np.full_like(b, undefined))):
                eager = np.asarray(gnp.einsum(equation, *operands))
                assert np.isnan(eager).all()
